// Refolds events of one driver. The caller passes the events in the order of the fold and gets the result for each
// event. The order within a second is computed again, because it depends on the journey before that second.

import JourneyModel

/// The fold's new result for a stored event.
struct Refolded {
    /// The event as it was stored.
    var row: FoldedEventRow
    var verdict: Verdict
    var after: StoredJourney
    var secondPlace: Int64?
    var closedSession: Int64?
    /// Whether this is the last event of its second. Always true if no other event shares the second.
    var endsSecond = true
    /// The stored journey after the last stored event of this second. If no event of the second is stored, the folded
    /// journey right before the second, to which all deadlines before the second are already applied.
    var journeyStored: Journey

    var isChanged: Bool {
        verdict != row.verdict || after.journey != row.after.journey || secondPlace != row.secondPlace
            || closedSession != row.closedSession || row.hasNewFoldSettings
    }

    /// True at the end of a second if the journey after this event equals the stored one. Later events then need no
    /// refold, because a verdict depends only on the event and on the journey before it.
    var meetsStoredJourney: Bool { endsSecond && after.journey == journeyStored }
}

struct FoldWalk {
    enum Step {
        /// A deadline of the journey `of` passes before the event `next`. The expiry event for this deadline is not
        /// stored, so the caller must add it.
        case expiry((name: EventName, at: Moment), of: StoredJourney, next: FoldedEventRow)
        case event(Refolded)
    }

    /// The row number for an event that is not stored yet. It is the highest possible number, because the event arrives
    /// after all stored ones.
    static let newEvent = Int64.max

    /// The journey after the last folded event.
    private(set) var running: StoredJourney
    /// Events of one second that are not folded yet, because more events of this second may follow.
    private var second: [FoldedEventRow] = []

    init(from journey: StoredJourney) {
        running = journey
    }

    /// Folds the event, or keeps it until all events of its second are known. Returns false if `visit` has returned
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

    /// Folds the driver's events whose time is `start` or later, and skips those for which `isMeant` is false. Stops
    /// after `rowsMax` events, but never between two events with the same time. Returns true if this limit left
    /// events unread.
    ///
    /// `last` is the id of the last event in the driver's chain of events.
    ///
    /// `prepare` is called with the ids of several events before the rows of these events are read. `correct` may
    /// replace the settings of an event before the event is folded.
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

    /// Folds the events in `second`. Must be called after the last event. Returns false if `visit` has returned false.
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
    /// Whether at least `OrderWithinSecond.searchedMax` events of the same second arrived before this event. Such an
    /// event keeps its place in the order of arrival.
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
