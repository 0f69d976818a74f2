// Tests that a transfer copies every table and column. They compare the transfer's lists with the schemas of both
// databases.

import Identity
import JourneyModel
import Secrets
import SharedTables
import Testing

@testable import SQLiteStore

struct TransferTableTests {
    /// The columns of each table, except generated columns. SQLite's view `event` is not included.
    private typealias Columns = [String: Set<String>]

    private static func columns(_ kind: DatabaseKind, _ sql: String) async throws -> Columns {
        let database = try await TestDatabase(kind)
        let opened = try database.open(
            KeyedHashes(signingKey: try SigningKey(secret: Secret("a secret of the tests, 32 bytes or more"))))
        let rows = try await opened.store.read { db in try SQLRow.fetchAll(db, sql: sql) }
        await opened.close()
        var columns: Columns = [:]
        for row in rows { columns[try row[0], default: []].insert(try row[1]) }
        return columns
    }

    private static func sqlite() async throws -> Columns {
        try await columns(
            .sqlite,
            """
            SELECT tables.name, columns.name FROM sqlite_schema AS tables
            JOIN pragma_table_xinfo(tables.name) AS columns ON columns.hidden = 0
            WHERE tables.type = 'table' AND tables.name NOT LIKE 'sqlite#_%' ESCAPE '#'
            """)
    }

    private static func postgres() async throws -> Columns {
        try await columns(
            .postgresql,
            """
            SELECT table_name::text, column_name::text FROM information_schema.columns
            WHERE table_schema = current_schema() AND is_generated = 'NEVER'
            """)
    }

    @Test func `each table is copied, or a reason says why not`() async throws {
        let (sqlite, postgres) = (try await Self.sqlite(), try await Self.postgres())
        let copied = TransferredTables.ofDrivers + TransferredTables.shared
        #expect(sqlite.count > 40)
        let names = copied.map { $0 == "event" ? "event_row" : $0 }
        #expect((names + TransferredTables.leftOut.keys).sorted() == sqlite.keys.sorted())
        #expect((copied + TransferredTables.onlyInTarget.keys).sorted() == postgres.keys.sorted())
    }

    @Test func `each column of a shared table is in both databases`() async throws {
        let (sqlite, postgres) = (try await Self.sqlite(), try await Self.postgres())
        for table in TransferredTables.shared {
            var expected = sqlite[table] ?? []
            // PostgreSQL refers to settings by their version.
            if table == "settings_version" { expected.remove("id") }
            #expect(postgres[table] == expected, "\(table)")
        }
    }

    /// Columns that SQLiteTransferSource and the target add.
    private static let added: Columns = [
        "driver": ["lane", "id", "last_seq", "recent_changes"], "journey_base": ["lane"], "session": ["lane"],
        "event": ["lane"],
    ]
    /// Columns of SQLite's tables that a transfer does not name. It reads them through the view `event` or with other
    /// code.
    private static let readOtherwise: Columns = [
        "driver": ["recent_changes"],
        "event_row": [
            "key", "occurred_at_text", "received_offset_ms", "occurred_offset_ms", "sent_offset_ms",
            "timestamp_offset_ms", "after_grace_offset_ms", "after_hard_offset_ms",
        ],
    ]

    @Test(arguments: [TransferColumns.driver, .journeyBase, .session, .event])
    func `each column of drivers and events is read and written`(_ columns: TransferColumns) async throws {
        let (sqlite, postgres) = (try await Self.sqlite(), try await Self.postgres())
        let table = columns.table
        // Only PostgreSQL has the column `batch`. In `event` it names the transaction that stored the event. In
        // `driver` it names the newest transaction that changed the driver.
        let hasBatch = ["driver", "event"].contains(table)
        let written = Set(columns.names).union(Self.added[table] ?? []).union(hasBatch ? ["batch"] : [])
        #expect(written == postgres[table])
        let words = Set(columns.sql.matches(of: #/\w+/#).map { String($0.output) })
        let source = table == "event" ? "event_row" : table
        #expect(sqlite[source] != nil)
        for column in sqlite[source] ?? [] {
            let isRead =
                words.contains(column) || Self.readOtherwise[source]?.contains(column) == true
                || TransferColumns.leftOut["\(source).\(column)"] != nil
            #expect(isRead, "\(source).\(column)")
        }
    }
}

extension TransferColumns: CustomTestStringConvertible {
    public var testDescription: String { table }
}
