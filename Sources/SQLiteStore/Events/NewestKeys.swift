// The idempotency keys of the newest events, in memory. If each event wrote its row of `event_key` at once, a page of a
// large table would be read, logged and copied for that one row. The rows of many events, written together in the order
// of their places, share these pages (KeyMove.swift).
//
// Memory and table together list every event. At a start, memory is filled from the rows of `event_row` that
// `event_key` does not list yet. An entry in memory is only a candidate: callers compare the driver and the full key
// with those in the event's row.

import Synchronization

final class NewestKeys: Sendable {
    private struct State {
        /// The events that were added last.
        var filling = PlacedEvents()
        /// The events before them, while their rows of `event_key` are written.
        var moving: PlacedEvents?
        var removalCount = 0
        var lastNumber: Int64 = -1
    }

    /// A move begins when this number of events is in memory. When the server starts, it reads the rows of at most one
    /// and a half times this number of events. With a higher value, more events would share a page, but the events
    /// would take more memory: 40 bytes for each event during a move. The value is a little less than a power of two,
    /// because the array of entries doubles its capacity when it is full.
    static let countMax = 250_000

    let countMax: Int
    /// Minimum number of keys that a transaction writes, except for the last keys of a move. Keys that are written
    /// together share pages.
    var pieceMin: Int { min(64, countMax) }
    private let state = Mutex(State())

    init(countMax: Int = countMax) {
        self.countMax = countMax
    }

    /// The number up to which every event is in memory, listed in `event_key`, or deleted; -1 before the rows of the
    /// newest events were read. Events that another process stores may have higher numbers.
    var lastNumber: Int64 { state.withLock { $0.lastNumber } }

    /// Notes that memory has the key of each event up to `number`.
    func noteFilled(through number: Int64) { state.withLock { $0.lastNumber = number } }

    /// The number of times that events were removed from memory. A reader that finds an event neither in memory nor in
    /// its snapshot of `event_key` reads again if this number has changed. The snapshot may be older than the end of a
    /// move, or the event may have been removed from memory until its row was read again.
    var removalCount: Int { state.withLock { $0.removalCount } }

    /// Returns the events whose keys belong at this place.
    func events(at place: Int64) -> [Int64] {
        state.withLock { state in
            var events = state.filling.events(at: place)
            if let moving = state.moving { events += moving.events(at: place) }
            return events
        }
    }

    /// Adds an event whose number is higher than those of all others.
    func add(_ event: Int64, at place: Int64) {
        state.withLock { state in
            state.filling.add(PlacedEvents.Entry(place: place, event: event))
            state.lastNumber = event
        }
    }

    /// Removes the events with higher numbers than `last`. None of them may be among those that are being moved.
    func remove(after last: Int64) {
        state.withLock { state in
            guard state.lastNumber > last else { return }
            state.filling.remove(after: last)
            state.lastNumber = last
            state.removalCount += 1
        }
    }

    /// Removes all events. `event_key` lists those up to the number `listedThrough`.
    func removeAll(listedThrough: Int64) {
        state.withLock { state in
            state.filling = PlacedEvents()
            state.moving = nil
            state.lastNumber = listedThrough
            state.removalCount += 1
        }
    }

    /// Keeps the present events apart from those that are added later, and returns them in the order of addition.
    /// `events(at:)` finds them until `endMove`.
    func beginMove() -> [PlacedEvents.Entry] {
        state.withLock { state in
            let full = state.filling
            state.filling = PlacedEvents()
            state.moving = full
            return full.entries
        }
    }

    /// Drops the events that `beginMove` returned. Must be called when their rows in `event_key` are committed.
    func endMove() {
        state.withLock { state in
            state.moving = nil
            state.removalCount += 1
        }
    }
}

/// Events by their places, in the order of addition. A hash table with open addressing that allows several events at
/// one place. 24 bytes an event.
struct PlacedEvents {
    struct Entry: Hashable, Sendable {
        /// The place of the event's key (EventKeyHash).
        var place: Int64
        var event: Int64
    }

    private(set) var entries: [Entry] = []
    /// Indexes in `entries`, plus one; 0 is a free slot. The count is a power of two, or 0 while there are no entries.
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

    /// Removes the entries at the end whose events have higher numbers than `last`. No other entry is behind such an
    /// entry in the slots, because they were filled in the order of addition. A slot can therefore simply be freed.
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

    /// Returns the first slot to examine for a place. The multiplication spreads places over the slots even if they
    /// differ only in the high bits, which are the driver's number.
    private func firstSlot(of place: Int64) -> Int {
        let mixed = UInt64(bitPattern: place) &* 0x9E37_79B9_7F4A_7C15
        return Int(mixed >> UInt64(64 - slots.count.trailingZeroBitCount))
    }
}
