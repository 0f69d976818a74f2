// Refolds events of one driver, which the caller passes in the order of the fold. Reorders events that share a second,
// because the journey before them may have changed. Writes nothing, but passes the result for each event to the caller.

import JourneyModel

/// The fold's new result for a stored event.
struct Refolded {
    /// The event as it was stored.
    var row: FoldedEventRow
    var verdict: Verdict
    var after: StoredJourney
    var secondPlace: Int64?
    var closedSession: Int64?
    /// Whether this is the last of the events that share a second. Also true for an event that shares its second with
    /// no other.
    var endsSecond = true
    /// The journey to compare with at the end of this event's second (`meetsStoredJourney`). It is the journey stored
    /// with the last event of the second. If the second has no stored event, it is the journey before the second, after
    /// the deadlines passed by then.
    var journeyStored: Journey

    var isChanged: Bool {
        verdict != row.verdict || after.journey != row.after.journey || secondPlace != row.secondPlace
            || closedSession != row.closedSession || row.hasNewFoldSettings
    }

    /// Whether the journey after this event equals the stored one; true only at the end of a second. Later events then
    /// need not be folded, because a verdict depends only on the event and on the journey before it.
    var meetsStoredJourney: Bool { endsSecond && after.journey == journeyStored }
}

struct FoldWalk {
    enum Step {
        /// A deadline of the journey `of` passes before the event `next`. The deadline's expiry event is not stored, so
        /// the caller must add this event.
        case expiry((name: EventName, at: Moment), of: StoredJourney, next: FoldedEventRow)
        case event(Refolded)
    }

    /// The row number for an event that is not stored yet. It is the highest possible number, because this event is the
    /// last to arrive.
    static let newEvent = Int64.max

    /// The journey after the last folded event.
    private(set) var running: StoredJourney
    /// Events of one second that are not folded yet, because more events of the same second may follow.
    private var second: [FoldedEventRow] = []

    init(from journey: StoredJourney) {
        running = journey
    }

    /// Folds the next event in order, or keeps it until its second is complete. Returns false when `visit` has returned
    /// false.
    mutating func take(
        _ row: FoldedEventRow, _ visit: (Step) throws(SQLiteError) -> Bool
    ) throws(SQLiteError) -> Bool {
        if let first = second.first, !first.event.sharesSecond(with: row.event) || row.isBehindSearch {
            guard try finish(visit) else { return false }
        }
        if row.event.isWholeSecond, !row.isBehindSearch {
            second.append(row)
            return true
        }
        return try fold([row], visit)
    }

    /// Folds the driver's events from the time `start` on, except those for which `isMeant` is false. Stops after
    /// `rowsMax` events, but completes the millisecond, because its events are read and sorted together. Returns true
    /// if it stopped at this limit and more events are left.
    ///
    /// `last` is the id of the last event in the driver's chain of events.
    ///
    /// `prepare` is called with the ids of events before their rows are read (`EventTable.forEach`). `correct` may
    /// replace the settings of an event before it is folded.
    mutating func take(
        from last: Int64?, in events: EventTable, startingAt start: Moment, rowsMax: Int,
        where isMeant: (FoldedEventRow) -> Bool = { _ in true },
        prepare: ([Int64]) throws(SQLiteError) -> Void = { _ throws(SQLiteError) in },
        correct: (inout FoldedEventRow) throws(SQLiteError) -> Void = { _ throws(SQLiteError) in },
        _ visit: (Step) throws(SQLiteError) -> Bool
    ) throws(SQLiteError) -> Bool {
        var (count, time) = (0, start)
        var (goesOn, hasMore) = (true, false)
        try events.forEach(from: last, startingAt: start, prepare: prepare) { (row) throws(SQLiteError) in
            guard isMeant(row) else { return true }
            if count >= rowsMax, row.event.occurredAt != time {
                hasMore = true
                return false
            }
            (count, time) = (count + 1, row.event.occurredAt)
            var row = row
            try correct(&row)
            goesOn = try take(row, visit)
            return goesOn
        }
        if goesOn { goesOn = try finish(visit) }
        return goesOn && hasMore
    }

    /// Folds the events that were kept for an unfinished second. Must be called after the last event. Returns false
    /// when `visit` has returned false.
    mutating func finish(_ visit: (Step) throws(SQLiteError) -> Bool) throws(SQLiteError) -> Bool {
        guard !second.isEmpty else { return true }
        defer { second.removeAll(keepingCapacity: true) }
        return try fold(second, visit)
    }

    private mutating func fold(
        _ rows: [FoldedEventRow], _ visit: (Step) throws(SQLiteError) -> Bool
    ) throws(SQLiteError) -> Bool {
        var before = running
        while let deadline = before.journey.takeDeadline(before: rows[0].event) {
            guard try visit(.expiry(deadline, of: running, next: rows[0])) else { return false }
            running = before
        }
        let stored = rows.last { $0.id != Self.newEvent }
        let journeyStored = stored?.after.journey ?? before.journey
        let arrived = rows.count > 1 ? rows.sorted { $0.id < $1.id } : rows
        let order = OrderWithinSecond.order(of: arrived.map(\.event), from: before.journey)
        for (rank, index) in order.enumerated() {
            let row = arrived[index]
            let folded = try row.folded(
                after: running, secondPlace: row.isBehindSearch ? row.secondPlace ?? 0 : Int64(rank),
                endsSecond: rank + 1 == order.count, journeyStored: journeyStored)
            running = folded.after
            guard try visit(.event(folded)) else { return false }
        }
        return true
    }
}

extension FoldedEventRow {
    /// Whether the event arrived after the first `OrderWithinSecond.searchedMax` events of its second. The fold orders
    /// only those first events. The others follow in the order of arrival.
    fileprivate var isBehindSearch: Bool { secondPlace.map { $0 >= OrderWithinSecond.searchedMax } ?? false }

    fileprivate func folded(
        after before: StoredJourney, secondPlace: Int64, endsSecond: Bool, journeyStored: Journey
    ) throws(SQLiteError) -> Refolded {
        var journey = before
        let verdict = journey.journey.apply(event)
        try journey.findRows(from: before, session: session, charger: charger, of: event)
        return Refolded(
            row: self, verdict: verdict, after: journey, secondPlace: event.isWholeSecond ? secondPlace : nil,
            closedSession: before.journey.closing(by: journey.journey) == nil ? nil : before.session,
            endsSecond: endsSecond, journeyStored: journeyStored)
    }
}
