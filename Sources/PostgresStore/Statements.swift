// SQL that the statements of this module share.

package import Postgres
import Sockets

extension PostgresStatement {
    package static let begin = PostgresStatement("begin", "BEGIN")
    static let beginSnapshot = PostgresStatement("begin_snapshot", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    package static let commit = PostgresStatement("commit", "COMMIT")
    package static let rollback = PostgresStatement("rollback", "ROLLBACK")
    /// Limits the time of each statement and of each pause between statements, for the rest of the transaction. Long
    /// batches and reads may exceed the connection's usual limits.
    ///
    /// Parameter: milliseconds, as text.
    static let longLimits = PostgresStatement(
        "long_limits",
        """
        SELECT set_config('statement_timeout', $1, true),
            set_config('idle_in_transaction_session_timeout', $1, true)
        """)
    /// Makes the following COMMIT wait for the synchronous standby (`PostgresConnection.isConfirmed`), even if the
    /// transaction changes no row. This works because the statement writes a message to the WAL.
    static let confirm = PostgresStatement("confirm", "SELECT pg_logical_emit_message(true, 'dwell', '')")
    /// Whether a synchronous standby is configured now.
    static let hasStandby = PostgresStatement(
        "has_standby", "SELECT current_setting('synchronous_standby_names') <> ''")
}

extension PostgresConnection {
    /// Must be called before a response tells a client that data read on this connection is stored. Returns whether a
    /// COMMIT with `confirm` must come before the response.
    func needsConfirmation(until deadline: Deadline) async throws(PostgresError) -> Bool {
        if !isConfirmed { return true }
        return try await run([PostgresQuery(.hasStandby)], until: deadline)[0][0].bool(0)
    }
}

/// The first two parameters of most statements on tables with lanes (Lane.swift): a list of lanes, and a flag for all
/// lanes. On Citus, the list contains the lanes of one shard, so only that shard runs the statement. On a single
/// PostgreSQL server, the flag is true.
///
/// The OR in `condition` has a second purpose: a plain `lane = ANY($1)` would make PostgreSQL choose a worse index.
enum LaneParameters {
    static let any: [PostgresValue] = [.int2s([]), .bool(true)]

    static func condition(_ table: String) -> String { "($2::bool OR \(table).lane = ANY ($1::int2[]))" }
}

/// The condition of a subquery that finds the n-th row of a driver. The rows are in the order of an index whose first
/// column is the driver.
///
/// The condition is a row-wise comparison, not an equality. PostgreSQL therefore expects many rows, and reads only the
/// first n rows of the index instead of sorting all rows. For this, the ORDER BY of the subquery must also begin with
/// the driver.
///
/// With an equality, PostgreSQL would expect the average number of rows per driver. If n is higher than this average,
/// PostgreSQL would read and sort all rows of the driver, perhaps hundreds of thousands.
enum RowsInOrder {
    /// SQL condition on a row of `table` that belongs to `driver`.
    static func ofDriver(_ table: String) -> String {
        "(\(table).driver, \(table).lane) BETWEEN (driver.id, driver.lane) AND (driver.id, driver.lane)"
    }
}

/// LATERAL subqueries for a FROM clause. For each row of the preceding items, a subquery finds one row by its key.
///
/// OFFSET 0 makes PostgreSQL use the index of the key. Without it, PostgreSQL may compare each row with the whole
/// table, especially if the table has no statistics. In such a case, an INSERT of 128 events took 16 ms.
enum RowByKey {
    /// The driver with the id `asked.driver_id`.
    static let askedDriver = row("driver", where: "driver.driver_id = asked.driver_id")
    /// The event of `driver` with the idempotency key `asked.idempotency_key`.
    static let askedEvent = row(
        "event", where: "event.driver = driver.id AND event.idempotency_key = asked.idempotency_key")
    /// The event of `driver` with the highest number.
    static let lastEvent = row("event", where: "event.driver = driver.id AND event.seq = driver.last_seq")
    /// The session of `driver` with the id `asked.session_id`.
    static let askedSession = row(
        "session", where: "session.driver = driver.id AND session.session_id = asked.session_id")
    /// The owner of the session with the id `asked.session_id`.
    static let askedOwner = row("session_owner", where: "session_owner.session_id = asked.session_id")

    /// The driver with this `driver.id`, if the batch $3 has updated it.
    static func movedDriver(_ id: String) -> String {
        row("driver", where: "driver.id = \(id) AND driver.batch = $3::int8")
    }

    private static func row(_ table: String, where condition: String) -> String {
        "LATERAL (SELECT * FROM \(table) WHERE \(condition) AND \(LaneParameters.condition(table)) OFFSET 0) \(table)"
    }
}

/// A column for the rows that one statement writes. `values` returns the column's parameter: an array with one value
/// for each row.
struct ArrayColumn<Row>: Sendable {
    let name: String
    let type: String
    let values: @Sendable ([Row]) -> PostgresValue

    static func int2(_ name: String, _ value: @escaping @Sendable (Row) -> Int16?) -> Self {
        Self(name: name, type: "int2") { .int2s($0.map(value)) }
    }

    static func int8(_ name: String, _ value: @escaping @Sendable (Row) -> Int64?) -> Self {
        Self(name: name, type: "int8") { .int8s($0.map(value)) }
    }

    static func text(_ name: String, _ value: @escaping @Sendable (Row) -> String?) -> Self {
        Self(name: name, type: "text") { .texts($0.map(value)) }
    }

    static func bytea(_ name: String, _ value: @escaping @Sendable (Row) -> [UInt8]?) -> Self {
        Self(name: name, type: "bytea") { .byteas($0.map(value)) }
    }

    /// Returns `unnest($4::int8[], $5::text[], ...) alias(name, ...)`, beginning with parameter `first`.
    ///
    /// - Parameter numbered: the name of an additional column that counts the rows from 1. If nil, there is no such
    ///   column.
    static func unnest(
        _ columns: [Self], from first: Int, as alias: String, numbered: String? = nil
    ) -> String {
        let arrays = columns.enumerated().map { "$\(first + $0)::\($1.type)[]" }.joined(separator: ", ")
        guard let numbered else { return "unnest(\(arrays)) \(alias)(\(names(columns)))" }
        return "unnest(\(arrays)) WITH ORDINALITY \(alias)(\(names(columns)), \(numbered))"
    }

    static func names(_ columns: [Self], of table: String? = nil) -> String {
        let prefix = table.map { "\($0)." } ?? ""
        return columns.map { prefix + $0.name }.joined(separator: ", ")
    }
}
