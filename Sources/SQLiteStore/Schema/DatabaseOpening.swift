// Opens the database file in WAL mode, with one write connection and a few read connections. The write connection needs
// `synchronous=FULL`. Otherwise a power cut could lose events that were acknowledged with 200 (contract, section 3).

internal import CSQLiteVFS
package import Engine
internal import Foundation
package import GRDB
internal import GRDBSQLite

/// A pragma that protects durability, foreign keys or the removal of deleted data is not in force. The server then does
/// not start.
package struct DurabilityNotGranted: Error, Hashable, Sendable, CustomStringConvertible {
    package var pragma: String
    package var expected: String
    package var found: String

    package var description: String { "PRAGMA \(pragma) reads back \(found) instead of \(expected)" }
}

package enum DatabaseOpening {
    /// Returns why the database at `path` could not be opened. The reason is the cause that OpeningObstacle finds, or
    /// else SQLite's message without the SQL statement. If `path` is nil, does not look for a cause.
    package static func reason(_ error: any Error, at path: String? = nil) -> String {
        RecordsUnreadable(error, at: path).description
    }

    /// Time limit in seconds for waiting for a lock. Usually only one process uses the file, but a backup or a shell
    /// may lock it for a moment.
    static let busyTimeoutSeconds = 5.0
    /// Maximum number of read connections. Requests that post events use a read connection only in `lookUp`.
    static let readersMax = 4
    /// Page cache of the write connection, in KiB. With ten million events, the upper levels of the indexes take about
    /// 20 MB.
    static let writerCacheKiB = 48 * 1024
    /// Page cache of each read connection, in KiB. A query needs few pages. All caches together must stay well under
    /// 150 MB.
    static let readerCacheKiB = 4 * 1024
    /// When SQLite resets the WAL, it shortens the WAL file to this size in bytes. Until then, the WAL may be longer,
    /// especially while a long read prevents the reset.
    ///
    /// The Checkpointer begins to copy at about a quarter of this size, because under load the WAL grows during the
    /// copying.
    static let walBytesMax = 256 * 1024 * 1024

    /// Opens or creates the file, migrates it to this binary's schema, and ensures that commits are durable.
    ///
    /// - Parameter report: called with the progress of migration 26, which may take minutes in a database with events.
    /// - Throws: `RecordsUnreadable` if `path` is not a file that may be written; `MigrationRefusal`;
    ///   `MaintenanceRefusal`; `DurabilityNotGranted`; or SQLite's error.
    package static func open(
        path: String, migrations: MigrationRun = MigrationRun(), nowMilliseconds: Int64,
        report: (RebuildReport) -> Void = { _ in }
    ) throws -> DatabasePool {
        try open(
            path: path, migrations: migrations, nowMilliseconds: nowMilliseconds, rebuild: DatabaseRebuild.Options(),
            report: report)
    }

    static func open(
        path: String, migrations: MigrationRun = MigrationRun(), nowMilliseconds: Int64,
        rebuild options: DatabaseRebuild.Options, report: (RebuildReport) -> Void = { _ in }
    ) throws -> DatabasePool {
        try OpeningObstacle.requireFile(path)
        try OpeningObstacle.requireWritable(path)
        try refuseForeign(path: path, migrations)
        try withoutActuallyEscaping(report) { report in
            let rebuild = DatabaseRebuild(
                path: path, migrations: migrations, nowMilliseconds: nowMilliseconds, options: options, report: report)
            guard let last = try rebuild.lastMigrationBefore() else { return }
            // `migrate` is called here only if needed, because it changes the file. An interrupted rebuild can continue
            // only if the file is unchanged.
            if last < DatabaseRebuild.number - 1 {
                try migrate(path: path, migrations.upTo(DatabaseRebuild.number - 1), nowMilliseconds).close()
            }
            try rebuild.run()
        }
        return try migrate(path: path, migrations, nowMilliseconds)
    }

    private static func migrate(
        path: String, _ migrations: MigrationRun, _ nowMilliseconds: Int64
    ) throws -> DatabasePool {
        let pool = try connect(path: path)
        try pool.writeWithoutTransaction { db in
            try addFileLayers(db)
            try migrations.run(db, atMilliseconds: nowMilliseconds)
            try RebuildMark.remove(db)
            try makeDurable(db)
        }
        return pool
    }

    /// Opens an existing file that has this binary's schema. Used by commands that change data while a server may be
    /// running, and that therefore must not migrate the database.
    ///
    /// - Throws: `RecordsUnreadable` when the file does not exist; `MigrationRefusal`; `DurabilityNotGranted`; or
    ///   SQLite's error.
    static func openExisting(path: String) throws -> DatabasePool {
        let reader = try RecordsFile.connect(path)
        try reader.read(MigrationRun().requireCurrent)
        try reader.close()
        let pool = try connect(path: path)
        try pool.writeWithoutTransaction { db in
            try addFileLayers(db)
            try makeDurable(db)
        }
        return pool
    }

    /// Throws `MigrationRefusal` for a database that this binary cannot use. Must be called before the file is opened
    /// for writing, because that would switch even another program's database to WAL mode.
    ///
    /// Ignores SQLite's errors. Opening the file for writing either causes the error again or removes its cause, for
    /// example an incomplete transaction.
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

    /// Returns which migrations the file has, for `dwell migrate --status`. Does not change the file.
    ///
    /// - Throws: `RecordsUnreadable`, for example if the file does not exist; `MigrationRefusal`; or SQLite's error.
    package static func status(
        path: String, migrations: MigrationRun = MigrationRun()
    ) throws -> [MigrationStatus] {
        let queue = try RecordsFile.connect(path)
        defer { try? queue.close() }
        return try queue.read { db in try migrations.status(db) }
    }

    /// Checks that the file has all migrations of this binary.
    ///
    /// - Throws: `MigrationRefusal` if a migration is not applied. Also throws the errors of `status`.
    package static func requireCurrent(path: String) throws {
        let queue = try RecordsFile.connect(path)
        defer { try? queue.close() }
        try queue.read(MigrationRun().requireCurrent)
    }

    /// Sets two options of SQLite for the whole process, at the first use of this constant. False if the process had
    /// used SQLite before that. The options then keep their defaults, which are slower but correct.
    ///
    /// The first option turns off memory statistics. Nothing reads them, and SQLite would update them about 1,500 times
    /// in a group of 30 events. The second option skips empty truncations of the page cache (page_cache.c).
    static let isConfigured = dwell_stop_memory_statistics() == SQLITE_OK && dwell_skip_empty_truncations() == SQLITE_OK

    private static func connect(path: String) throws -> DatabasePool {
        _ = isConfigured
        var configuration = Configuration()
        configuration.label = "dwell.sqlite"
        configuration.busyMode = .timeout(busyTimeoutSeconds)
        configuration.maximumReaderCount = readersMax
        // A failed ROLLBACK may leave a transaction open, which the writer rolls back before the next BEGIN. Without
        // this option, GRDB would end the process when it finds the open transaction.
        configuration.allowsUnsafeTransactions = true
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA cache_size = -\(readerCacheKiB)")
            try db.execute(sql: "PRAGMA temp_store = MEMORY")
        }
        return try DatabasePool(path: path, configuration: configuration)
    }

    /// Sets the pragmas of the write connection, and checks the pragmas of `DurabilityNotGranted`. Must be called after
    /// the pool is created, because DatabasePool sets `synchronous=NORMAL` after `prepareDatabase`.
    private static func makeDurable(_ db: Database) throws {
        try db.execute(sql: "PRAGMA synchronous = FULL")
        try db.execute(sql: "PRAGMA cache_size = -\(writerCacheKiB)")
        // This pragma makes SQLite overwrite deleted data with zeros. The data of a deleted driver is therefore gone
        // from the bytes of the file, not only from the tables.
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
    }

    /// Changes SQLite's writes in two ways. The pages of a commit are written to the WAL in few calls, not in two calls
    /// per page. When a page is copied from the WAL, its unallocated space is cleared.
    ///
    /// Must be called before the first commit, because even the first commit may copy pages from the WAL.
    static func addFileLayers(_ db: Database) throws {
        let connection = try db.openConnection
        let code = dwell_join_log_writes(connection)
        guard code == SQLITE_OK else { throw SQLiteError(code: code, on: connection) }
    }
}
