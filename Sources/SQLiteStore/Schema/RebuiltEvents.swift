// Copies the events from the old file to the new file of a rebuild, in the order of their row numbers. Each slice is
// one transaction, so an interrupted rebuild continues after the last complete slice.

import GRDB

struct RebuiltEvents {
    private let rowCount: Int
    private let sliceRows: Int
    private let functions: [DatabaseFunction]
    private var last: Int64 = 0
    private var copiedCount = 0
    private var pace = RebuildPace()

    init(_ links: ChainLinks, rowCount: Int, sliceRows: Int) {
        (self.rowCount, self.sliceRows) = (rowCount, sliceRows)
        functions = [
            DatabaseFunction("previous_event", argumentCount: 1, pure: true) { values in
                Int64.fromDatabaseValue(values[0]).flatMap(links.previous)
            },
            DatabaseFunction("jump_event", argumentCount: 1, pure: true) { values in
                Int64.fromDatabaseValue(values[0]).flatMap(links.jump)
            },
            DatabaseFunction("stored_key", argumentCount: 1, pure: true) { values in
                String.fromDatabaseValue(values[0]).map { StoredKey($0).databaseValue }
            },
        ]
    }

    /// Returns the number of events that an interrupted run has already copied.
    mutating func begin(_ db: Database) throws -> Int {
        for function in functions { db.add(function: function) }
        last = try Int64.fetchOne(db, sql: "SELECT max(id) FROM new.event") ?? 0
        copiedCount = try Int.fetchOne(db, sql: "SELECT count(*) FROM new.event") ?? 0
        return copiedCount
    }

    /// Copies the next events. Returns whether there were any.
    mutating func copySlice(_ db: Database, _ report: (RebuildProgress) -> Void) throws -> Bool {
        let statement = try db.cachedStatement(sql: Self.sliceSQL)
        let count = try RebuiltTables.inTransaction(db) {
            try statement.execute(arguments: [last, sliceRows])
            return db.changesCount
        }
        guard count > 0 else { return false }
        last = try Int64.fetchOne(db, sql: "SELECT max(id) FROM new.event") ?? 0
        copiedCount += count
        pace.show(copiedCount, of: rowCount, report)
        return true
    }

    func end(_ db: Database) {
        for function in functions { db.remove(function: function) }
    }

    /// Columns with the same name and value in both files.
    private static let sameColumns = [
        "id", "driver", "corrected_at_ms", "kind", "session", "charger", "sequence", "settings_version",
        "fold_settings", "previous_state", "second_place", "transition", "reason", "implied", "after_state",
        "after_session", "after_target_charger", "after_next_target_charger", "after_ended_by",
        "after_previous_session", "closed_session", "event_id", "skew_ms", "clock_rule", "merchant", "metadata",
        "details",
    ].joined(separator: ", ")

    /// Copies at most `?2` events after the event `?1`. `occurred_at_text` becomes NULL or empty if the old text has
    /// one of the two usual forms (OccurredAtColumn.swift). Any other text is copied.
    private static let sliceSQL = """
        INSERT INTO new.event_row (\(sameColumns), previous, jump, key, digest, received_offset_ms, occurred_offset_ms,
            sent_offset_ms, timestamp_offset_ms, after_grace_offset_ms, after_hard_offset_ms, occurred_at_text)
        SELECT \(sameColumns), previous_event(id), jump_event(id), stored_key(idempotency_key), substr(digest, 1, 16),
            received_at_ms - corrected_at_ms, occurred_at_ms - corrected_at_ms, sent_at_ms - corrected_at_ms,
            timestamp_ms - corrected_at_ms, after_grace_deadline_ms - corrected_at_ms,
            after_hard_deadline_ms - corrected_at_ms,
            CASE occurred_at
                WHEN strftime('%Y-%m-%dT%H:%M:%fZ', occurred_at_ms / 1000.0, 'unixepoch') THEN NULL
                WHEN strftime('%Y-%m-%dT%H:%M:%SZ', occurred_at_ms / 1000.0, 'unixepoch') THEN ''
                ELSE occurred_at END
        FROM main.event WHERE id > ?1 ORDER BY id LIMIT ?2
        """
}
