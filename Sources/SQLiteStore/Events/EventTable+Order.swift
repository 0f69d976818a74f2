// Reads a driver's events in the order of the fold, from the driver's chain, a linked list. The chain has the events in
// the order of time. Events of one millisecond are sorted when they are read (FoldOrder.swift).
//
// `last` is always the last event of the driver's chain (`ChainEnd.last`); nil for a driver without events.

import Engine
import JourneyModel

extension EventTable {
    /// The position of a new event that is not the last one in the order.
    struct Position {
        /// The last event that comes before the new event and lies in an earlier second. The fold begins with the
        /// journey after this event. `secondPlace` describes an exception.
        ///
        /// Nil if no such event is at or above the driver's floor; the fold then begins with the journey at the floor.
        var predecessor: FoldedEventRow?
        /// Usually nil. The fold reorders only the first `OrderWithinSecond.searchedMax` events of a second.
        ///
        /// If at least that many events of the second come before the new event, `secondPlace` is the new event's index
        /// in the second. `predecessor` is then the last of those events.
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

    /// Calls `visit` with the events to which `walk` leads, until `visit` returns false. Most calls need only a few
    /// events. The first statement therefore reads the events of one millisecond, and each further statement about
    /// twice as many as the one before.
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
