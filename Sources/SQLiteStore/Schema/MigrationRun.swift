// Migrates a database to this binary's schema, and refuses a database that this binary cannot use. GRDB's
// DatabaseMigrator records only the names of migrations, so it would not notice that an applied migration was edited.

package import Engine
package import GRDB

/// The reason why this binary cannot use a database. The refused database is not changed.
package enum MigrationRefusal: Error, Hashable, Sendable, CustomStringConvertible {
    /// The database has migrations that this binary does not contain.
    case databaseIsNewer(applied: Int, known: Int)
    /// An applied migration differs from this binary's migration of the same number.
    case migrationWasEdited(number: Int, name: String)
    /// This migration is not applied, although a later one is.
    case migrationIsMissing(number: Int, name: String)
    /// The database has tables but no record of migrations, so it belongs to another program.
    case notDwell
    /// The database is an empty file, or it has no tables except those of Litestream.
    case empty
    /// Some migrations of this binary are not applied, and the caller may not apply them.
    case databaseIsOlder(applied: Int, known: Int)
    /// The database has events. This migration requires an empty table of events, because it creates the table anew
    /// without its rows.
    case databaseHasEvents(number: Int, name: String)

    package var description: String {
        switch self {
        case .databaseIsNewer(let applied, let known):
            "it has migration \(applied), this binary knows only \(known): run a newer one"
        case .migrationWasEdited(let number, let name):
            "migration \(number) (\(name)) is not the one that was applied to this database"
        case .migrationIsMissing(let number, let name):
            "migration \(number) (\(name)) is missing from this database, later ones are applied"
        case .notDwell:
            "not a Dwell database: it has tables, and no record of Dwell's migrations"
        case .empty:
            "not a Dwell database: it is empty"
        case .databaseIsOlder(let applied, let known):
            "it has migration \(applied), this binary needs \(known): start the server of this version, or run dwell migrate"
        case .databaseHasEvents(let number, let name):
            "migration \(number) (\(name)) cannot run in a database that has events"
        }
    }

    /// Whether the database belongs to Dwell, but its migrations do not match those of this binary.
    var isOfAnotherVersion: Bool {
        switch self {
        case .databaseIsNewer, .databaseIsOlder, .migrationWasEdited, .migrationIsMissing, .databaseHasEvents: true
        case .notDwell, .empty: false
        }
    }
}

/// Compares the migrations of a database with those of this binary, and applies the missing ones.
package struct MigrationRun: Sendable {
    private let migrations: [Migration]

    package init(_ migrations: [Migration] = Migration.all) {
        self.migrations = migrations
    }

    private struct Applied {
        var name: String
        var checksum: String
        var atMilliseconds: Int64
    }

    /// Returns all migrations of this binary. Each has the time when it was applied; nil if it was not applied.
    ///
    /// - Throws: `MigrationRefusal`, also for an empty database.
    package func status(_ db: Database) throws -> [MigrationStatus] {
        let applied = try check(db)
        if applied.isEmpty { throw MigrationRefusal.empty }
        return migrations.map { migration in
            MigrationStatus(
                number: migration.number, name: migration.name,
                appliedAtMilliseconds: applied[migration.number]?.atMilliseconds)
        }
    }

    /// Throws `MigrationRefusal` in three cases: the database is empty, it belongs to another program, or its
    /// migrations do not match this binary's. Accepts a database that lacks only this binary's newest migrations.
    func requireDwell(_ db: Database) throws {
        _ = try status(db)
    }

    /// Throws `MigrationRefusal` if the database is empty or belongs to another program. Accepts every version of
    /// Dwell, even a newer one.
    func requireDwellOfAnyVersion(_ db: Database) throws {
        if try applied(db).isEmpty { throw MigrationRefusal.empty }
    }

    /// Throws `MigrationRefusal` in the cases of `requireDwell`, and if a migration of this binary is not applied.
    func requireCurrent(_ db: Database) throws {
        let applied = try status(db).compactMap { $0.appliedAtMilliseconds == nil ? nil : $0.number }.max() ?? 0
        let known = migrations.map(\.number).max() ?? 0
        if applied < known { throw MigrationRefusal.databaseIsOlder(applied: applied, known: known) }
    }

    func contains(_ number: Int) -> Bool { migrations.contains { $0.number == number } }

    /// Returns the migrations up to a number.
    func upTo(_ number: Int) -> MigrationRun { MigrationRun(migrations.filter { $0.number <= number }) }

    /// Applies the missing migrations, each in a separate transaction. If a migration fails, the migrations before it
    /// remain applied.
    ///
    /// - Throws: `MigrationRefusal`, or SQLite's error.
    package func run(_ db: Database, atMilliseconds now: Int64) throws {
        let applied = try check(db)
        for migration in migrations where applied[migration.number] == nil {
            try apply(migration, to: db, atMilliseconds: now)
        }
    }

    /// Applies one migration in a transaction. Foreign keys are not enforced until the end, because a migration that
    /// recreates a table violates them at first. All foreign keys are checked before the commit.
    ///
    /// SQLite ignores `PRAGMA foreign_keys` inside a transaction, so the pragma comes before BEGIN.
    private func apply(_ migration: Migration, to db: Database, atMilliseconds now: Int64) throws {
        try db.execute(sql: "PRAGMA foreign_keys = OFF")
        defer { try? db.execute(sql: "PRAGMA foreign_keys = ON") }
        try db.inTransaction(.immediate) {
            if migration.number == Self.leanEventsNumber, try Bool.fetchOne(db, sql: Self.hasEvents) == true {
                throw MigrationRefusal.databaseHasEvents(number: migration.number, name: migration.name)
            }
            try db.execute(sql: Self.recordTable)
            try db.execute(sql: migration.sql)
            try db.checkForeignKeys()
            try db.execute(
                sql: "INSERT INTO schema_migration (number, name, sha256, applied_at_ms) VALUES (?, ?, ?, ?)",
                arguments: [migration.number, migration.name, migration.checksum, now])
            return .commit
        }
    }

    /// This migration creates `event` anew and drops the rows, so it runs only on an empty table. A database with
    /// events gets this migration from DatabaseRebuild.
    private static let leanEventsNumber = 26
    private static let hasEvents = "SELECT EXISTS (SELECT 1 FROM event)"

    private static let recordTable = """
        CREATE TABLE IF NOT EXISTS schema_migration (
            number         INTEGER PRIMARY KEY,
            name           TEXT    NOT NULL,
            sha256         TEXT    NOT NULL,
            applied_at_ms  INTEGER NOT NULL
        ) STRICT
        """

    /// Returns the applied migrations by number. Throws `MigrationRefusal` if they do not match this binary's.
    private func check(_ db: Database) throws -> [Int: Applied] {
        let applied = try applied(db)
        let known = migrations.map(\.number).max() ?? 0
        if let newest = applied.keys.max(), newest > known {
            throw MigrationRefusal.databaseIsNewer(applied: newest, known: known)
        }
        for migration in migrations {
            if let record = applied[migration.number], record.checksum != migration.checksum {
                throw MigrationRefusal.migrationWasEdited(number: migration.number, name: migration.name)
            }
        }
        let newest = applied.keys.max() ?? 0
        if let missing = migrations.first(where: { $0.number < newest && applied[$0.number] == nil }) {
            throw MigrationRefusal.migrationIsMissing(number: missing.number, name: missing.name)
        }
        return applied
    }

    private func applied(_ db: Database) throws -> [Int: Applied] {
        guard try hasRecordTable(db) else {
            guard try isEmpty(db) else { throw MigrationRefusal.notDwell }
            return [:]
        }
        let rows = try Row.fetchAll(db, sql: "SELECT number, name, sha256, applied_at_ms FROM schema_migration")
        let pairs = rows.map { row -> (Int, Applied) in
            (row[0], Applied(name: row[1], checksum: row[2], atMilliseconds: row[3]))
        }
        // Dwell creates this table and its first row in one transaction. An empty table therefore belongs to another
        // program.
        if pairs.isEmpty { throw MigrationRefusal.notDwell }
        return Dictionary(pairs) { first, _ in first }
    }

    /// Returns whether the database has Dwell's table `schema_migration`. Checks the columns too, because another
    /// program may have a table of this name.
    private func hasRecordTable(_ db: Database) throws -> Bool {
        guard try db.tableExists("schema_migration") else { return false }
        let columns = try db.columns(in: "schema_migration").map(\.name)
        return ["number", "name", "sha256", "applied_at_ms"].allSatisfy(columns.contains)
    }

    /// Returns whether the database has no tables except the two that Litestream adds.
    private func isEmpty(_ db: Database) throws -> Bool {
        try Bool.fetchOne(
            db,
            sql: #"""
                SELECT NOT EXISTS (
                    SELECT 1 FROM sqlite_schema
                    WHERE name NOT LIKE 'sqlite\_%' ESCAPE '\' AND name NOT LIKE '\_litestream\_%' ESCAPE '\')
                """#) ?? true
    }
}
