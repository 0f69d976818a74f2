// A summary of a database. It helps an operator to recognise the database before a restore replaces it.

import Foundation
import GRDB
package import JourneyModel

package struct DatabaseContents: Hashable, Sendable {
    package var events: Int
    package var drivers: Int
    /// The receive time of the event that was stored last; nil without events.
    package var lastReceivedAt: Moment?

    /// Reads the file at `path`, which may be in use. Throws `MigrationRefusal` if the file is not a database of Dwell,
    /// or if its migrations do not match those of this binary. May also throw `RecordsUnreadable` or SQLite's error.
    init(path: String) throws {
        let queue = try RecordsFile.connect(path)
        defer { try? queue.close() }
        self = try queue.read { db in
            try MigrationRun().requireDwell(db)
            let last = try Int64.fetchOne(db, sql: "SELECT received_at_ms FROM event ORDER BY id DESC LIMIT 1")
            return DatabaseContents(
                events: try Int.fetchOne(db, sql: "SELECT count(*) FROM event") ?? 0,
                drivers: try Int.fetchOne(db, sql: "SELECT count(*) FROM driver") ?? 0,
                lastReceivedAt: last.map(Moment.init(millisecondsSinceEpoch:)))
        }
    }

    init(events: Int, drivers: Int, lastReceivedAt: Moment?) {
        self.events = events
        self.drivers = drivers
        self.lastReceivedAt = lastReceivedAt
    }
}

/// What a restore would do, for the operator to confirm.
package struct RestorePlan: Sendable {
    package enum Current: Sendable {
        case missing
        /// The database is damaged. The associated value is SQLite's message.
        case unreadable(String)
        /// Dwell's database, but with other migrations than those of this version, so its contents are not counted. The
        /// associated value is the reason.
        case ofAnotherVersion(String)
        /// The file is empty, or a database of another program. The associated value is the reason.
        case foreign(String)
        case holds(DatabaseContents)
    }

    package var backup: DatabaseContents
    package var current: Current
    /// Number of driver deletions that the restore would undo: the database records them, but the backup does not. Nil
    /// if the deletions cannot be read, because the database is damaged or of another version.
    package var undoneErasures: Int? = 0

    /// The reason why the operator must confirm the restore. There are three cases:
    ///
    /// - The backup has fewer events or drivers than the database.
    /// - The database is of another version, and its deletions cannot be read.
    /// - The file that would be replaced is not Dwell's.
    ///
    /// Nil in all other cases, for example if there is no database or if the database is damaged.
    package var loss: String? {
        switch current {
        case .missing, .unreadable: return nil
        case .ofAnotherVersion:
            guard undoneErasures == nil else { return nil }
            return "It is unknown which drivers were deleted after the backup: this version cannot read the deletions."
        case .foreign(let reason): return "The database that would be replaced is not Dwell's (\(reason))."
        case .holds(let now):
            let losses = [(now.events - backup.events, "event"), (now.drivers - backup.drivers, "driver")]
                .filter { $0.0 > 0 }.map { count, noun in "\(count) \(noun)\(count == 1 ? "" : "s")" }
            return losses.isEmpty ? nil : "The backup has \(losses.joined(separator: " and ")) fewer than the database."
        }
    }
}

extension DatabaseBackup {
    /// Examines the backup and the database that it would replace. Changes nothing.
    ///
    /// - Throws: if `file` is not a backup of Dwell, if `file` is the database itself, or if another process has the
    ///   database open.
    package static func planRestore(of file: String, to path: String) throws(MaintenanceRefusal) -> RestorePlan {
        do {
            guard DatabaseCopy.exists(file) else { throw MaintenanceRefusal("\(file): file not found") }
            guard !sameFile(path, file) else { throw MaintenanceRefusal("\(file) is the database itself") }
            let backup = try DatabaseContents(path: file)
            var plan = RestorePlan(backup: backup, current: try current(path))
            switch plan.current {
            case .missing, .foreign: break
            // Unreadable deletions must not prevent the restore, so an error is ignored.
            case .holds, .unreadable, .ofAnotherVersion:
                plan.undoneErasures = try? ErasureRecords.count(in: path, missingFrom: file)
            }
            return plan
        } catch {
            throw MaintenanceRefusal(file, error)
        }
    }

    private static func current(_ path: String) throws -> RestorePlan.Current {
        guard DatabaseCopy.exists(path) else { return .missing }
        guard try !DatabaseFiles.isInUse(path) else { throw MaintenanceRefusal.inUse(path) }
        do {
            return .holds(try DatabaseContents(path: path))
        } catch let refusal as MigrationRefusal {
            return refusal.isOfAnotherVersion ? .ofAnotherVersion("\(refusal)") : .foreign("\(refusal)")
        } catch {
            return .unreadable(MaintenanceRefusal(path, error).description)
        }
    }
}
