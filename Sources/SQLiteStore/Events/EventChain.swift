// A driver's events form a linked list in the order (corrected_at_ms, id), which replaces an index. Appending an event
// after all others changes only two pages: the page of the event's row and the page of the driver's row.
//
// Each event has two links. `previous` leads to the event directly before it, and `jump` to the nearest earlier event
// with a higher level. A search among n events reads about 2 log n events on average, and O(log² n) at worst.
//
// An event's level is computed from its id: half of the ids have level 0, a quarter level 1, and so on. The links
// therefore depend only on which events are stored.
//
// Retention updates `previous` when it deletes events, but leaves `jump` unchanged. If the target of a jump no longer
// exists, a search follows `previous` instead. Ids are never reused, so a jump never leads to a wrong event.

struct ChainPlace: Hashable, Comparable {
    /// `corrected_at_ms`.
    var time: Int64
    var id: Int64

    static func < (left: Self, right: Self) -> Bool {
        left.time == right.time ? left.id < right.id : left.time < right.time
    }

    /// The first place after this one.
    var next: Self { Self(time: time, id: id + 1) }
}

struct ChainLink: Hashable {
    var place: ChainPlace
    var previous: Int64?
    var jump: Int64?

    var id: Int64 { place.id }
    var time: Int64 { place.time }
    var level: Int { EventChain.level(of: place.id) }
}

/// Reads the links between events. On the writer's connection, also changes them.
final class EventChain {
    private let find: PreparedStatement
    private let connection: OpaquePointer
    private var setPrevious: PreparedStatement?
    private var setJump: PreparedStatement?
    /// The number of rows that were read, for tests.
    private(set) var readCount = 0

    init(on connection: OpaquePointer) throws(SQLiteError) {
        self.connection = connection
        find = try PreparedStatement(
            "SELECT corrected_at_ms, previous, jump FROM event_row WHERE id = ?1", on: connection)
    }

    /// Returns the level of an event. The multiplication makes the levels of consecutive ids irregular.
    static func level(of id: Int64) -> Int {
        (UInt64(bitPattern: id) &* 0x9E37_79B9_7F4A_7C15).leadingZeroBitCount
    }

    /// Returns nil if no event has this id.
    func link(_ id: Int64) throws(SQLiteError) -> ChainLink? {
        readCount += 1
        return try find.first { (bindings) throws(SQLiteError) in
            try bindings.set(1, id)
        } read: { row in
            ChainLink(
                place: ChainPlace(time: row.integer(0), id: id), previous: row.optionalInteger(1),
                jump: row.optionalInteger(2))
        }
    }

    /// Returns the link of an event that must exist.
    func requiredLink(_ id: Int64) throws(SQLiteError) -> ChainLink {
        guard let link = try link(id) else { throw .unreadable("previous") }
        return link
    }

    // MARK: Search

    /// Searches backwards for the earliest event at or after `place`, beginning at the last element of `path`. This
    /// element must itself be at or after `place`.
    ///
    /// Appends each visited event to `path`. The last element is then the result. Events that a jump skips are not
    /// visited.
    ///
    /// - Parameter beyond: the id of an event that is known to be before `place`. The search does not read its row.
    func descend(_ path: inout [ChainLink], to place: ChainPlace, beyond: Int64? = nil) throws(SQLiteError) {
        let current = beyond
        var beyond = beyond
        while let link = path.last {
            if let jump = link.jump, jump != beyond {
                if let target = try self.link(jump), target.place >= place {
                    path.append(target)
                    continue
                }
                beyond = jump
            }
            guard let previous = link.previous, previous != beyond, previous != current else { return }
            let target = try requiredLink(previous)
            if target.place < place { return }
            path.append(target)
        }
    }

    // MARK: Changes

    /// The links of a new event that does not come last, and the later events that must link to the new event.
    struct Insertion {
        var previous: Int64?
        var jump: Int64?
        /// The event after the new one.
        fileprivate var next: Int64
        /// The later events whose `jump` must lead to the new event.
        fileprivate var jumping: [Int64] = []
    }

    /// Finds the links of a new event that does not come last. Updates `end`, but changes nothing in the database. The
    /// caller must store the new event's row and then call `link`.
    ///
    /// The `jump` of a later event must lead to the new event under two conditions:
    ///
    /// - The new event has a higher level than the later event.
    /// - No event between the two has a higher level than the later event.
    ///
    /// `path` contains all later events that meet the second condition, because the search for the new event's position
    /// visits each of them.
    func insertion(of id: Int64, at time: Int64, into end: inout ChainEnd) throws(SQLiteError) -> Insertion {
        guard let last = end.last else { throw .unreadable("chain") }
        let place = ChainPlace(time: time, id: id)
        var path = [try requiredLink(last)]
        try descend(&path, to: place)
        let level = Self.level(of: id)
        let next = path[path.count - 1]
        var insertion = Insertion(previous: next.previous, next: next.id)
        var highest = 0
        for link in path.reversed() {
            if link.level >= highest, link.level < level { insertion.jumping.append(link.id) }
            highest = max(highest, link.level)
        }
        insertion.jump = try nearest(from: next.previous, above: level)
        let later = Set(path.lazy.map(\.id))
        end.insert(id) { later.contains($0) }
        return insertion
    }

    /// Makes later events link to the new event `id`. Must be called after the new event's row is stored.
    func link(_ insertion: Insertion, to id: Int64) throws(SQLiteError) {
        try setPrevious(of: insertion.next, to: id)
        for later in insertion.jumping { try setJump(of: later, to: id) }
    }

    /// Searches backwards from `start` for the nearest event with a level above `level`. The search can follow jumps,
    /// because a jump skips only events whose level is not higher than that of the event with the jump.
    ///
    /// If an event has no jump, no earlier event has a higher level than this event. The search then ends.
    private func nearest(from start: Int64?, above level: Int) throws(SQLiteError) -> Int64? {
        var id = start
        while let current = id {
            if Self.level(of: current) > level { return current }
            let link = try requiredLink(current)
            guard let jump = link.jump else { return nil }
            id = try self.link(jump) == nil ? link.previous : jump
        }
        return nil
    }

    /// Removes events from the driver's chain by updating `previous` of the remaining events. The caller must then
    /// delete the rows of the removed events. Returns the id of the last event that remains; nil if none remains.
    func unlink(_ links: [ChainLink], from end: ChainEnd) throws(SQLiteError) -> Int64? {
        var last = end.last
        // The remaining event directly after a run of removed events. Its `previous` is written only once, at the end
        // of the run.
        var after: ChainLink?
        var isWritten = true
        for gone in links.sorted(by: { $0.place > $1.place }) {
            if after == nil, gone.id == last {
                last = gone.previous
                continue
            }
            if after?.previous != gone.id {
                if let after, !isWritten { try setPrevious(of: after.id, to: after.previous) }
                guard let start = after?.id ?? last else { throw .unreadable("chain") }
                var path = [try requiredLink(start)]
                try descend(&path, to: gone.place.next)
                after = path.last
                guard after?.previous == gone.id else { throw .unreadable("previous") }
            }
            after?.previous = gone.previous
            isWritten = false
        }
        if let after, !isWritten { try setPrevious(of: after.id, to: after.previous) }
        return last
    }

    /// Computes, from the events' rows, the end of the chain whose last event is `last`.
    func end(at last: Int64?) throws(SQLiteError) -> ChainEnd {
        guard let last else { return ChainEnd() }
        let time = try requiredLink(last).time
        var climb: [Int64] = []
        var id: Int64? = last
        while let current = id {
            climb.append(current)
            let level = Self.level(of: current)
            id = try nearest(from: current, above: level)
        }
        return ChainEnd(time: time, climb: climb.reversed())
    }

    private func setPrevious(of id: Int64, to previous: Int64?) throws(SQLiteError) {
        try Self.set(&setPrevious, "previous", of: id, to: previous, on: connection)
    }

    private func setJump(of id: Int64, to jump: Int64) throws(SQLiteError) {
        try Self.set(&setJump, "jump", of: id, to: jump, on: connection)
    }

    private static func set(
        _ statement: inout PreparedStatement?, _ column: String, of id: Int64, to value: Int64?,
        on connection: OpaquePointer
    ) throws(SQLiteError) {
        let update =
            if let statement { statement } else {
                try PreparedStatement("UPDATE event_row SET \(column) = ?2 WHERE id = ?1", on: connection)
            }
        statement = update
        try update.run { (bindings) throws(SQLiteError) in
            try bindings.set(1, id)
            try bindings.set(2, value)
        }
    }
}
