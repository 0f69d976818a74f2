// `dwell backup` and `dwell restore`. A backup may be made while a server runs. A restore must not run at the same time
// as a server.

import Foundation
import GRDB

package enum DatabaseBackup {
    /// Copies the database at `path` to `file`. The copy is consistent, verified, synced, and readable only by its
    /// owner.
    ///
    /// An existing `file` is replaced only when the copy is complete. No program may have this file open.
    package static func make(
        of path: String, to file: String, replacing: Bool, _ progress: (MaintenanceProgress) -> Void
    ) throws(MaintenanceRefusal) {
        do {
            guard DatabaseCopy.exists(path) else { throw MaintenanceRefusal("\(path): file not found") }
            guard !sameFile(path, file) else { throw MaintenanceRefusal("\(file) is the database itself") }
            // The copy must not replace a file of the database, such as dwell.sqlite3-wal (the last events) or
            // dwell.sqlite3.jwt-key (the signing key).
            if let own = DatabaseFiles.ofServer(at: path).first(where: { sameFile($0, file) }) {
                throw MaintenanceRefusal("\(own) belongs to the database: choose another name")
            }
            guard DatabaseFiles.isMissingOrRegular(file) else {
                throw MaintenanceRefusal("\(file) is not a regular file: choose another name")
            }
            if !replacing, let old = DatabaseFiles.existing(of: file) {
                throw MaintenanceRefusal("\(old) already exists; --force replaces it")
            }
            let partial = file + ".partial"
            DatabaseCopy.remove(partial)
            defer { DatabaseCopy.remove(partial) }
            try create(partial)
            let source = try openSource(path)
            defer { try? source.close() }
            let counts = try DatabaseCopy.copy(source, to: partial, progress)
            try DatabaseCopy.verify(partial, expecting: counts)
            try DatabaseCopy.sync(partial)
            try replaceBackup(file, by: partial)
        } catch {
            throw MaintenanceRefusal(file, error)
        }
    }

    /// Replaces the earlier backup, if any. The WAL and the journal of the earlier backup are removed first, because
    /// SQLite would apply them to the new backup.
    private static func replaceBackup(_ file: String, by new: String) throws {
        guard DatabaseCopy.exists(file) else { return try replaceUnopened(file, by: new) }
        do {
            // `locked` copies the WAL into the earlier backup. The earlier backup is therefore complete even if this
            // process is killed before the new backup replaces it.
            let queue = try locked(file)
            defer { try? queue.close() }
            try DatabaseFiles.removeLogs(of: file)
            try DatabaseCopy.move(new, to: file)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
            throw backupInUse(file)
        } catch let error as DatabaseError where preventsLock(error) {
            try replaceUnopened(file, by: new)
        }
    }

    /// Replaces an earlier backup that SQLite cannot open or that no longer exists. Even without the backup, its WAL or
    /// its journal may exist, so both are removed.
    private static func replaceUnopened(_ file: String, by new: String) throws {
        guard try !DatabaseFiles.isInUse(file) else { throw backupInUse(file) }
        try DatabaseFiles.removeLogs(of: file)
        try DatabaseCopy.move(new, to: file)
    }

    private static func backupInUse(_ file: String) -> MaintenanceRefusal {
        MaintenanceRefusal("\(file) is in use: end the program that has it open")
    }

    /// Opens the database to be copied. Error messages contain the path of this database, not the path of the copy.
    private static func openSource(_ path: String) throws(MaintenanceRefusal) -> DatabaseQueue {
        var configuration = Configuration()
        configuration.readonly = true
        configuration.label = "dwell.backup"
        configuration.busyMode = .timeout(DatabaseOpening.busyTimeoutSeconds)
        do {
            try OpeningObstacle.requireFile(path)
            let source = try DatabaseQueue(path: path, configuration: configuration)
            try source.read(MigrationRun().requireDwell)
            return source
        } catch {
            throw MaintenanceRefusal(path, error)
        }
    }

    /// Replaces the database at `path` with the backup `file`. The database must not be open in any process. Keeps the
    /// old files under another name, and returns this name; nil if there were no old files.
    ///
    /// A WAL without its database is renamed too, because SQLite would apply it to the backup.
    ///
    /// - Parameter stamp: the suffix of the old database's new name.
    package static func restore(
        _ file: String, to path: String, stamp: String, _ progress: (MaintenanceProgress) -> Void
    ) throws(MaintenanceRefusal) -> String? {
        let path = DatabaseFiles.resolved(path)
        do {
            guard DatabaseCopy.exists(file) else { throw MaintenanceRefusal("\(file): file not found") }
            guard !sameFile(path, file) else { throw MaintenanceRefusal("\(file) is the database itself") }
            let new = path + ".restoring"
            DatabaseCopy.remove(new)
            defer { DatabaseCopy.remove(new) }
            try create(new)
            var configuration = Configuration()
            configuration.readonly = true
            let source = try DatabaseQueue(path: file, configuration: configuration)
            try source.read(MigrationRun().requireDwell)
            let counts: DatabaseCopy.RowCounts
            do {
                defer { try? source.close() }
                counts = try DatabaseCopy.copy(source, to: new, progress)
            }
            try DatabaseCopy.verify(new, expecting: counts)
            try DatabaseCopy.sync(new)
            return try replace(path, by: new, keepingAt: "\(path).before-restore-\(stamp)")
        } catch {
            throw MaintenanceRefusal(file, error)
        }
    }

    private static func replace(_ path: String, by new: String, keepingAt old: String) throws -> String? {
        guard !DatabaseCopy.exists(old) else { throw MaintenanceRefusal("\(old) already exists") }
        let isThere = DatabaseCopy.exists(path)
        try DatabaseCopy.copyOwner(of: isThere ? path : DatabaseCopy.folder(of: path), to: new)
        guard isThere else { return try DatabaseFiles.takePlace(of: path, new, keepingAt: old) }
        do {
            return try replaceWhole(path, by: new, keepingAt: old)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
            throw MaintenanceRefusal.inUse(path)
        } catch let error as DatabaseError where preventsLock(error) {
            // A restore must also replace a damaged database, although SQLite cannot lock it.
            return try DatabaseFiles.takePlace(of: path, new, keepingAt: old)
        } catch {
            throw MaintenanceRefusal(path, error)
        }
    }

    /// Whether SQLite cannot lock the file because the file is damaged or not a database.
    private static func preventsLock(_ error: DatabaseError) -> Bool {
        [.SQLITE_NOTADB, .SQLITE_CORRUPT, .SQLITE_IOERR, .SQLITE_CANTOPEN].contains(error.resultCode)
    }

    /// Replaces an intact database while it is locked, so that no server can open the database meanwhile.
    private static func replaceWhole(_ path: String, by new: String, keepingAt old: String) throws -> String {
        let queue = try locked(path)
        defer { try? queue.close() }
        try FileManager.default.linkItem(atPath: path, toPath: old)
        try DatabaseCopy.move(new, to: path)
        return old
    }

    /// Opens the database, copies the WAL into the database file, and locks the database until the returned queue is
    /// closed. Throws SQLITE_BUSY if another connection has the database open.
    ///
    /// While the queue is open, no other process can open the database, because in exclusive locking mode the
    /// connection keeps the lock that it took to remove the WAL.
    static func locked(_ path: String) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.busyMode = .immediateError
        configuration.prepareDatabase { db in try db.execute(sql: "PRAGMA locking_mode = EXCLUSIVE") }
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        do {
            try queue.writeWithoutTransaction { db in
                // Changing the journal mode copies the WAL into the database file and removes the WAL. SQLite does this
                // only with exclusive access.
                let mode = try String.fetchOne(db, sql: "PRAGMA journal_mode = DELETE")
                guard mode == "delete" else { throw DatabaseError(resultCode: .SQLITE_BUSY) }
                // If the database was not in WAL mode, changing the journal mode took no lock. This statement then
                // takes the lock.
                try db.execute(sql: "BEGIN EXCLUSIVE; ROLLBACK")
            }
        } catch {
            try? queue.close()
            throw error
        }
        return queue
    }

    /// Creates an empty file. At no time can anybody but its owner read it.
    static func create(_ path: String) throws {
        guard FileManager.default.createFile(atPath: path, contents: nil, attributes: [.posixPermissions: 0o600]) else {
            let folder = DatabaseCopy.folder(of: path)
            let reason = DatabaseCopy.exists(folder) ? "" : ": the folder \(folder) does not exist"
            throw MaintenanceRefusal("\(path) cannot be written\(reason)")
        }
        try DatabaseCopy.secure(path)
    }

    static func sameFile(_ one: String, _ other: String) -> Bool {
        URL(fileURLWithPath: one).resolvingSymlinksInPath().standardizedFileURL
            == URL(fileURLWithPath: other).resolvingSymlinksInPath().standardizedFileURL
    }
}
