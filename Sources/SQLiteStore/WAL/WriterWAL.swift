// The writer's work on its WAL between two transactions. Truncates the WAL when removed rows must be gone from it, and
// copies the last frames, which the checkpointer leaves to the writer.
//
// Not Sendable: used only on the writer's queue, as the writer's connection is.

import GRDBSQLite

final class WriterWAL {
    private let connection: OpaquePointer
    private let checkpointer: Checkpointer
    private let size: WALSize

    /// Whether the WAL may still contain bytes of removed rows and must be truncated. The transaction that removes the
    /// rows sets `PRAGMA user_version` to 1, as a mark. If the server ends before it truncates the WAL, the next start
    /// finds the mark and truncates the WAL.
    private(set) var needsTruncation: Bool
    private var isMarked: Bool

    /// The connection must exist as long as this object. A connection that was closed by sqlite3_close_v2 still exists
    /// until its last statement is finalized.
    init(of connection: OpaquePointer, checkpointer: Checkpointer) {
        self.connection = connection
        self.checkpointer = checkpointer
        size = WALSize(of: connection)
        isMarked = Self.readMark(connection)
        needsTruncation = isMarked
    }

    // MARK: Purging

    /// Milliseconds to wait for a reader that prevents truncation of the WAL. The writer waits directly after a group
    /// that removes rows, and when an operator waits for the removal (`finishRemoval`).
    ///
    /// In all other cases it does not wait, because a backup or a replicator may read for hours and would delay every
    /// later group.
    private static let readerTimeoutMilliseconds: Int32 = 100

    /// Must be called within each transaction. Sets the mark `user_version` if the transaction removes something that
    /// must be gone from the WAL.
    ///
    /// Clears the mark in the first transaction after the truncation. If no such transaction follows, the mark only
    /// causes another truncation at the next start.
    func mark(removesSomething: Bool) throws(SQLiteError) {
        guard removesSomething || (isMarked && !needsTruncation) else { return }
        let code = sqlite3_exec(connection, "PRAGMA user_version = \(removesSomething ? 1 : 0)", nil, nil, nil)
        guard code == SQLITE_OK else { throw SQLiteError(code: code, on: connection) }
        isMarked = removesSomething
    }

    /// Reads the mark after another process has written. If that process removed rows but could not truncate the WAL,
    /// this process must truncate it.
    func takeOverMark() {
        isMarked = Self.readMark(connection)
        if isMarked { needsTruncation = true }
    }

    /// Returns whether the mark is set. An unreadable mark counts as set.
    private static func readMark(_ connection: OpaquePointer) -> Bool {
        guard let statement = try? PreparedStatement("PRAGMA user_version", on: connection) else { return true }
        return (try? statement.first({ _ in }, read: { row in row.integer(0) })) != 0
    }

    /// Copies the WAL into the database file and truncates the WAL. The copied pages no longer contain the removed
    /// rows, because `secure_delete` has overwritten them. If a reader prevents the truncation, the truncation remains
    /// pending.
    func truncate() { truncate(busyTimeoutMilliseconds: 0) }

    func truncateAwaitingReaders() { truncate(busyTimeoutMilliseconds: Self.readerTimeoutMilliseconds) }

    private func truncate(busyTimeoutMilliseconds: Int32) {
        checkpointer.yieldToWriter()
        sqlite3_busy_timeout(connection, busyTimeoutMilliseconds)
        let code = sqlite3_wal_checkpoint_v2(connection, nil, SQLITE_CHECKPOINT_TRUNCATE, nil, nil)
        sqlite3_busy_timeout(connection, Int32(DatabaseOpening.busyTimeoutSeconds * 1000))
        needsTruncation = code != SQLITE_OK
        // The connection's cached pages may still contain removed rows in their unallocated space, which is cleared
        // only in the database file (free_space.c). A change of such a page would write these rows to the WAL, so the
        // cache is emptied.
        if isMarked && !needsTruncation { sqlite3_db_release_memory(connection) }
    }

    /// Tries to truncate the WAL, even if no truncation is pending. Returns whether the WAL is truncated. If a reader
    /// prevents the truncation, this attempt does not make one pending.
    func truncateUnlessRead() -> Bool {
        let neededTruncation = needsTruncation
        truncate()
        let isTruncated = !needsTruncation
        if !isTruncated { needsTruncation = neededTruncation }
        return isTruncated
    }

    // MARK: The checkpointer's remainder

    /// Must be called after each commit. If the checkpointer has left the last frames of the WAL to the writer, copies
    /// them without waiting for readers. If all frames are then copied, the next commit begins the WAL anew.
    func copyRest() {
        guard checkpointer.logHas(pages: size.pages) else { return }
        sqlite3_wal_checkpoint_v2(connection, nil, SQLITE_CHECKPOINT_PASSIVE, nil, nil)
    }
}
