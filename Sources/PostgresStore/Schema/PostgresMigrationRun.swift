// Migrates a database to the schema of this binary, and refuses a database that this binary cannot use. If several
// instances start at the same time, one of them migrates, and the others wait for it.

package import Postgres
package import Sockets

/// The reason why this binary cannot use a database. For every reason except `failed`, the database is unchanged.
package enum PostgresMigrationRefusal: Error, Hashable, Sendable, CustomStringConvertible {
    /// The database has migrations that this binary does not contain.
    case databaseIsNewer(applied: Int64, known: Int64)
    /// An applied migration differs from this binary's migration of the same number.
    case migrationWasEdited(number: Int64, name: String)
    /// This migration is not applied, although a later one is.
    case migrationIsMissing(number: Int64, name: String)
    /// The schema has tables, but no record of Dwell's migrations.
    case notDwell
    case encodingIsNotUTF8(String)
    /// A transfer from an SQLite database to this database has begun and is not complete.
    case isTransferred
    /// PostgreSQL could not be reached, or a statement failed. If the answer to COMMIT was lost, the migrations may
    /// have been applied.
    case failed(PostgresError)

    package var description: String {
        switch self {
        case .databaseIsNewer(let applied, let known):
            "the database has migration \(applied), this binary knows only \(known): run a newer one"
        case .migrationWasEdited(let number, let name):
            "migration \(number) (\(name)) is not the one that was applied to this database"
        case .migrationIsMissing(let number, let name):
            "migration \(number) (\(name)) is missing from this database, later ones are applied"
        case .notDwell: "not a Dwell database: it has tables, and no record of Dwell's migrations"
        case .encodingIsNotUTF8(let encoding):
            "the database has the encoding \(encoding): create it with ENCODING 'UTF8'"
        case .isTransferred:
            "the transfer of an SQLite database to this one is not complete: run dwell migrate --from sqlite until it is"
        case .failed(let error): "PostgreSQL: \(error)"
        }
    }
}

package struct PostgresMigrationRun: Sendable {
    let migrations: [PostgresMigration]
    /// Whether the run is part of a transfer. Any other run refuses a database whose transfer is not complete.
    private let isOfTransfer: Bool

    package init(_ migrations: [PostgresMigration] = PostgresMigration.all, isOfTransfer: Bool = false) {
        (self.migrations, self.isOfTransfer) = (migrations, isOfTransfer)
    }

    struct Applied {
        var checksum: String
        var atMilliseconds: Int64
    }

    /// Applies the missing migrations in one transaction. Returns the numbers of these migrations.
    ///
    /// - Parameters:
    ///   - now: the time recorded with the migrations that run.
    ///   - deadline: also limits the wait for another instance that migrates.
    package func run(
        on connection: PostgresConnection, atMilliseconds now: Int64, until deadline: Deadline
    ) async throws(PostgresMigrationRefusal) -> [Int64] {
        do {
            _ = try await connection.run(
                [.init(.begin), .init(Self.noLockTimeout), .init(Self.noTimeout), .init(Self.lock)], until: deadline)
            let applied = try await check(connection, deadline)
            let missing = migrations.filter { applied[$0.number] == nil }
            if applied.isEmpty { try await connection.runScript(Self.recordTable, until: deadline) }
            for migration in missing {
                try await connection.runScript(migration.sql, until: deadline)
                let record: [PostgresValue] = [
                    .int8(migration.number), .text(migration.name), .text(migration.checksum), .int8(now),
                ]
                _ = try await connection.run([.init(Self.record, record)], until: deadline)
            }
            _ = try await connection.run([.init(.commit)], until: deadline)
            return missing.map(\.number)
        } catch {
            _ = try? await connection.run([.init(.rollback)], until: deadline)
            throw Self.refusal(error)
        }
    }

    /// Returns the applied migrations by number; none for an empty database.
    func applied(
        on connection: PostgresConnection, until deadline: Deadline
    ) async throws(PostgresMigrationRefusal) -> [Int64: Applied] {
        do {
            return try await check(connection, deadline)
        } catch {
            throw Self.refusal(error)
        }
    }

    private static func refusal(_ error: any Error) -> PostgresMigrationRefusal {
        if let refusal = error as? PostgresMigrationRefusal { return refusal }
        if let error = error as? PostgresError { return .failed(error) }
        return .failed(PostgresError(.unreadable, "\(error)"))
    }

    /// Returns the applied migrations by number. Throws a refusal if this run cannot use the database, for example
    /// because an applied migration is unknown.
    private func check(_ connection: PostgresConnection, _ deadline: Deadline) async throws -> [Int64: Applied] {
        let found = try await connection.run([.init(Self.contents)], until: deadline)
        let row = found[0][0]
        if !isOfTransfer, try row.bool(3) { throw PostgresMigrationRefusal.isTransferred }
        let encoding = try row.text(2)
        guard encoding == "UTF8" else { throw PostgresMigrationRefusal.encodingIsNotUTF8(encoding) }
        guard try row.bool(0) else {
            guard try row.int8(1) == 0 else { throw PostgresMigrationRefusal.notDwell }
            return [:]
        }
        let rows = try await connection.run([.init(Self.records)], until: deadline)[0].rows
        var applied: [Int64: Applied] = [:]
        for row in rows {
            applied[try row.int8(0)] = Applied(checksum: try row.text(1), atMilliseconds: try row.int8(2))
        }
        // Dwell creates `schema_migration` and inserts its first row in one transaction. So an empty `schema_migration`
        // is not Dwell's.
        guard let newest = applied.keys.max() else { throw PostgresMigrationRefusal.notDwell }
        let known = migrations.map(\.number).max() ?? 0
        if newest > known { throw PostgresMigrationRefusal.databaseIsNewer(applied: newest, known: known) }
        for migration in migrations {
            guard let record = applied[migration.number] else {
                guard migration.number > newest else {
                    throw PostgresMigrationRefusal.migrationIsMissing(number: migration.number, name: migration.name)
                }
                continue
            }
            guard record.checksum == migration.checksum else {
                throw PostgresMigrationRefusal.migrationWasEdited(number: migration.number, name: migration.name)
            }
        }
        return applied
    }

    // MARK: Statements

    /// Lets only one instance migrate. PostgreSQL releases the lock at the end of the transaction, even if the
    /// connection is lost.
    private static let lock = PostgresStatement(
        "migration_lock", "SELECT 1 FROM pg_advisory_xact_lock(\(AdvisoryLock.migration.rawValue))")
    private static let noLockTimeout = PostgresStatement("migration_lock_timeout", "SET LOCAL lock_timeout = 0")
    private static let noTimeout = PostgresStatement("migration_timeout", "SET LOCAL statement_timeout = 0")

    /// The second column counts the tables of the schema. It leaves out tables of an extension such as PostGIS.
    private static let contents = PostgresStatement(
        "migration_contents",
        """
        SELECT to_regclass('schema_migration') IS NOT NULL,
            (SELECT count(*) FROM pg_class JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
                WHERE nspname = current_schema() AND relkind IN ('r', 'p') AND NOT EXISTS (
                    SELECT 1 FROM pg_depend
                    WHERE classid = 'pg_class'::regclass AND objid = pg_class.oid AND deptype = 'e')),
            current_setting('server_encoding'), to_regclass('transfer') IS NOT NULL
        """)
    private static let records = PostgresStatement(
        "migration_records", "SELECT number, sha256, applied_at_ms FROM schema_migration ORDER BY number")
    private static let record = PostgresStatement(
        "migration_record",
        "INSERT INTO schema_migration (number, name, sha256, applied_at_ms) VALUES ($1, $2, $3, $4)")
    private static let recordTable = """
        CREATE TABLE schema_migration (
            number         int8  PRIMARY KEY,
            name           text  NOT NULL,
            sha256         text  NOT NULL,
            applied_at_ms  int8  NOT NULL
        )
        """
}
