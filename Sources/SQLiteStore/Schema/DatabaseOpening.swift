// Opens the database file: one write connection and a few read connections, all in WAL mode, and the writer with
// `synchronous=FULL`, without which a power cut would break the promise of a 200 (contract, section 3).

internal import CSQLiteVFS
internal import Foundation
package import GRDB
internal import GRDBSQLite

/// The database cannot guarantee durability. The start stops here.
package struct DurabilityNotGranted: Error, Hashable, Sendable, CustomStringConvertible {
    package var pragma: String
    package var expected: String
    package var found: String

    package var description: String { "PRAGMA \(pragma) reads back \(found) instead of \(expected)" }
}

package enum DatabaseOpening {
    /// Why a database could not be opened, in SQLite's words but without its statement.
    package static func reason(_ error: any Error) -> String { RecordsUnreadable(error).description }

    /// One process owns the file, so locks should be free; a backup or a shell may hold one for a moment.
    static let busyTimeoutSeconds = 5.0
    /// `lookUp` is the only read while events come in.
    static let readersMax = 4
    /// KiB of the write connection. The upper levels of the indexes of ten million events take about 20 MB.
    static let writerCacheKiB = 48 * 1024
    /// KiB of each read connection: a query needs a few pages, and all caches together must stay well under 150 MB.
    static let readerCacheKiB = 4 * 1024
    /// Size to which a WAL that grew because of a long reader is truncated when it is reset. Four times the size at
    /// which it is copied (Checkpointer): under load it continues to grow meanwhile.
    static let walBytesMax = 256 * 1024 * 1024

    /// Opens or creates the file, migrates it to this binary's schema, and ensures that commits are durable.
    ///
    /// - Throws: `MigrationRefusal`, `DurabilityNotGranted`, or SQLite's error.
    package static func open(
        path: String, migrations: MigrationRun = MigrationRun(), nowMilliseconds: Int64
    ) throws -> DatabasePool {
        try refuseForeign(path: path, migrations)
        let pool = try connect(path: path)
        try pool.writeWithoutTransaction { db in
            try migrations.run(db, atMilliseconds: nowMilliseconds)
            try makeDurable(db)
        }
        return pool
    }

    /// The same for an existing file that already has this binary's schema: for commands that change data while a
    /// server may be running, and must not migrate the database under it.
    ///
    /// - Throws: `RecordsUnreadable` when the file does not exist; otherwise as `open`.
    static func openExisting(path: String) throws -> DatabasePool {
        let reader = try RecordsFile.connect(path)
        try reader.read(MigrationRun().requireCurrent)
        try reader.close()
        let pool = try connect(path: path)
        try pool.writeWithoutTransaction(makeDurable)
        return pool
    }

    /// Called before the file is opened for writing: that alone would switch another program's database to WAL
    /// mode. SQLite's errors are left to the actual opening, which can do what a reader cannot (roll back half a
    /// transaction).
    private static func refuseForeign(path: String, _ migrations: MigrationRun) throws {
        guard let reader = try? RecordsFile.connect(path) else { return }
        defer { try? reader.close() }
        do {
            try reader.read(migrations.requireDwell)
        } catch MigrationRefusal.empty {
            return
        } catch let refusal as MigrationRefusal {
            throw refusal
        } catch {
            return
        }
    }

    /// Reads the file as it is, for `dwell migrate --status`.
    ///
    /// - Throws: `RecordsUnreadable`, also when the file does not exist; `MigrationRefusal`, or SQLite's error.
    package static func status(
        path: String, migrations: MigrationRun = MigrationRun()
    ) throws -> [MigrationStatus] {
        let queue = try RecordsFile.connect(path)
        defer { try? queue.close() }
        return try queue.read { db in try migrations.status(db) }
    }

    /// - Throws: `MigrationRefusal` for a file whose migrations are not all applied; as `status` otherwise.
    package static func requireCurrent(path: String) throws {
        let queue = try RecordsFile.connect(path)
        defer { try? queue.close() }
        try queue.read(MigrationRun().requireCurrent)
    }

    /// A group of 30 events allocates about 1,500 times in SQLite. In a process that has already used SQLite the
    /// statistics stay on: slower, but correct. Nothing here uses them.
    private static let stopsMemoryStatistics = dwell_stop_memory_statistics() == SQLITE_OK

    private static func connect(path: String) throws -> DatabasePool {
        _ = stopsMemoryStatistics
        var configuration = Configuration()
        configuration.label = "dwell.sqlite"
        configuration.busyMode = .timeout(busyTimeoutSeconds)
        configuration.maximumReaderCount = readersMax
        // A transaction that survives a failing ROLLBACK is rolled back before the next one; GRDB would end the
        // process because of it.
        configuration.allowsUnsafeTransactions = true
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA cache_size = -\(readerCacheKiB)")
            try db.execute(sql: "PRAGMA temp_store = MEMORY")
        }
        return try DatabasePool(path: path, configuration: configuration)
    }

    /// Must be called on the write connection, after the pool is created: DatabasePool itself sets
    /// `synchronous=NORMAL` after `prepareDatabase`, so that setting FULL there has no effect.
    private static func makeDurable(_ db: Database) throws {
        try db.execute(sql: "PRAGMA synchronous = FULL")
        try db.execute(sql: "PRAGMA cache_size = -\(writerCacheKiB)")
        // Deleted data is overwritten with zeros: a deleted driver is removed from the file, not only from its
        // tables.
        try db.execute(sql: "PRAGMA secure_delete = ON")
        try db.execute(sql: "PRAGMA journal_size_limit = \(walBytesMax)")
        for (pragma, expected) in [
            ("journal_mode", "wal"), ("synchronous", "2"), ("foreign_keys", "1"), ("secure_delete", "1"),
        ] {
            let found = try String.fetchOne(db, sql: "PRAGMA \(pragma)") ?? "nothing"
            guard found == expected else {
                throw DurabilityNotGranted(pragma: pragma, expected: expected, found: found)
            }
        }
        try joinWrites(db)
    }

    /// A commit's pages are written to the WAL in one call instead of two for each page.
    private static func joinWrites(_ db: Database) throws {
        guard let connection = db.sqliteConnection else {
            throw SQLiteError(extendedCode: SQLITE_MISUSE, message: "the database is closed")
        }
        let code = dwell_join_log_writes(connection)
        guard code == SQLITE_OK else { throw SQLiteError(code: code, on: connection) }
    }
}
