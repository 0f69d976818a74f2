// The time of the last successful `dwell backup`. The command stores this time in the database, even while a server
// runs. Metrics and the operator page read it.

package import Engine
import Foundation
import GRDB
package import JourneyModel

extension SQLiteEventStore {
    /// Returns the last backup; nil if `dwell backup` has never succeeded on this database.
    package func lastBackup() async throws(StoreFailure) -> LastBackup? {
        try await read { db in
            try Row.fetchOne(db, sql: "SELECT completed_at_ms, bytes FROM last_backup").map { row in
                LastBackup(completedAt: Moment(millisecondsSinceEpoch: row[0]), bytes: row[1])
            }
        }
    }
}

extension DatabaseBackup {
    /// Records in the database at `path` that `file` is a verified copy of it. Fails if the database is read-only or
    /// lacks the table `last_backup`. The backup is valid even if this function fails.
    package static func record(_ file: String, of path: String, at now: Moment) throws(MaintenanceRefusal) {
        do {
            let attributes = try FileManager.default.attributesOfItem(atPath: file)
            let bytes = (attributes[.size] as? NSNumber)?.int64Value ?? 0
            var configuration = Configuration()
            configuration.label = "dwell.backup.record"
            configuration.busyMode = .timeout(DatabaseOpening.busyTimeoutSeconds)
            // This connection runs no checkpoints, because the server copies the WAL at its own pace.
            configuration.prepareDatabase { db in try db.execute(sql: "PRAGMA wal_autocheckpoint = 0") }
            let queue = try DatabaseQueue(path: path, configuration: configuration)
            defer { try? queue.close() }
            // If no server runs, closing this connection copies the WAL into the database file. Free space in the
            // copied pages may contain deleted data. The file layers (`addFileLayers`) zero this space, so they must be
            // installed first.
            try queue.writeWithoutTransaction { db in
                guard try String.fetchOne(db, sql: "PRAGMA journal_mode") == "wal" else { return }
                try DatabaseOpening.addFileLayers(db)
            }
            try queue.write { db in
                try db.execute(
                    sql: """
                        INSERT INTO last_backup (id, completed_at_ms, bytes) VALUES (1, ?1, ?2)
                        ON CONFLICT (id) DO UPDATE SET completed_at_ms = ?1, bytes = ?2
                        """, arguments: [now.millisecondsSinceEpoch, bytes])
            }
        } catch {
            throw MaintenanceRefusal(path, error)
        }
    }
}
