// When which settings came into force, written by the server and read by `dwell config history` and the operator's page.

package import Engine
import GRDB
package import JourneyModel

package struct SettingsChange: Hashable, Sendable {
    package var at: Moment
    package var version: String
    /// The body of `GET /native/config`.
    package var settings: String
}

extension SQLiteEventStore {
    /// These settings are in force from then on; nothing is written when they were before.
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

/// Reads a database file beside a running server or without one.
package struct SettingsRecords: RecordsReader {
    package static let changesMax = 10_000

    private let queue: DatabaseQueue

    package init(path: String) throws(RecordsUnreadable) {
        queue = try RecordsFile.open(path)
    }

    package func close() {
        try? queue.close()
    }

    /// The newest first.
    package func changes(limit: Int) throws(RecordsUnreadable) -> [SettingsChange] {
        try RecordsFile.read(queue) { db in try Self.changes(limit: limit, db) }
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
