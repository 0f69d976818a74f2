// Walks through a driver's chain (EventChain.swift) in either direction. The chain is a linked list of the driver's
// events in the order (corrected_at_ms, id). An event's links are read only when the caller asks for the event.

struct ChainWalk {
    enum Direction {
        case forward
        case backward
    }

    private let chain: EventChain
    private let direction: Direction
    private let times: ClosedRange<Int64>
    /// In a backward walk, contains only the next event, or nothing at the end.
    ///
    /// In a forward walk, a stack of events after `current` that were read already, with the earliest event on top.
    /// Links lead only backwards. `nextForward` therefore searches backwards from the top event until it finds the
    /// event directly after `current`.
    private var path: [ChainLink] = []
    /// Forward: the event that was returned last.
    private var current: ChainLink?
    /// An event that `nextMillisecond` has read but not returned yet.
    private var kept: ChainLink?

    /// - Parameters:
    ///   - last: the driver's last event (`ChainEnd.last`).
    ///   - times: the wanted range of `corrected_at_ms`.
    init(
        _ chain: EventChain, from last: Int64?, _ direction: Direction,
        times: ClosedRange<Int64> = Int64.min...Int64.max
    ) throws(SQLiteError) {
        (self.chain, self.direction, self.times) = (chain, direction, times)
        guard let last else { return }
        let link = try chain.requiredLink(last)
        switch direction {
        case .forward:
            guard link.time >= times.lowerBound else { return }
            path = [link]
            try chain.descend(&path, to: ChainPlace(time: times.lowerBound, id: .min))
        case .backward:
            path = [link]
            guard link.time > times.upperBound else { return }
            try chain.descend(&path, to: ChainPlace(time: times.upperBound, id: .max))
            path = if let before = path.last?.previous { [try chain.requiredLink(before)] } else { [] }
        }
    }

    /// Returns the next event. Returns nil when no event is left.
    mutating func next() throws(SQLiteError) -> ChainLink? {
        if let kept {
            self.kept = nil
            return kept
        }
        return switch direction {
        case .forward: try nextForward()
        case .backward: try nextBackward()
        }
    }

    private mutating func nextForward() throws(SQLiteError) -> ChainLink? {
        if let current { try chain.descend(&path, to: current.place.next, beyond: current.id) }
        guard let link = path.popLast(), link.time <= times.upperBound else {
            path = []
            current = nil
            return nil
        }
        current = link
        return link
    }

    private mutating func nextBackward() throws(SQLiteError) -> ChainLink? {
        guard let link = path.popLast(), link.time >= times.lowerBound else { return nil }
        if let previous = link.previous { path = [try chain.requiredLink(previous)] }
        return link
    }

    /// Returns the ids of the next `count` events, and of all other events in the last event's millisecond. The fold
    /// sorts the events of a millisecond, so it needs all of them (FoldOrder.swift). Returns fewer than `count` ids
    /// only if no more events are left.
    mutating func next(_ count: Int) throws(SQLiteError) -> [Int64] {
        var ids: [Int64] = []
        while ids.count < count {
            let millisecond = try nextMillisecond()
            if millisecond.isEmpty { break }
            ids += millisecond
        }
        return ids
    }

    /// Returns the ids of the next event and of all other events with the same `corrected_at_ms`, in the order of the
    /// chain. Returns an empty list when no event is left.
    mutating func nextMillisecond() throws(SQLiteError) -> [Int64] {
        guard let first = try next() else { return [] }
        var ids = [first.id]
        while let link = try next() {
            guard link.time == first.time else {
                kept = link
                break
            }
            ids.append(link.id)
        }
        return ids
    }
}
