// Proves what foreign keys of `event` would prove, and that `event_key` lists every event. The table has no foreign keys,
// because SQLite would look each of them up for every event that is stored. `dwell check` and every backup and restore
// run this instead.

import GRDB

enum EventReferences {
    /// Returns the first problem; nil when there is none, and for a database of a release whose table had foreign keys.
    static func problem(_ db: Database) throws -> String? {
        guard try db.tableExists("event_key") else { return nil }
        if let problem = try String.fetchOne(db, sql: damagedEventSQL) { return "a row of event \(problem)" }
        if try Bool.fetchOne(db, sql: missingEventSQL) == true {
            return "a row of event_key references a missing row of event"
        }
        let events = try Int.fetchOne(db, sql: "SELECT count(*) FROM event") ?? 0
        let keys = try Int.fetchOne(db, sql: "SELECT count(*) FROM event_key") ?? 0
        return events == keys ? nil : "event_key has \(keys) rows for \(events) events"
    }

    /// The columns of `event` that hold a row number, with the table that has the row.
    private static let parents = [
        ("driver", "driver"), ("kind", "event_kind"), ("session", "session"), ("settings_version", "settings_version"),
        ("fold_settings", "settings_version"),
    ]

    /// Selects what is wrong with an event, in one pass over all events.
    private static let damagedEventSQL = """
        SELECT problem FROM (
            SELECT CASE
                \(parents.map(missingParentSQL).joined(separator: "\n        "))
                WHEN length(digest) <> 16 THEN 'has a digest that is not of 16 bytes' END AS problem
            FROM event)
        WHERE problem IS NOT NULL LIMIT 1
        """

    private static func missingParentSQL(_ column: String, _ table: String) -> String {
        """
        WHEN \(column) IS NOT NULL AND NOT EXISTS (SELECT 1 FROM \(table) AS parent WHERE parent.id = event.\(column))
            THEN 'references a missing row of \(table)'
        """
    }

    private static let missingEventSQL = """
        SELECT EXISTS (
            SELECT 1 FROM event_key WHERE NOT EXISTS (SELECT 1 FROM event WHERE event.id = event_key.event))
        """

    /// Examines the next `limit` events after the row number `last`. Returns the last of them, nil if none is left, and
    /// appends a sentence for each event that a search for its idempotency key does not find.
    static func checkKeys(
        after last: Int64, limit: Int, _ keys: EventKeys, _ problems: inout [String], _ db: Database
    ) throws -> Int64? {
        let rows = try Row.fetchAll(
            try db.cachedStatement(sql: "SELECT id, driver FROM event WHERE id > ? ORDER BY id LIMIT ?"),
            arguments: [last, limit])
        for row in rows where try keys.place(ofListed: row[0]) == nil {
            problems.append("driver \(row[1] as Int64), event \(row[0] as Int64): is not found by its idempotency key")
        }
        return rows.last?[0]
    }
}
