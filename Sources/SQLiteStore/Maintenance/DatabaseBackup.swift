// `dwell backup` and `dwell restore`. A backup is taken beside a running server; a restore is not.

import Foundation
import GRDB

package enum DatabaseBackup {
    /// A consistent copy of the database at `path` in `file`: verified, synced, and readable by its owner alone. Until
    /// all of that is done `file` is not touched.
    package static func make(
        of path: String, to file: String, replacing: Bool, _ progress: (MaintenanceProgress) -> Void
    ) throws(MaintenanceRefusal) {
        do {
            guard DatabaseCopy.exists(path) else { throw MaintenanceRefusal("\(path) is not there") }
            guard !sameFile(path, file) else { throw MaintenanceRefusal("\(file) is the database itself") }
            if DatabaseCopy.exists(file), !replacing {
                throw MaintenanceRefusal("\(file) is there already; --force replaces it")
            }
            let partial = file + ".partial"
            DatabaseCopy.remove(partial)
            defer { DatabaseCopy.remove(partial) }
            try create(partial)
            var configuration = Configuration()
            configuration.readonly = true
            configuration.label = "dwell.backup"
            configuration.busyMode = .timeout(DatabaseOpening.busyTimeoutSeconds)
            let source = try DatabaseQueue(path: path, configuration: configuration)
            defer { try? source.close() }
            let counts = try DatabaseCopy.copy(source, to: partial, progress)
            try DatabaseCopy.verify(partial, expecting: counts)
            try DatabaseCopy.sync(partial)
            try DatabaseCopy.move(partial, to: file)
        } catch {
            throw MaintenanceRefusal(file, error)
        }
    }

    /// Puts the backup in the place of the database at `path`, which nobody may have open. Answers where the old one
    /// is kept; nil when there was none. Without one, a WAL that it left behind is set aside too: SQLite would take it
    /// for the backup's, and read the backup through it.
    ///
    /// - Parameter stamp: what the old one's name ends in.
    package static func restore(
        _ file: String, to path: String, stamp: String, _ progress: (MaintenanceProgress) -> Void
    ) throws(MaintenanceRefusal) -> String? {
        do {
            guard DatabaseCopy.exists(file) else { throw MaintenanceRefusal("\(file) is not there") }
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
        guard !DatabaseCopy.exists(old) else { throw MaintenanceRefusal("\(old) is there already") }
        let isThere = DatabaseCopy.exists(path)
        try DatabaseCopy.giveOwner(of: isThere ? path : DatabaseCopy.folder(of: path), to: new)
        guard isThere else { return try DatabaseFiles.takePlace(of: path, new, keepingAt: old) }
        do {
            return try replaceWhole(path, by: new, keepingAt: old)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
            throw MaintenanceRefusal.inUse(path)
        } catch let error as DatabaseError
            where [.SQLITE_NOTADB, .SQLITE_CORRUPT, .SQLITE_IOERR, .SQLITE_CANTOPEN].contains(error.resultCode)
        {
            // What a backup is for. SQLite cannot hold such a file to itself.
            return try DatabaseFiles.takePlace(of: path, new, keepingAt: old)
        } catch {
            throw MaintenanceRefusal(path, error)
        }
    }

    /// Holds the old database to itself from before the look until after the change, so that no server is in between.
    private static func replaceWhole(_ path: String, by new: String, keepingAt old: String) throws -> String {
        var configuration = Configuration()
        configuration.busyMode = .immediateError
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        defer { try? queue.close() }
        try queue.writeWithoutTransaction { db in
            // Leaving WAL mode wants the file for itself, writes the WAL into it and removes it.
            let mode = try String.fetchOne(db, sql: "PRAGMA journal_mode = DELETE")
            guard mode == "delete" else { throw DatabaseError(resultCode: .SQLITE_BUSY) }
            try db.inTransaction(.exclusive) {
                try FileManager.default.linkItem(atPath: path, toPath: old)
                try DatabaseCopy.move(new, to: path)
                return .rollback
            }
        }
        return old
    }

    /// Empty, and nobody else's to read from its first byte on.
    private static func create(_ path: String) throws {
        guard FileManager.default.createFile(atPath: path, contents: nil, attributes: [.posixPermissions: 0o600])
        else { throw MaintenanceRefusal("\(path) cannot be written") }
        try DatabaseCopy.secure(path)
    }

    static func sameFile(_ one: String, _ other: String) -> Bool {
        URL(fileURLWithPath: one).resolvingSymlinksInPath().standardizedFileURL
            == URL(fileURLWithPath: other).resolvingSymlinksInPath().standardizedFileURL
    }
}
