// Reads a driver's events in the order of the fold, from the driver's chain. The chain has the events in the order of
// time. Those of one millisecond are sorted when they are read (FoldOrder.swift).
//
// `last` is always the last event of the driver's chain (`ChainEnd.last`); nil for a driver without events.

import Engine
import JourneyModel

extension EventTable {
    /// The place of a new event that is not the last one in the order.
    struct Position {
        /// The last event that comes before the new event and before all events that share its second. Nil if no such
        /// event is at or above the floor.
        var predecessor: FoldedEventRow?
        /// The new event's index among the events of its second. It is set if at least `OrderWithinSecond.searchedMax`
        /// of these events come before the new event. The new event is then not ordered together with them, and
        /// `predecessor` is the last of them.
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

    /// Considers the driver's events at or after `floor` and before `time`. Returns the last of them in the order of
    /// the fold; nil if there is none.
    func last(from last: Int64?, before time: Moment, notBefore floor: Moment?) throws(SQLiteError) -> FoldedEventRow? {
        var found: FoldedEventRow?
        try forEach(from: last, backTo: floor, startingAt: time.advanced(byMilliseconds: -1)) { row in
            found = row
            return false
        }
        return found
    }

    /// Calls `visit` with the driver's events from `start` on, in order, until `visit` returns false. `visit` may
    /// update the row that it gets.
    func forEach(
        from last: Int64?, startingAt start: Moment, visit: (FoldedEventRow) throws(SQLiteError) -> Bool
    ) throws(SQLiteError) {
        var walk = try ChainWalk(chain, from: last, .forward, times: start.millisecondsSinceEpoch...Int64.max)
        try visitAll(&walk, isBackward: false, visit)
    }

    /// Calls `visit` with the driver's events up to `start`, in reverse order and not before `floor`, until `visit`
    /// returns false.
    private func forEach(
        from last: Int64?, backTo floor: Moment?, startingAt start: Moment,
        visit: (FoldedEventRow) throws(SQLiteError) -> Bool
    ) throws(SQLiteError) {
        let first = floor?.millisecondsSinceEpoch ?? .min
        guard first <= start.millisecondsSinceEpoch else { return }
        var walk = try ChainWalk(chain, from: last, .backward, times: first...start.millisecondsSinceEpoch)
        try visitAll(&walk, isBackward: true, visit)
    }

    /// Calls `visit` with the events of the walk. One statement may read the events of several milliseconds. Most walks
    /// end after a few events, so the first statement reads one millisecond, and each further statement about twice as
    /// many events as the one before.
    private func visitAll(
        _ walk: inout ChainWalk, isBackward: Bool, _ visit: (FoldedEventRow) throws(SQLiteError) -> Bool
    ) throws(SQLiteError) {
        var wanted = 1
        while true {
            let ids = try walk.next(wanted)
            if ids.isEmpty { return }
            let rows = try events(ids)
            for index in rows.indices {
                guard try visit(rows[isBackward ? rows.count - 1 - index : index]) else { return }
            }
            wanted = min(wanted * 2, 256)
        }
    }
}
