// Brings the schema of a database up to date. Also lists the applied migrations, for `dwell migrate` and for the first
// log line of the server.

package import Engine
package import Postgres
package import Sockets

extension PostgresMigrationRun {
    /// Returns the migrations of this binary, and changes nothing. Each migration has the time at which it was applied
    /// to the database; nil if it is not applied.
    package func status(
        on connection: PostgresConnection, until deadline: Deadline
    ) async throws(PostgresMigrationRefusal) -> [MigrationStatus] {
        let applied = try await applied(on: connection, until: deadline)
        return migrations.map { migration in
            MigrationStatus(
                number: Int(migration.number), name: migration.name,
                appliedAtMilliseconds: applied[migration.number]?.atMilliseconds)
        }
    }
}

extension PostgresEventStore {
    /// Brings the database to the schema of this binary, and returns the numbers of the migrations that ran. If new
    /// events could get lower positions than stored ones, raises the positions of all new events
    /// (`EventPosition.raise`).
    package static func migrate(
        _ configuration: PostgresConfiguration, on loop: EventLoop, atMilliseconds now: Int64, until deadline: Deadline,
        _ migrations: PostgresMigrationRun = PostgresMigrationRun()
    ) async throws(PostgresMigrationRefusal) -> [Int64] {
        let connection = try await connect(configuration, on: loop, until: deadline)
        defer { connection.close() }
        let applied = try await migrations.run(on: connection, atMilliseconds: now, until: deadline)
        do throws(PostgresError) {
            let highest = try await connection.run([.init(EventPosition.highest)], until: deadline)
            _ = try await connection.run([try EventPosition.raise(above: highest[0])], until: deadline)
        } catch {
            throw .failed(error)
        }
        return applied
    }

    /// Opens a connection and reads the status of the migrations.
    package static func migrationStatus(
        _ configuration: PostgresConfiguration, on loop: EventLoop, until deadline: Deadline
    ) async throws(PostgresMigrationRefusal) -> [MigrationStatus] {
        let connection = try await connect(configuration, on: loop, until: deadline)
        defer { connection.close() }
        return try await PostgresMigrationRun().status(on: connection, until: deadline)
    }

    private static func connect(
        _ configuration: PostgresConfiguration, on loop: EventLoop, until deadline: Deadline
    ) async throws(PostgresMigrationRefusal) -> PostgresConnection {
        do throws(PostgresError) {
            return try await PostgresConnection.open(configuration, on: loop, until: deadline)
        } catch {
            throw .failed(error)
        }
    }

    package func schema(openedAtMilliseconds: Int64) async throws(StoreFailure) -> AppliedSchema {
        let results = try await read([PostgresQuery(Self.appliedMigrations)])
        do throws(PostgresError) {
            var schema = AppliedSchema(number: 0, migrationsRun: [])
            for row in results[0].rows {
                schema.number = Int(try row.int8(0))
                if try row.int8(2) == openedAtMilliseconds { schema.migrationsRun.append(try row.text(1)) }
            }
            return schema
        } catch {
            throw StoreFailure(reading: error)
        }
    }

    private static let appliedMigrations = PostgresStatement(
        "applied_migrations", "SELECT number, name, applied_at_ms FROM schema_migration ORDER BY number")
}
