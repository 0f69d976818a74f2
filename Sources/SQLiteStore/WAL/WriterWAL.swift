// The writer's work on its WAL between two transactions: truncates it when something must be gone from it, and
// copies what the checkpointer leaves.
//
// Not Sendable: it lives with the writer's connection, on the writer's queue.

import GRDBSQLite

final class WriterWAL {
    private let connection: OpaquePointer
    private let checkpointer: Checkpointer
    private let size: WALSize

    /// Rows were removed whose bytes may still be in the WAL. Meanwhile `PRAGMA user_version` is 1, set with the
    /// removal: a server that ended before a reader was gone finds it at its next start.
    private(set) var owesTruncation: Bool
    private var isMarked: Bool

    /// The connection must outlive this: it is open, or has statements that were not finalized (sqlite3_close_v2).
    init(of connection: OpaquePointer, checkpointer: Checkpointer) {
        self.connection = connection
        self.checkpointer = checkpointer
        size = WALSize(of: connection)
        isMarked = Self.readMark(connection)
        owesTruncation = isMarked
    }

    // MARK: Purging

    /// Milliseconds to wait for a reader that prevents truncation of the WAL. Only the group that removes something
    /// waits: a reader may stay for hours (a backup, a replicator), and would delay everything after that.
    private static let patience: Int32 = 100

    /// Call within each transaction. The mark is cleared with the next one after the truncation; a mark that
    /// remains, because nothing was written afterwards or that was rolled back, only causes another truncation at
    /// the next start.
    func mark(removesSomething: Bool) throws(SQLiteError) {
        guard removesSomething || (isMarked && !owesTruncation) else { return }
        let code = sqlite3_exec(connection, "PRAGMA user_version = \(removesSomething ? 1 : 0)", nil, nil, nil)
        guard code == SQLITE_OK else { throw SQLiteError(code: code, on: connection) }
        isMarked = removesSomething
    }

    /// Another process has written: what it removed and could not truncate from the WAL is now pending here.
    func takeOverMark() {
        isMarked = Self.readMark(connection)
        if isMarked { owesTruncation = true }
    }

    /// An unreadable mark counts as set.
    private static func readMark(_ connection: OpaquePointer) -> Bool {
        guard let statement = try? PreparedStatement("PRAGMA user_version", on: connection) else { return true }
        return (try? statement.first({ _ in }, read: { row in row.integer(0) })) != 0
    }

    /// Copies the WAL into the database file and truncates it. `secure_delete` has overwritten what was removed. If
    /// a reader is in the way, this is left for the next time.
    func truncate() { truncate(patienceMilliseconds: 0) }

    func truncateWithPatience() { truncate(patienceMilliseconds: Self.patience) }

    private func truncate(patienceMilliseconds: Int32) {
        checkpointer.giveWay()
        sqlite3_busy_timeout(connection, patienceMilliseconds)
        let code = sqlite3_wal_checkpoint_v2(connection, nil, SQLITE_CHECKPOINT_TRUNCATE, nil, nil)
        sqlite3_busy_timeout(connection, Int32(DatabaseOpening.busyTimeoutSeconds * 1000))
        owesTruncation = code != SQLITE_OK
    }

    /// The same when it is not required: if a reader is in the way, nothing becomes pending. Returns whether the
    /// WAL is truncated.
    func truncateUnlessRead() -> Bool {
        let wasOwed = owesTruncation
        truncate()
        let isCut = !owesTruncation
        if !isCut { owesTruncation = wasOwed }
        return isCut
    }

    // MARK: The checkpointer's remainder

    /// Call after each commit. Copies what it can without waiting, when little is left; when that is everything,
    /// the next commit resets the WAL.
    func copyRest() {
        guard checkpointer.logHas(pages: size.pages) else { return }
        sqlite3_wal_checkpoint_v2(connection, nil, SQLITE_CHECKPOINT_PASSIVE, nil, nil)
    }
}
