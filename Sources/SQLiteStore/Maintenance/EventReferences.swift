// Checks that the rows to which an event refers exist. The table of events has no foreign keys, because SQLite would
// check them for every stored event. `dwell check`, backups and restores run this check instead.
//
// The check also compares `event_key` with the events. Each row must list an existing event. For the events that the
// table must list, there must be exactly as many rows. Only `dwell check` looks up each key (KeyCheck.swift).

import GRDB

enum EventReferences {
    /// Returns the first problem; nil if there is none. A database of an old release is not checked, because its table
    /// of events has foreign keys.
    static func problem(_ db: Database) throws -> String? {
        guard try db.tableExists("event_key") else { return nil }
        if let problem = try String.fetchOne(db, sql: damagedEventSQL) { return "a row of event \(problem)" }
        // Migration 27 renamed the column `event` to `number`. The check also accepts older databases.
        let isRenamed = try db.columns(in: "event_key").contains { $0.name == "number" }
        let keys = isRenamed ? "event_key" : "(SELECT place, event AS number FROM event_key) AS event_key"
        if try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM \(keys) WHERE \(isMissingSQL))") == true {
            return "a row of event_key references a missing row of event"
        }
        let isListed = try isListedSQL(db)
        let eventCount = try Int.fetchOne(db, sql: "SELECT count(*) FROM event_row WHERE \(isListed("id"))") ?? 0
        let keyCount = try Int.fetchOne(db, sql: "SELECT count(*) FROM \(keys) WHERE \(isListed("number"))") ?? 0
        if eventCount != keyCount { return "event_key has \(keyCount) rows for \(eventCount) events" }
        // `event_key` may also have rows for events that it need not list yet, because an unfinished move of keys has
        // written them (KeyMove.swift). Each such row must be at the place of its event's key.
        let table = try EventKeyTable(db)
        let others = try Row.fetchCursor(db, sql: "SELECT place, number FROM \(keys) WHERE NOT \(isListed("number"))")
        while let row = try others.next() {
            let number: Int64 = row[1]
            if try table.place(ofListed: number) != row[0] as Int64 {
                return "event_key lists event \(number) at a place that its key does not have"
            }
        }
        return nil
    }

    private static let isMissingSQL = "NOT EXISTS (SELECT 1 FROM event_row WHERE event_row.id = event_key.number)"

    /// Returns a function that converts the SQL of an event number to an SQL condition. The condition is true if
    /// `event_key` must list the event with this number.
    static func isListedSQL(_ db: Database) throws -> (String) -> String {
        guard try db.tableExists("event_key_progress") else { return { _ in "TRUE" } }
        return { number in
            """
            (\(number) <= (SELECT listed_through FROM event_key_progress)
                OR \(number) IN (SELECT early.number FROM event_key_early AS early))
            """
        }
    }

    /// The columns of `event` that had foreign keys before migration 26, with the tables to which they refer.
    private static let parents = [
        ("driver", "driver"), ("kind", "event_kind"), ("session", "session"), ("settings_version", "settings_version"),
        ("fold_settings", "settings_version"),
    ]

    /// Selects a text that describes the first damaged event. Examines all events in one pass.
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
}
