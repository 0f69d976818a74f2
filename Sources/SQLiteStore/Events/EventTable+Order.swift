// Reads a driver's events in the order of the fold. Follows the driver's chain, which is in the order of time
// (EventChain.swift). SQLite sorts the events of one millisecond (FoldOrder.swift).
//
// The parameter `last` is always the id of the last event in the driver's chain (`ChainEnd.last`). It is nil for a
// driver without events.

import Engine
import JourneyModel

extension EventTable {
    /// The position of a late event in the order of the fold.
    struct Position {
        /// The nearest earlier event that does not share the new event's second (`sharesSecond`). The fold begins with
        /// the journey after this event. `secondPlace` describes an exception.
        ///
        /// Nil if no such event is stored at or after the driver's floor. The fold then begins with the journey at the
        /// floor.
        var predecessor: FoldedEventRow?
        /// Nil in the usual case: fewer than `OrderWithinSecond.searchedMax` stored events share the new event's
        /// second. The fold sorts no more events of a second than this maximum.
        ///
        /// If the second already has `searchedMax` events, the new event comes after all events of the second.
        /// `secondPlace` is then the new event's index in the second, and `predecessor` is the second's last event.
        var secondPlace: Int64?
    }

    func position(
        of event: OrderedEvent, from last: Int64?, notBefore floor: Moment?
    ) throws(SQLiteError) -> Position {
        var position = Position()
        try forEach(from: last, backTo: floor, startingAt: event.occurredAt) { (candidate) throws(SQLiteError) in
            if candidate.event.sharesSecond(with: event) {
                let next = (candidate.secondPlace ?? 0) + 1
                guard next >= OrderWithinSecond.searchedMax else { return true }
                position.secondPlace = next
            } else if !(candidate.event < event) {
                return true
            }
            position.predecessor = candidate
            return false
        }
        return position
    }

    /// Returns the number of the driver's events with the corrected time `time`, counting at most `max`.
    func count(from last: Int64?, at time: Moment, max: Int) throws(SQLiteError) -> Int {
        let time = time.millisecondsSinceEpoch
        var walk = try ChainWalk(chain, from: last, .backward, times: time...time)
        var count = 0
        while count < max, try walk.next() != nil { count += 1 }
        return count
    }

    /// Returns the last event before `time` in the order of the fold; nil if there is none. Ignores events before
    /// `floor`.
    func last(from last: Int64?, before time: Moment, notBefore floor: Moment?) throws(SQLiteError) -> FoldedEventRow? {
        var found: FoldedEventRow?
        try forEach(from: last, backTo: floor, startingAt: time.advanced(byMilliseconds: -1)) { row in
            found = row
            return false
        }
        return found
    }

    /// Calls `visit` with the driver's events from the time `start` on, in the order of the fold. Stops when `visit`
    /// returns false. `visit` may change the event's row in the database.
    ///
    /// - Parameter prepare: called with the ids of events before their rows are read. All events of a millisecond are
    ///   in one call.
    func forEach(
        from last: Int64?, startingAt start: Moment,
        prepare: ([Int64]) throws(SQLiteError) -> Void = { _ throws(SQLiteError) in },
        visit: (FoldedEventRow) throws(SQLiteError) -> Bool
    ) throws(SQLiteError) {
        var walk = try ChainWalk(chain, from: last, .forward, times: start.millisecondsSinceEpoch...Int64.max)
        try visitAll(&walk, isBackward: false, prepare: prepare, visit)
    }

    /// Calls `visit` with the driver's events in reverse order, from the time `start` back to the time `floor`, both
    /// included. Stops when `visit` returns false.
    private func forEach(
        from last: Int64?, backTo floor: Moment?, startingAt start: Moment,
        visit: (FoldedEventRow) throws(SQLiteError) -> Bool
    ) throws(SQLiteError) {
        let first = floor?.millisecondsSinceEpoch ?? .min
        guard first <= start.millisecondsSinceEpoch else { return }
        var walk = try ChainWalk(chain, from: last, .backward, times: first...start.millisecondsSinceEpoch)
        try visitAll(&walk, isBackward: true, visit)
    }

    /// Calls `visit` with the events of the walk, until `visit` returns false. Most calls visit only a few events. The
    /// first query therefore reads one millisecond. Each further query reads about twice as many events as the query
    /// before it.
    private func visitAll(
        _ walk: inout ChainWalk, isBackward: Bool,
        prepare: ([Int64]) throws(SQLiteError) -> Void = { _ throws(SQLiteError) in },
        _ visit: (FoldedEventRow) throws(SQLiteError) -> Bool
    ) throws(SQLiteError) {
        var wanted = 1
        while true {
            let ids = try walk.next(wanted)
            if ids.isEmpty { return }
            try prepare(ids)
            let rows = try events(ids)
            for index in rows.indices {
                guard try visit(rows[isBackward ? rows.count - 1 - index : index]) else { return }
            }
            wanted = min(wanted * 2, 256)
        }
    }
}
