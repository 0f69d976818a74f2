// Moves the idempotency keys of the newest events from memory to `event_key`. Writes many keys at a time, in the order
// of their places (EventKeyHash.swift), so that rows of the same page are written together.
//
// A move begins when `event_key` lacks `NewestKeys.countMax` events. For each event stored during the move, two more
// keys of the move become due. A move of n keys therefore ends after about n/2 further events. A transaction writes the
// due keys if there are enough of them (`NewestKeys.pieceMin`).
//
// The table `event_key_progress` records how far a move is. A process can therefore continue a move that another
// process began, or that a restart interrupted.
//
// Because moves continue, the number of events that `event_key` lacks is bounded, even if each process runs only
// briefly. `event_key_early` (EventKeyTable.swift) is bounded too, because the end of a move deletes the rows of its
// events.
//
// Not Sendable: used only on the writer's queue.

import Dispatch
import Synchronization

final class KeyMove {
    /// A move of at most this number of events sorts them on the writer's thread, in less than a millisecond. A larger
    /// move sorts them on another thread.
    private static let sortedHereMax = 10_000
    /// Maximum number of keys that a transaction writes. It is twice the number of keys that a full group of requests
    /// (`Writer.groupMax`) makes due. Keys with the same place are written together, even beyond this maximum.
    private static let pieceMax = 4 * Writer.groupMax

    /// The row of `event_key_progress`.
    struct Progress {
        /// `event_key` lists every event up to this number.
        var listedThrough: Int64
        /// The highest event number of the move in progress. If no move is in progress, it is at most `listedThrough`.
        var movingThrough: Int64
        /// The place in `event_key` that the move has reached. The keys that belong at lower places are already
        /// written.
        var movedPlace: Int64

        var isMoving: Bool { movingThrough > listedThrough }
    }

    /// The events of a move of keys in the order of their places in `event_key`; nil until they are sorted.
    private final class Sorted: Sendable {
        let entries = Mutex<[PlacedEvents.Entry]?>(nil)
    }

    private let table: EventKeyTable
    private let newest: NewestKeys
    private let setProgress: PreparedStatement
    private let forgetEarly: PreparedStatement
    /// The committed progress; nil before memory was filled.
    private(set) var progress: Progress?
    /// What the current transaction has written to `event_key_progress`; nil if it has written nothing.
    private var written: Progress?
    /// Nil if no move is in progress.
    private var sorted: Sorted?

    init(_ table: EventKeyTable, _ newest: NewestKeys, on connection: OpaquePointer) throws(SQLiteError) {
        self.table = table
        self.newest = newest
        setProgress = try PreparedStatement(
            "UPDATE event_key_progress SET listed_through = ?1, moving_through = ?2, moved_place = ?3 WHERE id = 1",
            on: connection)
        forgetEarly = try PreparedStatement("DELETE FROM event_key_early WHERE number <= ?1", on: connection)
    }

    /// Sets the committed progress, which another process may have changed. If a move is in progress that this process
    /// has not joined, joins the move. In this case, memory must contain exactly the events of the move.
    func goOn(from progress: Progress) {
        self.progress = progress
        if progress.isMoving, sorted == nil { begin(sortsHere: true) }
    }

    /// Writes the due keys of the move in progress. If no move is in progress, and `event_key` lacks
    /// `NewestKeys.countMax` events, begins a move. Must be called before COMMIT, when memory has all events that
    /// `event_key` lacks.
    func writePiece() throws(SQLiteError) {
        guard var next = progress else { return }
        guard next.isMoving else {
            guard newest.lastNumber - next.listedThrough >= newest.countMax else { return }
            (next.movingThrough, next.movedPlace) = (newest.lastNumber, 0)
            return try write(next)
        }
        guard let entries = sorted?.entries.withLock({ $0 }) else { return }
        let start = Self.index(of: next.movedPlace, in: entries)
        let left = entries.count - start
        let due = 2 * Int(newest.lastNumber - next.movingThrough) - start
        guard due >= min(newest.pieceMin, left) || left == 0 else { return }
        var end = start + min(left, max(0, due), Self.pieceMax)
        while end > start, end < entries.count, entries[end].place == entries[end - 1].place { end += 1 }
        for entry in entries[start..<end] { try table.addLater(entry) }
        if end < entries.count {
            next.movedPlace = entries[end].place
        } else {
            next.listedThrough = next.movingThrough
            try forgetEarly.run { (bindings) throws(SQLiteError) in try bindings.set(1, next.listedThrough) }
        }
        try write(next)
    }

    /// Returns the index of the first entry whose place in `event_key` is `place` or a higher one.
    private static func index(of place: Int64, in entries: [PlacedEvents.Entry]) -> Int {
        var range = entries.indices
        while !range.isEmpty {
            let middle = range.lowerBound + range.count / 2
            range = entries[middle].place < place ? middle + 1..<range.upperBound : range.lowerBound..<middle
        }
        return range.lowerBound
    }

    private func write(_ progress: Progress) throws(SQLiteError) {
        try setProgress.run { (bindings) throws(SQLiteError) in
            try bindings.set(1, progress.listedThrough)
            try bindings.set(2, progress.movingThrough)
            try bindings.set(3, progress.movedPlace)
        }
        written = progress
    }

    /// Must be called after COMMIT.
    func noteCommit() {
        guard let written else { return }
        progress = written
        self.written = nil
        if !written.isMoving {
            sorted = nil
            newest.endMove()
        } else if sorted == nil {
            begin(sortsHere: false)
        }
    }

    private func begin(sortsHere: Bool) {
        let entries = newest.beginMove()
        let sorted = Sorted()
        let sort = { @Sendable in
            let byPlace = entries.sorted { $0.place < $1.place }
            sorted.entries.withLock { $0 = byPlace }
        }
        // With `sortsHere`, the current transaction can already write keys. Otherwise a process that runs only one
        // transaction would never contribute to the move.
        if sortsHere || entries.count <= Self.sortedHereMax {
            sort()
        } else {
            DispatchQueue.global().async(execute: sort)
        }
        self.sorted = sorted
    }

    /// Must be called when the transaction is rolled back.
    func noteRollback() { written = nil }

    /// Must be called before `newest` is emptied.
    func forget() {
        progress = nil
        written = nil
        sorted = nil
    }
}
