// The history of the settings: the changes, each with its beginning, and the results of reloads.

package import Engine
package import JourneyModel

extension SettingsReloadRecord {
    /// Maximum number of records kept; older ones are deleted.
    static let recordsMax = 1000
    /// Maximum number of characters in all details of one record together.
    static let detailsMax = 4096
}

extension SQLDatabase {
    /// Stores the result of a reload. `instance` is the server's INSTANCE_NAME.
    package func record(_ reload: SettingsReloadRecord, of instance: String) async throws(StoreFailure) {
        try await change { db in
            try db.execute(
                sql: "INSERT INTO settings_reload (at_ms, instance, is_good, details) VALUES (?, ?, ?, ?)",
                arguments: [
                    reload.at, instance, reload.isGood,
                    String(reload.details.joined(separator: "\n").prefix(SettingsReloadRecord.detailsMax)),
                ])
            try db.execute(
                sql: "DELETE FROM settings_reload WHERE id <= (SELECT max(id) FROM settings_reload) - ?",
                arguments: [SettingsReloadRecord.recordsMax])
        }
    }

    /// Records that these settings and rules are in force from `now` on. `rules` is nil if there are no rules. Does
    /// nothing if the newest recorded change has the same settings and rules.
    ///
    /// Also does nothing if another server has already recorded this change and a further one, before this slower
    /// server records it. The signs are that the newest change is later than `now`, and that a change to these settings
    /// and rules is recorded within `sameChangeMilliseconds` of `now`.
    ///
    /// If `note` (author and reason) equals the newest recorded note, stores the change without a note and returns
    /// false.
    package func record(
        _ settings: VersionedSettings, rules: RecordedRules? = nil, note: SettingsChangeNote = SettingsChangeNote(),
        at now: Moment
    ) async throws(StoreFailure) -> Bool {
        try await change { db in
            let newest = try SQLRow.fetchOne(
                db, sql: "SELECT version, rules_version, at_ms FROM settings_change ORDER BY id DESC LIMIT 1")
            if let newest {
                let (version, rulesVersion): (String, String?) = (try newest[0], try newest[1])
                if version == settings.version, rulesVersion == rules?.version { return true }
                let at: Moment = try newest[2]
                if at > now, try SettingsRows.has(settings, rules, near: now, db) { return true }
            }
            let last = try SQLRow.fetchOne(
                db,
                sql: """
                    SELECT changed_by, reason FROM settings_change WHERE changed_by IS NOT NULL OR reason IS NOT NULL
                    ORDER BY id DESC LIMIT 1
                    """
            ).map { try SettingsChangeNote(changedBy: $0[0], reason: $0[1]) }
            let isNew = note.isEmpty || note != last
            try db.execute(
                sql: """
                    INSERT INTO settings_change
                    (at_ms, version, settings, changed_by, reason, rules_version, rules) VALUES (?, ?, ?, ?, ?, ?, ?)
                    """,
                arguments: [
                    now, settings.version,
                    String(decoding: settings.settings.wireJSON, as: UTF8.self), isNew ? note.changedBy : nil,
                    isNew ? note.reason : nil, rules?.version, rules?.json,
                ])
            return isNew
        }
    }

    package func settingsHistory(limit: Int) async throws(StoreFailure) -> SettingsHistory {
        try await read { db in
            SettingsHistory(
                changes: try SettingsRows.changes(limit: limit, db),
                reloads: try SettingsRows.reloads(limit: limit, db))
        }
    }
}

package enum SettingsRows {
    package static let changesMax = 10_000
    /// If two servers record the same change, their times differ by at most this many milliseconds.
    private static let sameChangeMilliseconds: Int64 = 10_000

    fileprivate static func has(
        _ settings: VersionedSettings, _ rules: RecordedRules?, near now: Moment, _ db: any SQLTransaction
    ) throws -> Bool {
        let found = try SQLRow.fetchOne(
            db,
            sql: """
                SELECT 1 FROM settings_change
                WHERE version = ? AND coalesce(rules_version, '') = ? AND at_ms BETWEEN ? AND ? LIMIT 1
                """,
            arguments: [
                settings.version, rules?.version ?? "", now.advanced(byMilliseconds: -sameChangeMilliseconds),
                now.advanced(byMilliseconds: sameChangeMilliseconds),
            ])
        return found != nil
    }

    /// Returns the changes, newest first.
    ///
    /// - Parameters:
    ///   - note: SQL for the two columns of a change's note, author and reason. A database of an older version may lack
    ///     these columns.
    ///   - rules: SQL for the two columns of the rules. A database of an older version may lack them.
    package static func changes(
        limit: Int, note: String = "changed_by, reason", rules: String = "rules_version, rules",
        _ db: any SQLTransaction
    ) throws -> [SettingsChange] {
        try SQLRow.fetchAll(
            db,
            sql: """
                SELECT at_ms, version, settings, \(note), \(rules) FROM settings_change ORDER BY id DESC LIMIT ?
                """,
            arguments: [min(limit, changesMax)]
        ).map { row in
            let rulesVersion: String? = try row[5]
            return try SettingsChange(
                at: row[0], version: row[1], settings: row[2],
                rules: rulesVersion.map { try RecordedRules(version: $0, json: row[6]) },
                note: SettingsChangeNote(changedBy: row[3], reason: row[4]))
        }
    }

    /// Returns the reloads, newest first. Each has the INSTANCE_NAME of its server.
    package static func reloads(limit: Int, _ db: any SQLTransaction) throws -> [SettingsReloadOf] {
        try SQLRow.fetchAll(
            db, sql: "SELECT at_ms, instance, is_good, details FROM settings_reload ORDER BY id DESC LIMIT ?",
            arguments: [min(limit, changesMax)]
        ).map { row in
            let details = try (row[3] as String).split(separator: "\n").map(String.init)
            let reload = try SettingsReloadRecord(at: row[0], isGood: row[2], details: details)
            return try SettingsReloadOf(instance: row[1], reload: reload)
        }
    }
}
