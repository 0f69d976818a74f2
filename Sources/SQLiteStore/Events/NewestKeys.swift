// Keeps the idempotency keys of the newest events in memory. Their rows of `event_key` are written later, many at a
// time (KeyMove.swift). Writing each row separately would read, log and copy a page of a large table per row.
//
// Memory and `event_key` together list every event. When a process starts, it fills its memory from the rows of
// `event_row` that `event_key` does not list yet.
//
// Memory has only an event's number and its place in `event_key`, a hash of the driver and the key. Callers must
// therefore compare the driver and the full key in the event's row.

import Synchronization

final class NewestKeys: Sendable {
    private struct State {
        /// The events that are not part of a move.
        var filling = PlacedEvents()
        /// The events of the move in progress; nil without a move. They are older than all events in `filling`.
        var moving: PlacedEvents?
        var removalCount = 0
        var lastNumber: Int64 = -1
    }

    /// When this number of events is in memory, a move (KeyMove.swift) begins to write them to `event_key`.
    ///
    /// A higher number would let a move write more rows per page. But it would take more memory: 24 bytes per event,
    /// and 16 more during a move. It would also slow down the start, which reads up to 1.5 times this number of events.
    ///
    /// The number is a little below a power of two (262,144), because a full array of entries doubles its capacity. A
    /// number just above the power of two would waste memory.
    static let countMax = 250_000

    let countMax: Int
    /// A transaction that writes keys writes at least this number, so that they share pages. Only the last transaction
    /// of a move may write fewer.
    var pieceMin: Int { min(64, countMax) }
    private let state = Mutex(State())

    init(countMax: Int = countMax) {
        self.countMax = countMax
    }

    /// Each event up to this number is in memory, listed in `event_key`, or deleted. Other processes may have stored
    /// events with higher numbers. The number is -1 before the rows of the newest events are read.
    var lastNumber: Int64 { state.withLock { $0.lastNumber } }

    /// Records that memory or `event_key` has the key of each event up to `number`.
    func noteFilled(through number: Int64) { state.withLock { $0.lastNumber = number } }

    /// The number of times that events were removed from memory.
    ///
    /// A reader searches memory and its snapshot of `event_key`. If a move ends meanwhile, an event may be in neither
    /// of them. If this number has changed during the search, the reader must search again.
    var removalCount: Int { state.withLock { $0.removalCount } }

    /// Returns the events whose keys belong at this place of `event_key`.
    func events(at place: Int64) -> [Int64] {
        state.withLock { state in
            var events = state.filling.events(at: place)
            if let moving = state.moving { events += moving.events(at: place) }
            return events
        }
    }

    /// The event's number must be higher than the numbers of all earlier events.
    func add(_ event: Int64, at place: Int64) {
        state.withLock { state in
            state.filling.add(PlacedEvents.Entry(place: place, event: event))
            state.lastNumber = event
        }
    }

    /// Removes the events with higher numbers than `last`. They must not be part of the move of keys in progress.
    func remove(after last: Int64) {
        state.withLock { state in
            guard state.lastNumber > last else { return }
            state.filling.remove(after: last)
            state.lastNumber = last
            state.removalCount += 1
        }
    }

    /// Removes all events from memory. `event_key` must list all events up to `listedThrough`. The caller must then add
    /// the events with higher numbers again, from their rows.
    func removeAll(listedThrough: Int64) {
        state.withLock { state in
            state.filling = PlacedEvents()
            state.moving = nil
            state.lastNumber = listedThrough
            state.removalCount += 1
        }
    }

    /// Begins a move of all events in memory to `event_key`. Returns them in the order of addition. `events(at:)` still
    /// finds them until `endMove`.
    func beginMove() -> [PlacedEvents.Entry] {
        state.withLock { state in
            let full = state.filling
            state.filling = PlacedEvents()
            state.moving = full
            return full.entries
        }
    }

    /// Must be called when the moved events' rows in `event_key` are committed.
    func endMove() {
        state.withLock { state in
            state.moving = nil
            state.removalCount += 1
        }
    }
}

/// A hash table with open addressing, which finds events by their place in `event_key`. Several events may have the
/// same place. An event takes 24 bytes.
struct PlacedEvents {
    struct Entry: Hashable, Sendable {
        /// The place of the event's key (EventKeyHash).
        var place: Int64
        var event: Int64
    }

    private(set) var entries: [Entry] = []
    /// An index in `entries` plus one, or 0 for a free slot. The number of slots is a power of two, or 0 without
    /// entries.
    private var slots: [UInt32] = []

    func events(at place: Int64) -> [Int64] {
        guard !slots.isEmpty else { return [] }
        var events: [Int64] = []
        var slot = firstSlot(of: place)
        while slots[slot] != 0 {
            let entry = entries[Int(slots[slot]) - 1]
            if entry.place == place { events.append(entry.event) }
            slot = (slot + 1) & (slots.count - 1)
        }
        return events
    }

    mutating func add(_ entry: Entry) {
        entries.append(entry)
        if entries.count * 2 > slots.count {
            slots = Array(repeating: 0, count: max(64, slots.count * 2))
            for index in entries.indices { fillSlot(index) }
        } else {
            fillSlot(entries.count - 1)
        }
    }

    /// Removes the entries whose events have higher numbers than `last`. These entries were added after all others.
    /// Their slots can simply be freed, because a search for an earlier entry never passes the slot of a later one.
    mutating func remove(after last: Int64) {
        while let entry = entries.last, entry.event > last {
            var slot = firstSlot(of: entry.place)
            while slots[slot] != entries.count { slot = (slot + 1) & (slots.count - 1) }
            slots[slot] = 0
            entries.removeLast()
        }
    }

    private mutating func fillSlot(_ index: Int) {
        var slot = firstSlot(of: entries[index].place)
        while slots[slot] != 0 { slot = (slot + 1) & (slots.count - 1) }
        slots[slot] = UInt32(index + 1)
    }

    /// Returns the first slot to examine for a place of `event_key`. A place has the driver's number in its high bits
    /// and a hash in its low bits. The multiplication makes the slot depend on both.
    private func firstSlot(of place: Int64) -> Int {
        let mixed = UInt64(bitPattern: place) &* 0x9E37_79B9_7F4A_7C15
        return Int(mixed >> UInt64(64 - slots.count.trailingZeroBitCount))
    }
}
