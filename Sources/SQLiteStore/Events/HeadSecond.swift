// The events of a driver's latest second, kept in memory. Clients of v1 send times in whole seconds, so several events
// of a driver often share a second. Such events can be ordered with the help of this memory (OrderWithinSecond),
// without a read of the database.

import JourneyModel

/// The last events in the order, if they share a second.
struct HeadSecond {
    /// The journey before the first of these events. All deadlines that pass before this second are already applied to
    /// this journey.
    var before: StoredJourney
    /// At most `OrderWithinSecond.searchedMax` events, in the order of the fold.
    var rows: [FoldedEventRow]
    /// The number of all events of the second. `rows` may have fewer. The events that are not in `rows` come after
    /// those in `rows` in the order of the fold, and are sorted by their arrival.
    var count: Int
    /// The last event in the order.
    var head: Int64
}

/// The `HeadSecond` of each driver that has had events recently. An entry is used only while its `head` is the driver's
/// last event in the order. `forget` must be called after a rollback, and when other code has changed events.
struct HeadSeconds {
    /// The maximum number of events of all drivers together. An event takes about half a kilobyte.
    private static let rowsMax = 16_384

    private var seconds: [Int64: HeadSecond] = [:]
    private var rowCount = 0

    /// Returns the driver's entry if the event falls into the entry's second; otherwise nil. The entry is removed, so
    /// that the caller can change it without copying its array. The caller then stores it again.
    mutating func take(of driver: DriverRow, sharedBy event: OrderedEvent) -> HeadSecond? {
        guard let head = driver.head, head.correctedAt == event.occurredAt, let second = remove(driver),
            second.head == head.event, let first = second.rows.first, first.event.sharesSecond(with: event)
        else { return nil }
        return second
    }

    mutating func store(_ second: HeadSecond, of driver: DriverRow) {
        if rowCount >= Self.rowsMax { forget() }
        _ = remove(driver)
        seconds[driver.id] = second
        rowCount += second.rows.count
    }

    mutating func forget(_ driver: DriverRow) { _ = remove(driver) }

    mutating func forget() {
        seconds.removeAll(keepingCapacity: true)
        rowCount = 0
    }

    private mutating func remove(_ driver: DriverRow) -> HeadSecond? {
        let second = seconds.removeValue(forKey: driver.id)
        rowCount -= second?.rows.count ?? 0
        return second
    }
}
