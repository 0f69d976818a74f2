// What the writer does to its WAL between two transactions: cut it to nothing when something has to be gone from it, and
// copy what the checkpointer leaves.
//
// Not Sendable: it lives with the writer's connection, on the writer's queue.

import GRDBSQLite

final class WriterWAL {
    private let connection: OpaquePointer
    private let checkpointer: Checkpointer
    private let size: WALSize

    /// Rows were removed whose bytes may still lie in the WAL. `PRAGMA user_version` is 1 for as long, set with the removal:
    /// a server that was ended before a reader left remembers it at its next start.
    private(set) var owesTruncation: Bool
    private var isMarked: Bool

    /// The connection outlives this: it is open, or has statements that were not finalized (sqlite3_close_v2).
    init(of connection: OpaquePointer, checkpointer: Checkpointer) {
        self.connection = connection
        self.checkpointer = checkpointer
        size = WALSize(of: connection)
        isMarked = Self.readMark(connection)
        owesTruncation = isMarked
    }

    // MARK: What is removed without a trace

    /// Milliseconds for a reader that keeps the WAL from being cut. Only the group that removes something waits for it:
    /// a reader may stay for hours (a backup, a replicator), and everybody after it would pay.
    private static let patience: Int32 = 100

    /// Within each transaction. The mark goes with the next one after the cut; one that stays, since nothing was written
    /// any more or that was taken back, has the WAL cut once more at the next start.
    func mark(removesSomething: Bool) throws(SQLiteError) {
        guard removesSomething || (isMarked && !owesTruncation) else { return }
        let code = sqlite3_exec(connection, "PRAGMA user_version = \(removesSomething ? 1 : 0)", nil, nil, nil)
        guard code == SQLITE_OK else { throw SQLiteError(code: code, on: connection) }
        isMarked = removesSomething
    }

    /// Another process has written: what it removed and could not cut from the WAL is now owed here.
    func takeOverMark() {
        isMarked = Self.readMark(connection)
        if isMarked { owesTruncation = true }
    }

    /// A mark that cannot be read is taken for one.
    private static func readMark(_ connection: OpaquePointer) -> Bool {
        guard let statement = try? PreparedStatement("PRAGMA user_version", on: connection) else { return true }
        return (try? statement.first({ _ in }, read: { row in row.integer(0) })) != 0
    }

    /// Copies the WAL into the database file and cuts it to nothing. `secure_delete` has overwritten what was removed.
    /// A reader in the way leaves it for the next time.
    func truncate() { truncate(patienceMilliseconds: 0) }

    func truncateWithPatience() { truncate(patienceMilliseconds: Self.patience) }

    private func truncate(patienceMilliseconds: Int32) {
        checkpointer.giveWay()
        sqlite3_busy_timeout(connection, patienceMilliseconds)
        let code = sqlite3_wal_checkpoint_v2(connection, nil, SQLITE_CHECKPOINT_TRUNCATE, nil, nil)
        sqlite3_busy_timeout(connection, Int32(DatabaseOpening.busyTimeoutSeconds * 1000))
        owesTruncation = code != SQLITE_OK
    }

    /// The same, without being owed: a reader in the way may stay there. Answers whether the WAL is cut.
    func truncateUnlessRead() -> Bool {
        let wasOwed = owesTruncation
        truncate()
        let isCut = !owesTruncation
        if !isCut { owesTruncation = wasOwed }
        return isCut
    }

    // MARK: What the checkpointer leaves

    /// To be called after each commit. Copies what it can without waiting for anybody, when little is left; when that
    /// is all, the next commit begins the WAL anew.
    func copyRest() {
        guard checkpointer.logHas(pages: size.pages) else { return }
        sqlite3_wal_checkpoint_v2(connection, nil, SQLITE_CHECKPOINT_PASSIVE, nil, nil)
    }
}
