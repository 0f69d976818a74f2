// Searches for remains of a deleted driver, for `dwell verify-erased`. The search covers all columns with texts or
// bytes in all tables, but not the files of the server. It changes nothing.
//
// The search does not use the code of the deletion, so it also finds what an error in that code leaves behind.

import Engine
import Postgres
package import SharedTables

extension PostgresEventStore: ErasureSearch {
    /// Reads whole tables, without a time limit for each statement.
    package func find(_ identifiers: [String]) async throws -> [ErasureFinding] {
        let tables = try await read { db in try ErasureScan.tables(db) }
        let texts = PostgresValue.texts(identifiers)
        return try await inTransaction(seconds: ErasureScan.seconds) { (connection, deadline) throws(PostgresError) in
            _ = try await connection.run([PostgresQuery(ErasureScan.withoutTimeout)], until: deadline)
            var findings: [ErasureFinding] = []
            for table in tables {
                let found = try await connection.run([PostgresQuery(table.search, [texts])], until: deadline)
                for row in found[0].rows {
                    findings.append(
                        ErasureFinding(
                            identifier: Int(try row.int8(1)) - 1, location: "\(table.name).\(try row.text(0))"))
                }
            }
            return findings
        }
    }

    package func leftovers(ofReceipt receipt: String) async throws -> [String]? {
        try await read { db in
            let driver = try SQLRow.fetchOne(
                db, sql: "SELECT driver FROM audit WHERE action = 'erased' AND reason = ?", arguments: [receipt])
            guard let driver else { return nil }
            // A deleted driver without a row had no stored data.
            guard let row: Int64 = try driver[0] else { return [] }
            return try ErasureScan.leftovers.compactMap { name, sql in
                try SQLRow.fetchOne(db, sql: "\(sql) LIMIT 1", arguments: [row]) == nil ? nil : name
            }
        }
    }
}

private enum ErasureScan {
    /// Half of the time limit of a search, in seconds, because `inTransaction` doubles the value. The limit suffices to
    /// read a billion events.
    static let seconds = 86_400

    static let withoutTimeout = PostgresStatement(
        "erasure_scan", "SELECT set_config('statement_timeout', '0', true)")

    /// A table with its columns of texts and bytes.
    struct Table: Sendable {
        var name: String
        var columns: [(name: String, isBytes: Bool)] = []

        /// A query with one parameter: the texts to search for. It returns one row for each column and each text that
        /// the column contains: the column's name, and the text's index, counted from 1.
        var search: PostgresStatement {
            let values = columns.map { name, isBytes in
                isBytes ? "('\(name)', NULL::text, \"\(name)\")" : "('\(name)', \"\(name)\"::text, NULL::bytea)"
            }
            return PostgresStatement(
                "erasure_scan_\(name)",
                """
                SELECT DISTINCT found.name, given.number
                FROM "\(name)" CROSS JOIN LATERAL (VALUES \(values.joined(separator: ", "))) found(name, text, bytes)
                JOIN unnest($1::text[]) WITH ORDINALITY given(text, number)
                    ON strpos(found.text, given.text) > 0
                        OR position(convert_to(given.text, 'UTF8') IN found.bytes) > 0
                ORDER BY 1, 2
                """)
        }
    }

    static func tables(_ db: any SQLTransaction) throws -> [Table] {
        let rows = try SQLRow.fetchAll(
            db,
            sql: """
                SELECT CAST(columns.table_name AS text), CAST(columns.column_name AS text),
                    columns.data_type = 'bytea'
                FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
                WHERE columns.table_schema = current_schema() AND tables.table_type = 'BASE TABLE'
                    AND columns.data_type IN ('text', 'bytea', 'character varying', 'jsonb', 'json')
                ORDER BY 1, 2
                """)
        var tables: [Table] = []
        for row in rows {
            let name: String = try row[0]
            if tables.last?.name != name { tables.append(Table(name: name)) }
            tables[tables.count - 1].columns.append((name: try row[1], isBytes: try row[2]))
        }
        return tables
    }

    /// The data of a driver that a deletion must remove or rewrite. Each query finds the rows that still have such
    /// data, and has the parameter `driver.id`. The names are for the report.
    static var leftovers: [(name: String, sql: String)] {
        var queries = [("the deletion is not complete, its row in erasure", "SELECT 1 FROM erasure WHERE driver = ?")]
        for table in emptyTables { queries.append((table, "SELECT 1 FROM \(table) WHERE driver = ?")) }
        for (table, key, columns) in rewrittenColumns {
            for column in columns { queries.append(("\(table).\(column)", kept(column, in: table, by: key))) }
        }
        return queries + otherLeftovers
    }

    private static let emptyTables = [
        "account", "apple_identity", "apple_refresh_token", "phone_identity", "sign_in_session", "device",
        "session_code", "app_account_token", "consumption_consent", "purchase", "push_outbox",
    ]

    private static let rewrittenColumns: [(table: String, key: String, columns: [String])] = [
        ("driver", "id", ["driver_id", "session_id", "previous_session_id", "target_charger", "next_target_charger"]),
        ("session", "driver", ["session_id", "registered_charger", "registered_merchant"]),
        ("session_owner", "owner", ["session_id"]),
        (
            "journey_base", "driver",
            ["session_id", "previous_session_id", "target_charger", "next_target_charger"]
        ),
        (
            "event", "driver",
            [
                "session_id", "closed_session_id", "after_session_id", "after_previous_session_id", "charger",
                "merchant", "after_target_charger", "after_next_target_charger",
            ]
        ),
    ]

    private static let otherLeftovers: [(name: String, sql: String)] = [
        // The second pattern is for expiries (events of passed deadlines) that were stored after the deletion. Their
        // keys contain the new id of their session, which begins with the pseudonym.
        (
            "event.idempotency_key",
            """
            SELECT 1 FROM event
            WHERE driver = ? AND idempotency_key NOT LIKE 'erased-%' AND idempotency_key NOT LIKE '§%/erased-%/%'
            """
        ),
        ("event.event_id", "SELECT 1 FROM event WHERE driver = ? AND event_id IS NOT NULL"),
        ("event.metadata", "SELECT 1 FROM event WHERE driver = ? AND metadata IS NOT NULL"),
        ("event.details", "SELECT 1 FROM event WHERE driver = ? AND details IS NOT NULL"),
        (
            "event.source",
            """
            SELECT 1 FROM event WHERE driver = ? AND source NOT LIKE 'erased-%'
                AND source NOT IN ('ios_native', 'android_native', 'web', 'server')
            """
        ),
        // The text of a time that a client sent may contain arbitrary digits, which could identify the driver.
        (
            "event.occurred_at",
            """
            SELECT 1 FROM event WHERE driver = ? AND occurred_at NOT IN (
                to_char(TIMESTAMP 'epoch' + occurred_at_ms * INTERVAL '1 millisecond',
                    'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
                to_char(TIMESTAMP 'epoch' + occurred_at_ms * INTERVAL '1 millisecond', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
            """
        ),
        // A deletion replaces each sequence by its rank, which is always below 10,000,000. A sequence number of at
        // least 10,000,000 was therefore not replaced, and may be a phone number.
        ("event.sequence", "SELECT 1 FROM event WHERE driver = ? AND sequence >= 10000000"),
        ("audit.address", "SELECT 1 FROM audit WHERE driver = ? AND address IS NOT NULL"),
        ("audit.request_id", "SELECT 1 FROM audit WHERE driver = ? AND request_id IS NOT NULL"),
        ("audit.sid", "SELECT 1 FROM audit WHERE driver = ? AND sid IS NOT NULL"),
    ]

    private static func kept(_ column: String, in table: String, by key: String) -> String {
        "SELECT 1 FROM \(table) WHERE \(table).\(key) = ? AND \(column) NOT LIKE 'erased-%'"
    }
}
