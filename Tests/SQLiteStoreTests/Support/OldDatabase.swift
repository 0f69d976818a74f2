// A database of the release with migration 25. Tests rebuild it with migration 26 (DatabaseRebuild).

import Foundation
import GRDB
import JourneyModel

@testable import SQLiteStore

struct OldDatabase {
    let path: String

    /// Loads `Tests/Fixtures/version25.sql`, which the old release wrote. Marks all drivers as folded by the current
    /// rules, which give the same verdicts. The check of the rebuild ignores drivers without this mark.
    init(_ path: String) throws {
        self.path = path
        let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appendingPathComponent("Fixtures/version25.sql")
        let queue = try DatabaseQueue(path: path)
        defer { try? queue.close() }
        let sql = try String(contentsOf: file, encoding: .utf8)
        try queue.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA journal_mode = WAL")
            try db.execute(sql: sql)
            try db.execute(sql: "UPDATE driver SET rules = ?", arguments: [Fold.rulesVersion])
        }
    }

    /// Copies a database of the current release into a new database of the old release. Requires that the current
    /// schema still has all columns of the old schema.
    init(_ path: String, from newer: String) throws {
        self.path = path
        let old = MigrationRun().upTo(DatabaseRebuild.number - 1)
        try DatabaseOpening.open(path: path, migrations: old, nowMilliseconds: 0).close()
        var configuration = Configuration()
        configuration.foreignKeysEnabled = false
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        defer { try? queue.close() }
        try queue.writeWithoutTransaction { db in
            try db.execute(sql: "ATTACH ? AS newer", arguments: [newer])
            for (table, columns) in try Self.columns(db) where table != "schema_migration" {
                let list = columns.joined(separator: ", ")
                let values = columns.map { table == "event" && $0 == "digest" ? "CAST(digest || digest AS BLOB)" : $0 }
                try db.execute(sql: "DELETE FROM main.\(table)")
                try db.execute(
                    sql:
                        "INSERT INTO main.\(table) (\(list)) SELECT \(values.joined(separator: ", ")) FROM newer.\(table)"
                )
            }
            try db.execute(
                sql:
                    """
                    DELETE FROM main.sqlite_sequence;
                    INSERT INTO main.sqlite_sequence
                    SELECT iif(name = 'event_row', 'event', name), seq FROM newer.sqlite_sequence
                    """
            )
            try db.execute(sql: "DETACH newer")
        }
    }

    /// The tables with their columns, without generated columns.
    private static func columns(_ db: Database) throws -> [(String, [String])] {
        try String.fetchAll(
            db,
            sql: """
                SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
                """
        ).map { table in
            (table, try String.fetchAll(db, sql: "SELECT name FROM pragma_table_info(?, 'main')", arguments: [table]))
        }
    }

    /// Runs SQL without checks of foreign keys.
    func change(_ sql: String) throws {
        var configuration = Configuration()
        configuration.foreignKeysEnabled = false
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        defer { try? queue.close() }
        try queue.write { db in try db.execute(sql: sql) }
    }

    /// Returns the rows of each table in `columns`. Each row is a text of SQL literals. Newer databases store half of a
    /// digest, so only the first half is returned.
    static func contents(of path: String, columns: [String: [String]]) throws -> [String: [String]] {
        let queue = try DatabaseQueue(path: path)
        defer { try? queue.close() }
        return try queue.read { db in
            var contents: [String: [String]] = [:]
            for (table, columns) in columns {
                let values = columns.map { "quote(\(value(of: $0, in: table)))" }
                contents[table] = try String.fetchAll(
                    db, sql: "SELECT \(values.joined(separator: " || ' ' || ")) AS row FROM \"\(table)\" ORDER BY row")
            }
            return contents
        }
    }

    private static func value(of column: String, in table: String) -> String {
        switch (table, column) {
        case ("event", "digest"): "substr(digest, 1, 16)"
        // The new file's table of events has another name.
        case ("sqlite_sequence", "name"): "iif(name = 'event_row', 'event', name)"
        default: "\"\(column)\""
        }
    }

    func allColumns() throws -> [String: [String]] {
        let queue = try DatabaseQueue(path: path)
        defer { try? queue.close() }
        return try queue.read { db in
            let tables = try String.fetchAll(
                db, sql: "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name <> 'schema_migration'"
            )
            return try Dictionary(
                uniqueKeysWithValues: tables.map { table in
                    (table, try String.fetchAll(db, sql: "SELECT name FROM pragma_table_xinfo(?)", arguments: [table]))
                })
        }
    }
}
