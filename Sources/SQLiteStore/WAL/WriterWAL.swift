// The writer's work on the WAL between transactions. Truncates the WAL when removed rows must be gone from it. Copies
// the last frames of the WAL, which the checkpointer leaves to the writer.
//
// Not Sendable: used only on the writer's queue, like the writer's connection.

import GRDBSQLite

final class WriterWAL {
    private let connection: OpaquePointer
    private let checkpointer: Checkpointer
    private let size: WALSize

    /// Whether the WAL may still contain bytes of removed rows. The transaction that removes rows sets the mark
    /// `PRAGMA user_version` to 1. If the server ends before it truncates the WAL, the next start finds the mark and
    /// truncates the WAL.
    private(set) var needsTruncation: Bool
    private var isMarked: Bool

    /// The connection must exist as long as this object. After sqlite3_close_v2, a connection exists until its last
    /// statement is finalized.
    init(of connection: OpaquePointer, checkpointer: Checkpointer) {
        self.connection = connection
        self.checkpointer = checkpointer
        size = WALSize(of: connection)
        isMarked = Self.readMark(connection)
        needsTruncation = isMarked
    }

    // MARK: Purging

    /// How many milliseconds to wait for a reader that prevents the truncation of the WAL. The writer waits only after
    /// a transaction that removes rows, and when an operator waits for the removal (`finishRemoval`).
    ///
    /// In other cases it does not wait, because a backup or a replicator may read for hours, and each wait would delay
    /// other requests.
    private static let readerTimeoutMilliseconds: Int32 = 100

    /// Must be called within each transaction. If the transaction removes something that must be gone from the WAL,
    /// sets the mark `user_version`.
    ///
    /// The first transaction after the truncation clears the mark. If no such transaction follows, the next start
    /// truncates the WAL once more.
    func mark(removesSomething: Bool) throws(SQLiteError) {
        guard removesSomething || (isMarked && !needsTruncation) else { return }
        let code = sqlite3_exec(connection, "PRAGMA user_version = \(removesSomething ? 1 : 0)", nil, nil, nil)
        guard code == SQLITE_OK else { throw SQLiteError(code: code, on: connection) }
        isMarked = removesSomething
    }

    /// Reads the mark after another process has written. If that process removed rows but did not truncate the WAL,
    /// this process must do so.
    func takeOverMark() {
        isMarked = Self.readMark(connection)
        if isMarked { needsTruncation = true }
    }

    /// An unreadable mark counts as set.
    private static func readMark(_ connection: OpaquePointer) -> Bool {
        guard let statement = try? PreparedStatement("PRAGMA user_version", on: connection) else { return true }
        return (try? statement.first({ _ in }, read: { row in row.integer(0) })) != 0
    }

    /// Copies the WAL into the database file and truncates the WAL. The copied pages do not contain the removed rows,
    /// because `secure_delete` overwrites them. If a reader prevents the truncation, the truncation stays pending.
    func truncate() { truncate(busyTimeoutMilliseconds: 0) }

    func truncateAwaitingReaders() { truncate(busyTimeoutMilliseconds: Self.readerTimeoutMilliseconds) }

    private func truncate(busyTimeoutMilliseconds: Int32) {
        checkpointer.yieldToWriter()
        sqlite3_busy_timeout(connection, busyTimeoutMilliseconds)
        let code = sqlite3_wal_checkpoint_v2(connection, nil, SQLITE_CHECKPOINT_TRUNCATE, nil, nil)
        sqlite3_busy_timeout(connection, Int32(DatabaseOpening.busyTimeoutSeconds * 1000))
        needsTruncation = code != SQLITE_OK
        // Unallocated space is cleared only in the database file (free_space.c), so the connection's cached pages may
        // still contain removed rows. A change of such a page would write these rows to the WAL. The cache is therefore
        // emptied.
        if isMarked && !needsTruncation { sqlite3_db_release_memory(connection) }
    }

    /// Tries to truncate the WAL, even if no truncation is pending. Returns whether it was truncated. A failed attempt
    /// does not make a truncation pending.
    func truncateUnlessRead() -> Bool {
        let neededTruncation = needsTruncation
        truncate()
        let isTruncated = !needsTruncation
        if !isTruncated { needsTruncation = neededTruncation }
        return isTruncated
    }

    // MARK: The checkpointer's remainder

    /// Must be called after each commit. If the checkpointer has left the last frames to the writer, copies them
    /// without waiting for readers. When all frames are copied, the next commit begins the WAL anew.
    func copyRest() {
        guard checkpointer.logHas(pages: size.pages) else { return }
        sqlite3_wal_checkpoint_v2(connection, nil, SQLITE_CHECKPOINT_PASSIVE, nil, nil)
    }
}
