// Reads a driver's events in the order of the fold, by following the driver's chain, which is a linked list. The chain
// is ordered by time. Events of the same millisecond are sorted when they are read (FoldOrder.swift).
//
// The parameter `last` is always the id of the last event in the driver's chain (`ChainEnd.last`). It is nil for a
// driver without events.

import Engine
import JourneyModel

extension EventTable {
    /// Where a new event belongs among a driver's stored events, if it is not the last one in the order of the fold.
    struct Position {
        /// The last event that comes before the new event and does not share its second (`sharesSecond`). The fold
        /// begins with the journey after this event. `secondPlace` describes an exception.
        ///
        /// Nil if there is no such event from the driver's floor on. The floor is the time before which retention has
        /// deleted events. The fold then begins with the journey at the floor.
        var predecessor: FoldedEventRow?
        /// Nil if fewer than `OrderWithinSecond.searchedMax` stored events share the new event's second, which is the
        /// usual case. The fold orders only the first `searchedMax` events of a second.
        ///
        /// If the second already has that many events, the new event comes after all of them. `secondPlace` is then the
        /// new event's index in the second, and `predecessor` is the last event of the second.
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

    /// Returns the driver's last event before `time`, in the order of the fold. Ignores events before `floor`, the time
    /// before which retention has deleted events. Returns nil if there is none.
    func last(from last: Int64?, before time: Moment, notBefore floor: Moment?) throws(SQLiteError) -> FoldedEventRow? {
        var found: FoldedEventRow?
        try forEach(from: last, backTo: floor, startingAt: time.advanced(byMilliseconds: -1)) { row in
            found = row
            return false
        }
        return found
    }

    /// Calls `visit` with the driver's events from the time `start` on, in order, until `visit` returns false. `visit`
    /// may change the event's row in the database.
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

    /// Calls `visit` with the driver's events backwards from the time `start` to the time `floor`, until `visit`
    /// returns false. Both times are included. If `floor` is nil, goes back to the first event.
    private func forEach(
        from last: Int64?, backTo floor: Moment?, startingAt start: Moment,
        visit: (FoldedEventRow) throws(SQLiteError) -> Bool
    ) throws(SQLiteError) {
        let first = floor?.millisecondsSinceEpoch ?? .min
        guard first <= start.millisecondsSinceEpoch else { return }
        var walk = try ChainWalk(chain, from: last, .backward, times: first...start.millisecondsSinceEpoch)
        try visitAll(&walk, isBackward: true, visit)
    }

    /// Calls `visit` with the events to which `walk` leads, until `visit` returns false. Most calls visit only a few
    /// events. The first statement therefore reads only one millisecond, and each later statement reads about twice as
    /// many events as the one before.
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
