// Keeps the events of each driver's latest second in memory. Clients of v1 send times in whole seconds, so several
// events often share a second. The fold can then sort them (OrderWithinSecond) without reading the database.

import JourneyModel

/// The events of a driver that share the second of the driver's last event.
struct HeadSecond {
    /// The journey before the first of these events. It includes the effect of every deadline that passed before this
    /// second.
    var before: StoredJourney
    /// At most `OrderWithinSecond.searchedMax` events, in the order of the fold.
    var rows: [FoldedEventRow]
    /// The number of all events of the second. If `rows` has fewer, the further events come after those in `rows`, in
    /// the order of their arrival.
    var count: Int
    /// The last event in the order.
    var head: Int64
}

/// Caches at most one `HeadSecond` per driver. An entry is used only while its `head` is the driver's last event in the
/// order. `forget` must be called after a rollback, and when other code has changed events.
struct HeadSeconds {
    /// The maximum number of cached events. A cached event takes about half a kilobyte.
    private static let rowsMax = 16_384

    private var seconds: [Int64: HeadSecond] = [:]
    private var rowCount = 0

    /// Removes and returns the driver's entry if the event falls into its second; otherwise returns nil. The caller can
    /// then change the entry without a copy of its array, and must store it again.
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
