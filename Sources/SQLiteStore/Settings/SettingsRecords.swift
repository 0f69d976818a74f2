// The history of the settings, written by the server and read by `dwell config history` and the operator page.

package import Engine
import GRDB
package import JourneyModel

extension SettingsReloadRecord {
    /// Maximum number of records kept; older ones are deleted.
    static let recordsMax = 1000
    /// Maximum number of characters in all details of one record together.
    static let detailsMax = 4096
}

extension SQLiteEventStore {
    /// Stores the result of a reload. `instance` is the server's INSTANCE_NAME.
    package func record(_ reload: SettingsReloadRecord, of instance: String) async throws(StoreFailure) {
        try await change { db in
            try db.execute(
                sql: "INSERT INTO settings_reload (at_ms, instance, is_good, details) VALUES (?, ?, ?, ?)",
                arguments: [
                    reload.at.millisecondsSinceEpoch, instance, reload.isGood,
                    String(reload.details.joined(separator: "\n").prefix(SettingsReloadRecord.detailsMax)),
                ])
            try db.execute(
                sql: "DELETE FROM settings_reload WHERE id <= (SELECT max(id) FROM settings_reload) - ?",
                arguments: [SettingsReloadRecord.recordsMax])
        }
    }

    /// Records that these settings and rules are in force from `now` on. Writes nothing if they were already in force.
    ///
    /// Returns false if the note was left out.
    package func record(
        _ settings: VersionedSettings, rules: RecordedRules? = nil, note: SettingsChangeNote = SettingsChangeNote(),
        at now: Moment
    ) async throws(StoreFailure) -> Bool {
        try await change { db in
            let newest = try Row.fetchOne(
                db, sql: "SELECT version, rules_version FROM settings_change ORDER BY id DESC LIMIT 1")
            if let newest, newest[0] == settings.version, newest[1] == rules?.version { return true }
            let last = try Row.fetchOne(
                db,
                sql: """
                    SELECT changed_by, reason FROM settings_change WHERE changed_by IS NOT NULL OR reason IS NOT NULL
                    ORDER BY id DESC LIMIT 1
                    """
            ).map { SettingsChangeNote(changedBy: $0[0], reason: $0[1]) }
            let isNew = note.isEmpty || note != last
            try db.execute(
                sql: """
                    INSERT INTO settings_change
                    (at_ms, version, settings, changed_by, reason, rules_version, rules) VALUES (?, ?, ?, ?, ?, ?, ?)
                    """,
                arguments: [
                    now.millisecondsSinceEpoch, settings.version,
                    String(decoding: settings.settings.wireJSON, as: UTF8.self), isNew ? note.changedBy : nil,
                    isNew ? note.reason : nil, rules?.version, rules?.json,
                ])
            return isNew
        }
    }

    package func settingsHistory(limit: Int) async throws(StoreFailure) -> SettingsHistory {
        try await read { db in
            SettingsHistory(
                changes: try SettingsRecords.changes(limit: limit, db),
                reloads: try SettingsRecords.reloads(limit: limit, db))
        }
    }
}

/// Reads the history from a database file, with or without a running server. An older version of Dwell may have written
/// the file.
package struct SettingsRecords: RecordsReader {
    package static let changesMax = 10_000

    private let queue: DatabaseQueue

    package init(path: String) throws(RecordsUnreadable) {
        queue = try RecordsFile.open(path)
    }

    package func close() {
        try? queue.close()
    }

    /// Returns the changes, newest first.
    package func changes(limit: Int) throws(RecordsUnreadable) -> [SettingsChange] {
        try RecordsFile.read(queue) { db in try Self.changes(limit: limit, db) }
    }

    /// Returns the reloads, newest first, each with the INSTANCE_NAME of the server that reloaded its settings.
    package func reloads(limit: Int) throws(RecordsUnreadable) -> [SettingsReloadOf] {
        try RecordsFile.read(queue) { db in
            try db.tableExists("settings_reload") ? try Self.reloads(limit: limit, db) : []
        }
    }

    /// Returns the corrections, newest first.
    package func corrections(limit: Int) throws(RecordsUnreadable) -> [SettingsCorrection] {
        try RecordsFile.read(queue) { db in try SettingsCorrectionRows.list(limit: min(limit, Self.changesMax), db) }
    }

    static func changes(limit: Int, _ db: Database) throws -> [SettingsChange] {
        let columns = Set(try db.columns(in: "settings_change").map(\.name))
        let note = columns.contains("changed_by") ? "changed_by, reason" : "NULL, NULL"
        let rules = columns.contains("rules") ? "rules_version, rules" : "NULL, NULL"
        return try Row.fetchAll(
            db,
            sql: """
                SELECT at_ms, version, settings, \(note), \(rules) FROM settings_change ORDER BY id DESC LIMIT ?
                """,
            arguments: [min(limit, changesMax)]
        ).map { row in
            let rulesVersion: String? = row[5]
            return SettingsChange(
                at: Moment(millisecondsSinceEpoch: row[0]), version: row[1], settings: row[2],
                rules: rulesVersion.map { RecordedRules(version: $0, json: row[6]) },
                note: SettingsChangeNote(changedBy: row[3], reason: row[4]))
        }
    }

    fileprivate static func reloads(limit: Int, _ db: Database) throws -> [SettingsReloadOf] {
        try Row.fetchAll(
            db, sql: "SELECT at_ms, instance, is_good, details FROM settings_reload ORDER BY id DESC LIMIT ?",
            arguments: [min(limit, changesMax)]
        ).map { row in
            let details = (row[3] as String).split(separator: "\n").map(String.init)
            let reload = SettingsReloadRecord(
                at: Moment(millisecondsSinceEpoch: row[0]), isGood: row[2], details: details)
            return SettingsReloadOf(instance: row[1], reload: reload)
        }
    }
}
