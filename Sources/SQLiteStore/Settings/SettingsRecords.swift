// Reads the history of the settings from a database file, for `dwell config history`.

package import Engine
import GRDB
import SharedTables

/// The history of the settings in a database file. The file may be of an older version of Dwell, and a server may be
/// using it.
package struct SettingsRecords: RecordsReader {
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

    /// Returns the reloads, newest first. Each has the INSTANCE_NAME of the server that reloaded its settings.
    package func reloads(limit: Int) throws(RecordsUnreadable) -> [SettingsReloadOf] {
        try RecordsFile.read(queue) { db in
            try db.tableExists("settings_reload") ? try SettingsRows.reloads(limit: limit, SQLiteTransaction(db)) : []
        }
    }

    /// Returns the corrections, newest first.
    package func corrections(limit: Int) throws(RecordsUnreadable) -> [SettingsCorrection] {
        try RecordsFile.read(queue) { db in
            try SettingsCorrectionRows.list(limit: min(limit, SettingsRows.changesMax), db)
        }
    }

    private static func changes(limit: Int, _ db: Database) throws -> [SettingsChange] {
        let columns = Set(try db.columns(in: "settings_change").map(\.name))
        return try SettingsRows.changes(
            limit: limit, note: columns.contains("changed_by") ? "changed_by, reason" : "NULL, NULL",
            rules: columns.contains("rules") ? "rules_version, rules" : "NULL, NULL", SQLiteTransaction(db))
    }
}
