// Opens the database file: one connection that writes, a few that read, all in WAL mode, and the one that writes in
// `synchronous=FULL`, without which a 200 would be a promise that a power cut breaks (contract, section 3).

internal import CSQLiteVFS
internal import Foundation
package import GRDB
internal import GRDBSQLite

/// The database is not what acknowledgements need. The start stops here.
package struct DurabilityNotGranted: Error, Hashable, Sendable, CustomStringConvertible {
    package var pragma: String
    package var expected: String
    package var found: String

    package var description: String { "PRAGMA \(pragma) reads back \(found) instead of \(expected)" }
}

package enum DatabaseOpening {
    /// One process owns the file, so that nobody should be in the way; a backup or a shell may be, for a moment.
    static let busyTimeoutSeconds = 5.0
    /// `lookUp` is all that reads while events come in.
    static let readersMax = 4
    /// KiB of the connection that writes. The upper levels of the indexes of ten million events are some 20 MB.
    static let writerCacheKiB = 48 * 1024
    /// KiB of each that reads: a question is a few pages, and all caches together have to stay well under 150 MB.
    static let readerCacheKiB = 4 * 1024
    /// What is left of a WAL that grew behind a long reader, once it is reset. Four times what it has when it is copied
    /// (Checkpointer): under load it grows on while that happens.
    static let walBytesMax = 256 * 1024 * 1024

    /// Opens or makes the file, brings it to this binary's schema, and sees to it that commits are durable.
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

    /// The same for a file that is there and whose schema is this binary's already: for commands that change something
    /// beside a running server, which must not migrate the database under it.
    ///
    /// - Throws: `RecordsUnreadable` when there is no file; else as `open`.
    static func openExisting(path: String) throws -> DatabasePool {
        let reader = try RecordsFile.connect(path)
        try reader.read(MigrationRun().requireCurrent)
        try reader.close()
        let pool = try connect(path: path)
        try pool.writeWithoutTransaction(makeDurable)
        return pool
    }

    /// Before the file is opened to be written to: that alone turns another program's database to WAL mode. An error of
    /// SQLite's is left to the opening itself, which can do what a reader cannot (take back half a transaction).
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
    /// - Throws: `RecordsUnreadable`, also when there is no file; `MigrationRefusal`, or SQLite's error.
    package static func status(
        path: String, migrations: MigrationRun = MigrationRun()
    ) throws -> [MigrationStatus] {
        let queue = try RecordsFile.connect(path)
        defer { try? queue.close() }
        return try queue.read { db in try migrations.status(db) }
    }

    /// A group of 30 events asks SQLite for memory some 1,500 times. In a process that has used SQLite before, it
    /// goes on counting that: slower, and nothing else. Nobody here asks for the figures.
    private static let stopsMemoryStatistics = dwell_stop_memory_statistics() == SQLITE_OK

    private static func connect(path: String) throws -> DatabasePool {
        _ = stopsMemoryStatistics
        var configuration = Configuration()
        configuration.label = "dwell.sqlite"
        configuration.busyMode = .timeout(busyTimeoutSeconds)
        configuration.maximumReaderCount = readersMax
        // A transaction that survives a failing ROLLBACK is rolled back before the next one; GRDB would end the
        // process over it.
        configuration.allowsUnsafeTransactions = true
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA cache_size = -\(readerCacheKiB)")
            try db.execute(sql: "PRAGMA temp_store = MEMORY")
        }
        return try DatabasePool(path: path, configuration: configuration)
    }

    /// To be called on the connection that writes. After the pool is made: DatabasePool itself sets
    /// `synchronous=NORMAL` once `prepareDatabase` is over, so that asking for FULL there has no effect.
    private static func makeDurable(_ db: Database) throws {
        try db.execute(sql: "PRAGMA synchronous = FULL")
        try db.execute(sql: "PRAGMA cache_size = -\(writerCacheKiB)")
        // What is deleted is overwritten with zeros: a deleted driver is gone from the file, not only from its tables.
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

    /// A commit's pages go to the WAL in one call instead of two for each page.
    private static func joinWrites(_ db: Database) throws {
        guard let connection = db.sqliteConnection else {
            throw SQLiteError(extendedCode: SQLITE_MISUSE, message: "the database is closed")
        }
        let code = dwell_join_log_writes(connection)
        guard code == SQLITE_OK else { throw SQLiteError(code: code, on: connection) }
    }
}
