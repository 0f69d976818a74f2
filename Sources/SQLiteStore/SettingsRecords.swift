// When which settings took effect, written by the server and read by `dwell config history` and the operator's
// page.

package import Engine
import GRDB
package import JourneyModel

package struct SettingsChange: Hashable, Sendable {
    package var at: Moment
    package var version: String
    /// The body of `GET /native/config`.
    package var settings: String
}

/// A reload that did not apply everything in the environment file.
package struct SettingsReloadRecord: Hashable, Sendable {
    /// Older ones are deleted.
    static let recordsMax = 1000
    /// Maximum number of characters of all details together.
    static let detailsMax = 4096

    package var at: Moment
    /// False: it changed nothing.
    package var isGood: Bool
    /// One sentence each.
    package var details: [String]

    package init(at: Moment, isGood: Bool, details: [String]) {
        (self.at, self.isGood, self.details) = (at, isGood, details)
    }
}

extension SQLiteEventStore {
    /// `instance`: INSTANCE_NAME of the server.
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

    /// These settings are in force from then on; writes nothing when they already were.
    package func record(_ settings: VersionedSettings, at now: Moment) async throws(StoreFailure) {
        try await change { db in
            try db.execute(
                sql: """
                    INSERT INTO settings_change (at_ms, version, settings) SELECT ?1, ?2, ?3
                    WHERE ?2 IS NOT (SELECT version FROM settings_change ORDER BY id DESC LIMIT 1)
                    """,
                arguments: [
                    now.millisecondsSinceEpoch, settings.version,
                    String(decoding: settings.settings.wireJSON, as: UTF8.self),
                ])
        }
    }
}

extension SQLiteEventStore {
    package func inForceSince(_ version: String) async throws(StoreFailure) -> Moment? {
        try await read { db in
            try Int64.fetchOne(
                db, sql: "SELECT at_ms FROM settings_change WHERE version = ? ORDER BY id DESC LIMIT 1",
                arguments: [version]
            ).map(Moment.init(millisecondsSinceEpoch:))
        }
    }
}

/// The reload of one server.
package struct SettingsReloadOf: Hashable, Sendable {
    /// INSTANCE_NAME of the server.
    package var instance: String
    package var reload: SettingsReloadRecord
}

/// Reads a database file, with or without a running server.
package struct SettingsRecords: RecordsReader {
    package static let changesMax = 10_000

    private let queue: DatabaseQueue

    package init(path: String) throws(RecordsUnreadable) {
        queue = try RecordsFile.open(path)
    }

    package func close() {
        try? queue.close()
    }

    /// Newest first.
    package func changes(limit: Int) throws(RecordsUnreadable) -> [SettingsChange] {
        try RecordsFile.read(queue) { db in try Self.changes(limit: limit, db) }
    }

    /// Newest first, each with INSTANCE_NAME. A database of an older version has none.
    package func reloads(limit: Int) throws(RecordsUnreadable) -> [SettingsReloadOf] {
        try RecordsFile.read(queue) { db in
            guard try db.tableExists("settings_reload") else { return [] }
            return try Row.fetchAll(
                db, sql: "SELECT at_ms, instance, is_good, details FROM settings_reload ORDER BY id DESC LIMIT ?",
                arguments: [min(limit, Self.changesMax)]
            ).map { row in
                let details = (row[3] as String).split(separator: "\n").map(String.init)
                let reload = SettingsReloadRecord(
                    at: Moment(millisecondsSinceEpoch: row[0]), isGood: row[2], details: details)
                return SettingsReloadOf(instance: row[1], reload: reload)
            }
        }
    }

    static func changes(limit: Int, _ db: Database) throws -> [SettingsChange] {
        try Row.fetchAll(
            db, sql: "SELECT at_ms, version, settings FROM settings_change ORDER BY id DESC LIMIT ?",
            arguments: [min(limit, changesMax)]
        ).map { row in
            SettingsChange(at: Moment(millisecondsSinceEpoch: row[0]), version: row[1], settings: row[2])
        }
    }
}
