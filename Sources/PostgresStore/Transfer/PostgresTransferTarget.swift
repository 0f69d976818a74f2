// The PostgreSQL database to which a transfer from SQLite writes. Two tables exist only until the transfer is complete:
//
// - `transfer` identifies the source. While it exists, no server starts on the database (PostgresMigrationRun).
// - `transferred_driver` lists the drivers that are already copied.

import Engine
import JourneyModel
package import Postgres
package import SharedTables
package import Sockets

package actor PostgresTransferTarget: TransferTarget {
    /// The time limit of a statement, in seconds. The slowest statements are the last COMMIT and those that collect the
    /// statistics of large tables.
    private static let seconds = 3600
    /// The number of rows of `transferred_driver` that are read at once.
    private static let pageMax: Int64 = 50_000

    private let connection: PostgresConnection
    /// The time recorded with the migrations, in milliseconds since 1970.
    private let startedAt: Int64
    private var tables: [String: TransferTable] = [:]
    /// The `driver.id` of the copied drivers, by row number in SQLite.
    private var ids: [Int64: Int64] = [:]
    /// Whether a transaction is open because a driver's events continue in the next part.
    private var isInTransaction = false

    private init(_ connection: PostgresConnection, startedAt: Int64) {
        (self.connection, self.startedAt) = (connection, startedAt)
    }

    package static func open(
        _ configuration: PostgresConfiguration, on loop: EventLoop, atMilliseconds now: Int64
    ) async throws -> PostgresTransferTarget {
        var configuration = configuration
        configuration.statementTimeoutMilliseconds = seconds * 1000
        configuration.idleInTransactionTimeoutMilliseconds = seconds * 1000
        configuration.callTimeoutMilliseconds = (seconds + 5) * 1000
        return PostgresTransferTarget(try await PostgresConnection.open(configuration, on: loop), startedAt: now)
    }

    package func close() {
        connection.close()
    }

    @discardableResult
    private func run(_ name: String, _ sql: String, _ values: [PostgresValue] = []) async throws -> PostgresResult {
        let query = PostgresQuery(PostgresStatement("transfer_\(name)", sql), values)
        return try await connection.run([query])[0]
    }

    // MARK: The database

    package func begin(_ source: [UInt8]) async throws -> [Int64: TransferredDriver] {
        // One transfer at a time.
        let lock = try await run("lock", "SELECT pg_try_advisory_lock(\(AdvisoryLock.transfer.rawValue))")
        guard try lock[0].bool(0) else { throw TransferRefusal("another transfer to this database is running") }
        _ = try await PostgresMigrationRun(isOfTransfer: true).run(
            on: connection, atMilliseconds: startedAt, until: .inSeconds(Self.seconds))
        try await readTables()
        if tables["transfer"] == nil {
            try await requireEmpty()
            try await create(source)
        }
        guard try await run("source", "SELECT source FROM transfer").rows.first?.bytea(0) == source else {
            throw TransferRefusal("the target belongs to the transfer of another database: begin with an empty one")
        }
        // Only the last commit must wait for the disk. It also flushes all earlier transactions to disk, so the earlier
        // commits need not wait.
        try await connection.runScript("SET synchronous_commit = off")
        return try await copied()
    }

    /// Reads the columns of all tables. Leaves out views, because an extension such as pg_stat_statements may have
    /// created some.
    private func readTables() async throws {
        tables = [:]
        let found = try await run(
            "tables",
            """
            SELECT table_name::text, column_name::text, udt_name::text, is_identity = 'YES'
            FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
            WHERE table_schema = current_schema() AND table_type = 'BASE TABLE' AND is_generated = 'NEVER'
            ORDER BY table_name, ordinal_position
            """)
        for row in found.rows {
            let (table, column) = (try row.text(0), try row.text(1))
            tables[table, default: TransferTable()].names.append(column)
            tables[table]?.types[column] = try row.text(2)
            if try row.bool(3) { tables[table]?.identities.append(column) }
        }
    }

    private func requireEmpty() async throws {
        let own = ["schema_migration", "event_position"]
        for table in tables.keys.sorted() where !own.contains(table) {
            guard try await run("any_\(table)", "SELECT EXISTS (SELECT 1 FROM \(table))")[0].bool(0) else { continue }
            throw TransferRefusal("the target has data already (table \(table)): begin with an empty database")
        }
    }

    private func create(_ source: [UInt8]) async throws {
        try await connection.runScript(
            """
            BEGIN;
            CREATE TABLE transfer (source bytea NOT NULL);
            CREATE TABLE transferred_driver (
                source int8 PRIMARY KEY, id int8 NOT NULL, mark int8 NOT NULL, last_event int8 NOT NULL);
            INSERT INTO transfer (source) VALUES ('\\x\(source.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined())');
            COMMIT
            """)
        try await readTables()
    }

    private func copied() async throws -> [Int64: TransferredDriver] {
        var drivers: [Int64: TransferredDriver] = [:]
        var last: Int64? = .min
        while let after = last {
            let page = try await run(
                "copied",
                """
                SELECT source, id, mark, last_event FROM transferred_driver WHERE source > $1 ORDER BY source LIMIT $2
                """, [.int8(after), .int8(Self.pageMax)])
            last = nil
            for row in page.rows {
                let driver = TransferredDriver(row: try row.int8(0), mark: try row.int8(2), lastEvent: try row.int8(3))
                drivers[driver.row] = driver
                ids[driver.row] = try row.int8(1)
                last = driver.row
            }
        }
        return drivers
    }

    package func analyze() async throws {
        try await connection.runScript("ANALYZE", until: .inSeconds(Self.seconds))
    }

    // MARK: Drivers

    package func write(_ part: TransferPart) async throws {
        var queries: [PostgresQuery] = isInTransaction ? [] : [PostgresQuery(.begin)]
        queries += Self.removing(part.drivers.compactMap { ids[$0.row] })
        for rows in part.tables {
            switch rows.table {
            case "driver": queries.append(try insert(drivers(rows, part)))
            case "session":
                let sessions = try ofDriver(rows)
                queries.append(try insert(sessions))
                queries.append(try insert(owners(sessions), onConflict: Self.takesSession))
            default: queries.append(try insert(ofDriver(rows)))
            }
        }
        queries.append(
            PostgresQuery(
                Self.note,
                [
                    .int8s(part.drivers.map { $0.row }), .int8s(part.drivers.map { ids[$0.row] }),
                    .int8s(part.drivers.map { $0.mark }), .int8s(part.drivers.map { $0.lastEvent }),
                ]))
        if !part.isContinued { queries.append(PostgresQuery(.commit)) }
        _ = try await connection.run(queries)
        isInTransaction = part.isContinued
    }

    package func remove(_ drivers: [Int64]) async throws {
        let ids = drivers.compactMap { self.ids[$0] }
        _ = try await connection.run([PostgresQuery(.begin)] + Self.removing(ids) + [PostgresQuery(.commit)])
        for driver in drivers { self.ids[driver] = nil }
    }

    /// Returns the queries that remove the drivers' rows. If another driver has become a session's owner, the session's
    /// row of `session_owner` is kept.
    ///
    /// The rows of a session in `session` and `session_owner` have different lanes. For a join across lanes, Citus
    /// needs one side to be MATERIALIZED.
    private static func removing(_ ids: [Int64]) -> [PostgresQuery] {
        if ids.isEmpty { return [] }
        let statements = [
            """
            WITH removed AS MATERIALIZED (
                SELECT session_id, driver FROM session WHERE driver = ANY ($1::int8[]))
            DELETE FROM session_owner USING removed
            WHERE session_owner.session_id = removed.session_id AND session_owner.owner = removed.driver
            """,
            "DELETE FROM session WHERE driver = ANY ($1::int8[])", "DELETE FROM event WHERE driver = ANY ($1::int8[])",
            "DELETE FROM journey_base WHERE driver = ANY ($1::int8[])",
            "DELETE FROM driver WHERE id = ANY ($1::int8[])",
            "DELETE FROM transferred_driver WHERE id = ANY ($1::int8[])",
        ]
        return statements.enumerated().map { number, sql in
            PostgresQuery(PostgresStatement("transfer_removed_\(number)", sql), [.int8s(ids)])
        }
    }

    private static let note = PostgresStatement(
        "transfer_noted",
        """
        INSERT INTO transferred_driver (source, id, mark, last_event)
        SELECT * FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[])
        """)

    /// If another driver owns the session in the target, replaces that owner. The replaced driver is copied again later
    /// in this pass.
    private static let takesSession = """
        ON CONFLICT (session_id, lane) DO UPDATE SET owner_lane = excluded.owner_lane, owner = excluded.owner,
            claimed_at_ms = excluded.claimed_at_ms
        """

    private func insert(
        _ rows: TransferRows, mapsDriver: Bool = false, onConflict: String = ""
    ) throws -> PostgresQuery {
        guard let table = tables[rows.table] else { throw UnreadableColumn(name: rows.table) }
        return try table.insert(rows, mapsDriver: mapsDriver, onConflict: onConflict)
    }

    /// Adds the columns lane, id and recent_changes. The lane is computed from driver_id. The id contains the lane.
    private func drivers(_ rows: TransferRows, _ part: TransferPart) throws -> TransferRows {
        var rows = rows
        try rows.add("lane", from: "driver_id") { .integer(Int64(Lane.of(String($0) ?? ""))) }
        let lane = try rows.index(of: "lane")
        let number = try rows.index(of: "number")
        for row in rows.rows {
            guard let source = Int64(row[number]), let lane = Int64(row[lane]) else { continue }
            ids[source] = Lane.driverID(in: Int16(lane), row: source)
        }
        try rows.add("id", from: "number") { try id(of: $0) }
        try rows.add("recent_changes", from: "number") { number in
            guard let changes = Int64(number).flatMap({ part.recentChanges[$0] }) else { return .null }
            let recent = RecentJourneyChanges(changes.map { .init(seq: $0.event, journey: $0.journey) })
            return .blob(recent.bytes)
        }
        return rows
    }

    private func ofDriver(_ rows: TransferRows) throws -> TransferRows {
        var rows = rows
        try rows.replace("driver") { try id(of: $0) }
        try rows.add("lane", from: "driver") { Self.lane(ofDriver: $0) }
        return rows
    }

    private func owners(_ sessions: TransferRows) throws -> TransferRows {
        let columns = try ["session_id", "driver", "lane", "opened_at_ms"].map { try sessions.index(of: $0) }
        var owners = TransferRows(
            "session_owner", columns: ["session_id", "owner", "owner_lane", "claimed_at_ms"],
            rows: sessions.rows.map { row in columns.map { row[$0] } })
        try owners.add("lane", from: "session_id") { .integer(Int64(Lane.of(String($0) ?? ""))) }
        return owners
    }

    private func id(of number: SQLValue) throws -> SQLValue {
        guard let id = Int64(number).flatMap({ ids[$0] }) else { throw UnreadableColumn(name: "driver.id") }
        return .integer(id)
    }

    private static func lane(ofDriver id: SQLValue) -> SQLValue {
        .integer(Int64(Lane.of(driver: Int64(id) ?? 0)))
    }

    // MARK: The last transaction

    package func beginLastTransaction() async throws -> [String: [String]] {
        _ = try await connection.run([PostgresQuery(.begin)])
        return tables.mapValues(\.names)
    }

    package func write(_ rows: TransferRows) async throws {
        _ = try await connection.run([try insert(rows, mapsDriver: true)])
    }

    package func commitLastTransaction() async throws {
        var queries: [PostgresQuery] = []
        for (name, table) in tables {
            for column in table.identities {
                let sql = """
                    SELECT setval(pg_get_serial_sequence('\(name)', '\(column)'), coalesce(max(\(column)), 0) + 1, false)
                    FROM \(name)
                    """
                queries.append(PostgresQuery(PostgresStatement("transfer_next_\(name)", sql)))
            }
        }
        let highest = try await connection.run([PostgresQuery(EventPosition.highest)])
        queries.append(try EventPosition.raise(above: highest[0]))
        for (name, sql) in [
            ("drop_drivers", "DROP TABLE transferred_driver"), ("drop", "DROP TABLE transfer"),
            ("durable", "SET LOCAL synchronous_commit TO DEFAULT"),
        ] {
            queries.append(PostgresQuery(PostgresStatement("transfer_\(name)", sql)))
        }
        _ = try await connection.run(queries + [PostgresQuery(.commit)])
    }
}
