// Writes the keys of the newest events to `event_key`, many at a time and in the order of their places, so that the rows
// of a page are written together. Begins when memory is full, and writes a piece with each transaction that adds events,
// two keys for each new event. After a restart an unfinished move begins again and skips the rows that are there.
//
// Not Sendable: used only on the writer's queue.

import Dispatch
import Synchronization

final class KeyMove {
    /// More entries are sorted on another thread. Fewer take less than a millisecond.
    private static let sortedHereMax = 10_000

    private enum State {
        case none
        case sorting(Sorted, last: Int64)
        /// The entries before `index` are committed.
        case writing([PlacedEvents.Entry], index: Int, last: Int64)
    }

    /// Entries that are sorted on another thread; nil until they are.
    private final class Sorted: Sendable {
        let entries = Mutex<[PlacedEvents.Entry]?>(nil)
    }

    private let table: EventKeyTable
    private let newest: NewestKeys
    private let setListedThrough: PreparedStatement
    private let forgetEarly: PreparedStatement
    private var state = State.none
    /// The value of `newest.fillingCount` when the last piece was written.
    private var lastCount = 0
    /// The index up to which the transaction in progress has written.
    private var writtenIndex: Int?

    init(_ table: EventKeyTable, _ newest: NewestKeys, on connection: OpaquePointer) throws(SQLiteError) {
        self.table = table
        self.newest = newest
        setListedThrough = try PreparedStatement(
            "UPDATE event_key_progress SET listed_through = ?1 WHERE id = 1", on: connection)
        forgetEarly = try PreparedStatement("DELETE FROM event_key_early WHERE number <= ?1", on: connection)
    }

    /// Writes a piece, if a move is in progress.
    func writePiece() throws(SQLiteError) {
        takeSorted()
        guard case .writing(let entries, let index, let last) = state else { return }
        let owed = 2 * (newest.fillingCount - lastCount)
        guard owed >= newest.pieceMin else { return }
        let end = min(index + owed, entries.count)
        for entry in entries[index..<end] { try table.addLater(entry) }
        writtenIndex = end
        guard end == entries.count else { return }
        try setListedThrough.run { (bindings) throws(SQLiteError) in try bindings.set(1, last) }
        try forgetEarly.run { (bindings) throws(SQLiteError) in try bindings.set(1, last) }
    }

    private func takeSorted() {
        guard case .sorting(let sorted, let last) = state, let entries = sorted.entries.withLock({ $0 }) else { return }
        state = .writing(entries, index: 0, last: last)
        lastCount = newest.fillingCount
    }

    /// Must be called after COMMIT. Begins a move when memory is full. Returns the new value of `listed_through` if a move
    /// has ended.
    func noteCommit() -> Int64? {
        if let written = writtenIndex, case .writing(let entries, _, let last) = state {
            writtenIndex = nil
            lastCount = newest.fillingCount
            state = .writing(entries, index: written, last: last)
            if written == entries.count {
                state = .none
                newest.endMove()
                return last
            }
        }
        if case .none = state, newest.isFull { begin() }
        return nil
    }

    private func begin() {
        let entries = newest.beginMove()
        guard let last = entries.last?.event else { return }
        let sorted = Sorted()
        let sort = { @Sendable in
            let byPlace = entries.sorted { $0.place < $1.place }
            sorted.entries.withLock { $0 = byPlace }
        }
        if entries.count <= Self.sortedHereMax { sort() } else { DispatchQueue.global().async(execute: sort) }
        state = .sorting(sorted, last: last)
    }

    /// Must be called after a rollback.
    func rollBack() { writtenIndex = nil }

    /// Must be called when `newest` is emptied.
    func forget() {
        state = .none
        writtenIndex = nil
    }
}
