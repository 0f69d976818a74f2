// Copies all tables except `event` unchanged from the old file to the new file of a rebuild. One connection has both
// files: the old file as `main` and the new file as `new`.

import GRDB

enum RebuiltTables {
    struct SchemaObject {
        var name: String
        var sql: String
    }

    /// Returns the old file's tables, indexes, views and triggers, also those that an operator or Litestream has added.
    /// Leaves out those of the table `event`, which migration 26 creates anew.
    static func added(_ db: Database) throws -> [SchemaObject] {
        try Row.fetchAll(
            db,
            sql: """
                SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND tbl_name <> 'event'
                    AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY type = 'trigger', rowid
                """
        ).map { SchemaObject(name: $0[0], sql: $0[1]) }
    }

    static func inTransaction<Value>(_ db: Database, _ body: () throws -> Value) throws -> Value {
        var value: Value?
        try db.inTransaction(.immediate) {
            value = try body()
            return .commit
        }
        guard let value else { throw SQLiteError.unreadable("transaction") }
        return value
    }

    static func copy(_ db: Database) throws {
        let tables = try String.fetchAll(
            db,
            sql: """
                SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT IN ('event', 'schema_migration')
                    AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY rowid
                """)
        for table in tables {
            let name = quoted(table)
            // pragma_table_info leaves out generated columns, which cannot be inserted.
            let columns = try String.fetchAll(
                db, sql: "SELECT name FROM pragma_table_info(?, 'main') ORDER BY cid", arguments: [table])
            let list = columns.map(quoted).joined(separator: ", ")
            try db.execute(sql: "DELETE FROM new.\(name)")
            try db.execute(sql: "INSERT INTO new.\(name) (\(list)) SELECT \(list) FROM main.\(name)")
        }
        // Copies the time when each migration was applied.
        try db.execute(sql: "INSERT OR REPLACE INTO new.schema_migration SELECT * FROM main.schema_migration")
        // `sqlite_sequence` stores the highest row number that each table ever had. Retention may have deleted the row
        // with this number, so the number cannot be computed from the table's rows.
        try db.execute(
            sql: """
                DELETE FROM new.sqlite_sequence;
                INSERT INTO new.sqlite_sequence (name, seq) SELECT iif(name = 'event', 'event_row', name), seq FROM main.sqlite_sequence
                """)
    }

    /// Computes the links of all drivers' chains from the events of the old file, and returns them. Writes the end of
    /// each chain into the driver's copied row.
    static func writingChains(on connection: OpaquePointer, rowCount: Int) throws -> ChainLinks {
        let set = try PreparedStatement("UPDATE new.driver SET chain = ?2 WHERE id = ?1", on: connection)
        return try ChainLinks(on: connection, rowCount: rowCount) { (driver, end) throws(SQLiteError) in
            try set.run { (bindings) throws(SQLiteError) in
                try bindings.set(1, driver)
                try bindings.set(2, blob: end.bytes)
            }
        }
    }

    private static func quoted(_ name: String) -> String {
        "\"" + name.replacing("\"", with: "\"\"") + "\""
    }
}
