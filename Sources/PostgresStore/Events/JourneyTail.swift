// Consecutive events of a driver, in the fold's order, and the journey before them. They are either the driver's last
// events or a part from the middle.
//
// A new event is put in its place in the order, and the events after it are folded again. The refold ends as soon as
// the new journey equals the stored one. If these events do not suffice, RefoldInParts continues with the next part.
//
// SQLite's store runs the same algorithm on a table (EventFolding, FoldWalk). The code here works in memory only,
// without a clock or a database.

import Engine
import JourneyModel

struct JourneyTail: Sendable {
    /// The journey before the first of `events`.
    private(set) var start: Journey
    /// In the fold's order.
    private(set) var events: [FoldedEvent]
    /// The journey after the driver's last event, if that event is not in `events`; otherwise nil. A refold that goes
    /// beyond `events` might change this journey: then `insert` returns nil, and `insertInPart` and `goOn` return
    /// `Insertion.unfinished`.
    let end: Journey?

    init(start: Journey, events: [FoldedEvent] = [], end: Journey? = nil) {
        (self.start, self.events, self.end) = (start, events, end)
    }

    /// The journey after the driver's last event.
    var journey: Journey { end ?? events.last?.after ?? start }

    func event(underKey key: String) -> FoldedEvent? {
        events.last { haveSameBytes($0.event.idempotencyKey, key) }
    }

    /// The effects of an insertion.
    struct Insertion {
        /// The number of the new event, normally the `seq` of the parameter `new`. If the new event comes last and a
        /// deadline passed before it, the deadline's expiry gets this `seq`. The new event then gets the following
        /// number.
        var seq: Int64
        var verdict = Verdict.none
        /// The number of stored events that were folded again.
        var refoldedCount = 0
        /// The new values of the driver's current journey in order, each with the number of the event that led to it.
        /// Empty if a late event did not change the current journey.
        var moves: [(seq: Int64, journey: Journey)] = []
        /// The number of expiries (the events of passed deadlines) that the insertion added to `events`.
        var expiryCount: Int64 = 0
        /// The new journey after the last of `events`, if the driver's later events must be folded again too (`goOn`).
        /// Nil if the new journey equals the stored one, or if the driver has no later events.
        var unfinished: Journey?
    }

    typealias MakeExpiry = (_ deadline: (name: EventName, at: Moment), _ running: Journey, _ seq: Int64) -> FoldedEvent

    /// Puts the event in its place in the order. Refolds the events after it until the new journey equals the stored
    /// one.
    ///
    /// If the refold would go beyond `events`, changes nothing and returns nil. The caller must then read more events.
    ///
    /// - Parameters:
    ///   - new: the event. Its `seq` is one above the driver's highest so far.
    ///   - expiry: creates the event that the server stores for a passed deadline of the journey `running`.
    mutating func insert(
        _ new: consuming FoldedEvent, expiry: MakeExpiry
    ) -> Insertion? {
        if end == nil, let secondPlace = placeAfterLast(new.event) {
            return append(new, secondPlace: secondPlace, expiry: expiry)
        }
        let insertion = insertLate(new, isPart: false, expiry)
        return insertion.unfinished == nil ? insertion : nil
    }

    /// Like `insert`, for a late event, but the refold may go beyond `events` (`Insertion.unfinished`). `events` must
    /// not end in the middle of a second.
    mutating func insertInPart(_ new: consuming FoldedEvent, expiry: MakeExpiry) -> Insertion {
        insertLate(new, isPart: true, expiry)
    }

    /// Continues a refold: folds `events` again from the journey `running` on, until the new journey equals the stored
    /// one. `events` must not end in the middle of a second.
    ///
    /// - Parameters:
    ///   - newSeq: the number of the event that was inserted.
    ///   - expirySeq: the number for the first expiry (the event of a passed deadline) that is added.
    mutating func goOn(
        after running: Journey, newSeq: Int64, expirySeq: Int64, expiry: MakeExpiry
    ) -> Insertion {
        let walk = Walk(running: running, newSeq: newSeq, expirySeq: expirySeq)
        return fold(walk, from: events.startIndex, goesOn: true, expirySeq: expirySeq, isPart: true, expiry)
    }

    /// Folds all events again, for example after a change of the rules. Adds the missing expiries (the events of passed
    /// deadlines) to `events`, and returns their count.
    ///
    /// - Parameters:
    ///   - newSeq: the number of the first expiry that is added.
    ///   - expiry: creates the event for a deadline that passes before the event `next`.
    mutating func refold(
        newSeq: Int64,
        expiry: (_ deadline: (name: EventName, at: Moment), _ running: Journey, _ next: FoldedEvent, _ seq: Int64)
            -> FoldedEvent
    ) -> Int64 {
        var walk = Walk(running: start, newSeq: .max, expirySeq: newSeq, stopsEarly: false)
        // An expiry gets the settings of `upcoming`. If the walk still keeps events of a second, `upcoming` is the
        // first of them (`next`). If not, `upcoming` is `event`.
        var next: FoldedEvent?
        for event in events {
            let upcoming = next ?? event
            _ = walk.take(event) { deadline, running, seq in expiry(deadline, running, upcoming, seq) }
            next = walk.firstOfSecond
        }
        if let next { walk.finish { deadline, running, seq in expiry(deadline, running, next, seq) } }
        events = walk.result
        return walk.expirySeq - newSeq
    }

    /// Lets `change` replace the settings of each event before a refold. `before` is the stored journey before this
    /// event.
    mutating func correct(_ change: (inout FoldedEvent, _ before: Journey) -> Void) {
        var before = start
        for index in events.indices {
            change(&events[index], before)
            before = events[index].after
        }
    }

    /// If the event comes after the last of `events`, returns its index among the events of its second. Returns nil in
    /// two cases:
    ///
    /// - The event comes before the last of `events`.
    /// - The event shares its second with the last of `events`, and this second has fewer than `searchedMax` events.
    ///   The fold must then find the order of these events.
    private func placeAfterLast(_ event: OrderedEvent) -> Int64? {
        guard let last = events.last else { return 0 }
        if last.event.occurredAt != event.occurredAt { return last.event.occurredAt < event.occurredAt ? 0 : nil }
        guard last.event.sharesSecond(with: event) else { return last.event < event ? 0 : nil }
        let next = (last.secondPlace ?? 0) + 1
        return next < OrderWithinSecond.searchedMax ? nil : next
    }

    private mutating func append(
        _ new: consuming FoldedEvent, secondPlace: Int64,
        expiry: MakeExpiry
    ) -> Insertion {
        var insertion = Insertion(seq: new.seq)
        var running = journey
        if running.hasDeadline(before: new.event) {
            var ended = running
            if let deadline = ended.takeDeadline(before: new.event) {
                let expired = expiry(deadline, running, new.seq)
                new.seq += 1
                insertion.seq = new.seq
                running = expired.after
                insertion.expiryCount = 1
                insertion.moves.append((expired.seq, expired.after))
                events.append(expired)
            }
        }
        new.secondPlace = new.event.isWholeSecond ? secondPlace : nil
        new.apply(to: running)
        insertion.verdict = new.verdict
        insertion.moves.append((new.seq, new.after))
        events.append(new)
        return insertion
    }

    /// - Parameter isPart: whether the caller can continue the refold with the driver's later events. If `isPart` is
    ///   false and the refold would go beyond `events`, this method changes nothing.
    private mutating func insertLate(
        _ new: FoldedEvent, isPart: Bool, _ expiry: MakeExpiry
    ) -> Insertion {
        var new = new
        // The index of the last event that is not folded again. Normally the new event's whole second is folded again,
        // because the order in it may change. If this second already has `searchedMax` events, the new event comes
        // after them.
        var predecessor = events.startIndex - 1
        for index in events.indices.reversed() {
            let candidate = events[index]
            if candidate.event.sharesSecond(with: new.event) {
                let next = (candidate.secondPlace ?? 0) + 1
                guard next >= OrderWithinSecond.searchedMax else { continue }
                new.secondPlace = next
            } else if !(candidate.event < new.event) {
                continue
            }
            predecessor = index
            break
        }
        var walk = Walk(
            running: predecessor >= events.startIndex ? events[predecessor].after : start, newSeq: new.seq,
            expirySeq: new.seq + 1)
        let goesOn = walk.take(new, expiry)
        return fold(walk, from: predecessor + 1, goesOn: goesOn, expirySeq: new.seq + 1, isPart: isPart, expiry)
    }

    /// Continues the walk with the event at the index `first`. Replaces the folded events in `events` by the results.
    private mutating func fold(
        _ begun: consuming Walk, from first: Int, goesOn: Bool, expirySeq: Int64, isPart: Bool, _ expiry: MakeExpiry
    ) -> Insertion {
        var walk = begun
        var insertion = Insertion(seq: walk.newSeq)
        var (taken, goesOn) = (first, goesOn)
        while goesOn, taken < events.endIndex {
            goesOn = walk.take(events[taken], expiry)
            taken += 1
        }
        if goesOn, end != nil, !isPart {
            insertion.unfinished = walk.running
            return insertion
        }
        if goesOn { goesOn = walk.finish(expiry) }
        if goesOn, end != nil { insertion.unfinished = walk.running }
        // The walk may stop at an event without folding it. This event stays in `events` as it is.
        insertion.refoldedCount = walk.result.count { $0.seq < expirySeq && $0.seq != walk.newSeq }
        events.replaceSubrange(first..<(first + insertion.refoldedCount), with: walk.result)
        insertion.verdict = walk.result.first { $0.seq == walk.newSeq }?.verdict ?? .none
        insertion.expiryCount = walk.expirySeq - expirySeq
        if !walk.hasMetStoredJourney, insertion.unfinished == nil { insertion.moves = [(walk.newSeq, walk.running)] }
        return insertion
    }
}

/// Folds events in order. The order within a second is determined anew, because it depends on the journey before the
/// second.
private struct Walk {
    /// The journey after the last folded event.
    var running: Journey
    let newSeq: Int64
    /// The number of the next expiry.
    var expirySeq: Int64
    var result: [FoldedEvent] = []
    var hasMetStoredJourney = false
    /// Events of one second that are not folded yet, because more events of the same second may follow.
    private var second: [FoldedEvent] = []
    /// Whether the walk ends as soon as the journey equals the stored one.
    private let stopsEarly: Bool

    init(running: Journey, newSeq: Int64, expirySeq: Int64, stopsEarly: Bool = true) {
        (self.running, self.newSeq, self.expirySeq) = (running, newSeq, expirySeq)
        self.stopsEarly = stopsEarly
    }

    var firstOfSecond: FoldedEvent? { second.first }

    typealias MakeExpiry = JourneyTail.MakeExpiry

    /// Folds `row`, or keeps it until its second is complete. If the events that were kept before are complete without
    /// `row`, first folds those events. If the walk ends with them, `row` is not folded.
    ///
    /// Returns false if the walk ends.
    mutating func take(_ row: FoldedEvent, _ expiry: MakeExpiry) -> Bool {
        if let first = second.first, !first.event.sharesSecond(with: row.event) || row.isBehindSearch {
            guard finish(expiry) else { return false }
        }
        if row.event.isWholeSecond, !row.isBehindSearch {
            second.append(row)
            return true
        }
        return fold([row], expiry)
    }

    @discardableResult
    mutating func finish(_ expiry: MakeExpiry) -> Bool {
        guard !second.isEmpty else { return true }
        defer { second.removeAll(keepingCapacity: true) }
        return fold(second, expiry)
    }

    private mutating func fold(_ rows: [FoldedEvent], _ expiry: MakeExpiry) -> Bool {
        var before = running
        while let deadline = before.takeDeadline(before: rows[0].event) {
            result.append(expiry(deadline, running, expirySeq))
            expirySeq += 1
            running = before
        }
        // The stored journey after the last stored event of `rows`. If the new journey equals it, the walk ends.
        let journeyStored = rows.last { $0.seq != newSeq }?.after ?? before
        let arrived = rows.count > 1 ? rows.sorted { $0.seq < $1.seq } : rows
        let order = OrderWithinSecond.order(of: arrived.map(\.event), from: before)
        for (rank, index) in order.enumerated() {
            let stored = arrived[index]
            var row = stored
            row.apply(to: running)
            if row.event.isWholeSecond {
                row.secondPlace = stored.isBehindSearch ? stored.secondPlace ?? 0 : Int64(rank)
            }
            if row.unsaved == nil {
                let isSame =
                    row.verdict == stored.verdict && row.after == stored.after
                    && row.secondPlace == stored.secondPlace
                    && isSameText(row.closedSessionID, stored.closedSessionID)
                row.isChanged = stored.isChanged || !isSame
            }
            running = row.after
            result.append(row)
            hasMetStoredJourney = rank + 1 == order.count && row.after == journeyStored
        }
        return !(stopsEarly && hasMetStoredJourney)
    }

    private func isSameText(_ one: String?, _ other: String?) -> Bool {
        one.map(TextKey.init) == other.map(TextKey.init)
    }
}
