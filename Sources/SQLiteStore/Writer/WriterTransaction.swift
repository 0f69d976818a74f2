// Begins and ends the writer's transactions and savepoints. After a failed COMMIT, determines whether something may be
// stored.
//
// Not Sendable: used only on the writer's queue.

import Engine
import GRDBSQLite

final class WriterTransaction {
    private let connection: OpaquePointer
    private let begin: PreparedStatement
    private let commit: PreparedStatement
    private let rollback: PreparedStatement
    private let probe: PreparedStatement
    private let savepoint: PreparedStatement
    private let rollbackToSavepoint: PreparedStatement
    private let releaseSavepoint: PreparedStatement

    init(on connection: OpaquePointer) throws(SQLiteError) {
        self.connection = connection
        begin = try PreparedStatement("BEGIN IMMEDIATE", on: connection)
        commit = try PreparedStatement("COMMIT", on: connection)
        rollback = try PreparedStatement("ROLLBACK", on: connection)
        probe = try PreparedStatement(
            "UPDATE write_probe SET written_count = written_count + 1 WHERE id = 1", on: connection)
        savepoint = try PreparedStatement("SAVEPOINT request", on: connection)
        rollbackToSavepoint = try PreparedStatement("ROLLBACK TO request", on: connection)
        releaseSavepoint = try PreparedStatement("RELEASE request", on: connection)
    }

    /// Begins the transaction. Before that, rolls back any transaction that a failed ROLLBACK has left open.
    ///
    /// Throws if the database file is no longer at its path. SQLite would write pages to the moved file, and frames to
    /// a WAL at the old path. After a restart, it would find neither of them.
    func start() throws(SQLiteError) {
        rollBack()
        if isFileMoved { throw .fileMoved }
        try begin.run()
    }

    private var isFileMoved: Bool {
        var moved: Int32 = 0
        let code = sqlite3_file_control(connection, "main", SQLITE_FCNTL_HAS_MOVED, &moved)
        return code == SQLITE_OK && moved != 0
    }

    func end() throws(SQLiteError) {
        try commit.run()
    }

    /// Rolls the transaction back, unless an error has already ended it.
    func rollBack() {
        if isOpen { try? rollback.run() }
    }

    private var isOpen: Bool { sqlite3_get_autocommit(connection) == 0 }

    /// Tests whether the disk accepts writes, by changing a row that serves only for this test.
    func writeProbe() throws(SQLiteError) {
        try probe.run()
    }

    /// Returns `.unavailable` if the failed COMMIT has certainly stored nothing, otherwise `.unknown`. Must be called
    /// after the rollback.
    ///
    /// The rollback leaves frames of the transaction in the WAL, and a recovery after a crash could apply them.
    /// `isWritable` therefore commits another transaction. If that succeeds, it has overwritten these frames.
    func failure(ofCommit error: SQLiteError) -> StoreFailure {
        if error.provesThatCommitDidNotHappen || isWritable() {
            return .unavailable("commit failed: \(error)")
        }
        return .unknown("commit failed: \(error)")
    }

    private func isWritable() -> Bool {
        do {
            try begin.run()
            try probe.run()
            try commit.run()
            return true
        } catch {
            rollBack()
            return false
        }
    }

    // MARK: Savepoints

    func startSavepoint() throws(SQLiteError) {
        try savepoint.run()
    }

    func endSavepoint() throws(SQLiteError) {
        try releaseSavepoint.run()
    }

    func rollBackSavepoint() throws(SQLiteError) {
        try rollbackToSavepoint.run()
        try releaseSavepoint.run()
    }
}
