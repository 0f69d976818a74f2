// Migration 26 for a database with events. A new file gets the migrations up to 26 and then all rows. After a check,
// the new file replaces the database, and the old file is kept under another name (docs/upgrading.md).
//
// The old file is locked during the rebuild. After an interruption, the next run continues the rebuild or starts it
// again.

import Engine
import Foundation
import GRDB

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The messages of a rebuild to the operator, one line each.
package enum RebuildReport: Hashable, Sendable, CustomStringConvertible {
    /// The rebuild waits, because another process has the database open.
    case waits(path: String)
    /// The rebuild begins or continues. Earlier, interrupted runs have copied `copiedCount` of the `rowCount` events.
    case begins(rowCount: Int, copiedCount: Int)
    case copies(RebuildProgress)
    case writesKeys(RebuildProgress)
    case checks(RebuildProgress)
    case isDone(kept: String)

    package var description: String {
        switch self {
        case .waits(let path):
            "migration 26 waits until no other process has \(path) open: stop older servers and Litestream"
        case .begins(let rowCount, 0):
            "migration 26 rebuilds the database: \(rowCount) events are copied to a new file"
        case .begins(let rowCount, let copiedCount):
            "migration 26 continues to rebuild the database: \(copiedCount) of \(rowCount) events are copied"
        case .copies(let progress): "migration 26: \(progress) events copied"
        case .writesKeys(let progress): "migration 26: idempotency keys of \(progress) events written"
        case .checks(let progress): "migration 26: \(progress) events checked"
        case .isDone(let kept):
            "migration 26 is done. The database as it was is kept as \(kept): delete it when you will not go back"
        }
    }
}

package struct RebuildProgress: Hashable, Sendable, CustomStringConvertible {
    package var done: Int
    package var total: Int
    package var rowsPerSecond: Int

    package var description: String {
        "\(done) of \(total) (\(done * 100 / max(total, 1)) %, \(rowsPerSecond)/s)"
    }
}

struct DatabaseRebuild {
    /// The migration that rebuilds a database with events.
    static let number = 26

    /// The steps of a rebuild. Tests interrupt a rebuild after each of them.
    enum Step: CaseIterable {
        case locked, created, tablesCopied, sliceCopied, eventsCopied, keysWritten, checked, oldKept, replaced
    }

    struct Options: Sendable {
        /// How many seconds to wait for other processes that have the database open. An older server may take 20
        /// seconds to stop (the default of SHUTDOWN_TIMEOUT_SECONDS).
        var lockSeconds = 60.0
        /// How many seconds the old file stays locked after the new file has replaced it (OldFileHold).
        var holdSeconds = DatabaseOpening.busyTimeoutSeconds + 1
        /// The number of events written in one transaction.
        var sliceRows = 50_000
        var reached: @Sendable (Step) throws -> Void = { _ in }
    }

    /// The path of the database, with symbolic links resolved. At the end, the new file is renamed to this path. If the
    /// path were a link, the renaming would replace only the link.
    let path: String
    let migrations: MigrationRun
    let now: Int64
    let options: Options
    let report: (RebuildReport) -> Void

    /// The file that the rebuild fills.
    var newPath: String { path + ".rebuild" }
    /// The name under which the old file is kept.
    var keptPath: String { path + ".before-\(Self.number)" }

    init(
        path: String, migrations: MigrationRun, nowMilliseconds: Int64, options: Options = Options(),
        report: @escaping (RebuildReport) -> Void
    ) {
        self.path = DatabaseFiles.resolved(path)
        self.migrations = migrations
        self.now = nowMilliseconds
        self.options = options
        self.report = report
    }

    /// If the database has events and lacks migration 26, returns the number of its last applied migration; otherwise
    /// nil. Also returns nil for any SQLite error except SQLITE_BUSY, because such an error occurs again when the file
    /// is opened for writing.
    func lastMigrationBefore() throws -> Int? {
        guard migrations.contains(Self.number), let reader = try? RecordsFile.connect(path) else { return nil }
        defer { try? reader.close() }
        do {
            return try reader.read { db in
                let applied = try migrations.status(db).last { $0.appliedAtMilliseconds != nil }
                guard let applied, applied.number < Self.number else { return nil }
                let hasEvents = try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM event)") ?? false
                return hasEvents ? applied.number : nil
            }
        } catch MigrationRefusal.empty {
            return nil
        } catch let error as DatabaseError where error.resultCode != .SQLITE_BUSY {
            return nil
        }
    }

    /// Rebuilds the database. All migrations before 26 must be applied.
    ///
    /// - Throws: `MaintenanceRefusal`, or SQLite's error. The database is then unchanged.
    func run() throws {
        let old = try lock()
        do {
            try run(on: old)
        } catch {
            try? old.close()
            throw error
        }
        OldFileHold.close(old, afterSeconds: options.holdSeconds)
    }

    private func run(on old: DatabaseQueue) throws {
        try options.reached(.locked)
        if DatabaseCopy.exists(keptPath), try inode(keptPath) != inode(path) {
            throw MaintenanceRefusal("\(keptPath) already exists: move it away, the database will be kept there")
        }
        let source = try fingerprint()
        let rowCount = try old.read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM event") ?? 0 }
        let resumes = RebuildMark.isOf(source, newPath)
        try requireSpace(existing: resumes ? bytes(newPath) : 0)
        if !resumes { try create(from: old) }
        try options.reached(.created)
        try old.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA foreign_keys = OFF")
            try db.execute(sql: "ATTACH ? AS new", arguments: [newPath])
            try db.execute(sql: "PRAGMA new.synchronous = FULL; PRAGMA new.cache_size = -65536")
            try copy(db, source, rowCount)
            try db.execute(sql: "DETACH new")
        }
        try DatabaseCopy.sync(newPath)
        try check()
        try options.reached(.checked)
        try replace()
        report(.isDone(kept: keptPath))
    }

    private func copy(_ db: Database, _ source: String, _ rowCount: Int) throws {
        let connection = try db.openConnection
        let isBegun = try RebuildMark.exists(db)
        let links: ChainLinks
        if isBegun {
            links = try ChainLinks(on: connection, rowCount: rowCount)
        } else {
            links = try RebuiltTables.inTransaction(db) {
                try RebuiltTables.copy(db)
                let links = try RebuiltTables.writingChains(on: connection, rowCount: rowCount)
                try RebuildMark.write(source, db)
                return links
            }
        }
        try options.reached(.tablesCopied)
        var copying = RebuiltEvents(links, rowCount: rowCount, sliceRows: options.sliceRows)
        report(.begins(rowCount: rowCount, copiedCount: try copying.begin(db)))
        while try copying.copySlice(db, { report(.copies($0)) }) { try options.reached(.sliceCopied) }
        copying.end(db)
        try options.reached(.eventsCopied)
        try RebuiltKeys.write(on: connection, db, rowCount: rowCount, sliceRows: options.sliceRows) {
            report(.writesKeys($0))
        }
        try options.reached(.keysWritten)
    }

    // MARK: The old file

    /// Waits until no other process has the database open. Copies the WAL into the file and locks the database. Throws
    /// `MaintenanceRefusal` after `lockSeconds`, or if another rebuild has replaced the file during the wait.
    private func lock() throws -> DatabaseQueue {
        let end = ContinuousClock.now.advanced(by: .seconds(options.lockSeconds))
        var hasReported = false
        while true {
            let opened = try inode(path)
            do {
                let queue = try DatabaseBackup.locked(path)
                if try inode(path) == opened { return queue }
                try queue.close()
                throw MaintenanceRefusal("\(path) was replaced by another process: start again")
            } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
                guard ContinuousClock.now < end else {
                    throw MaintenanceRefusal(
                        "migration \(Self.number) needs the database for itself, but another process has it open: stop "
                            + "older servers, commands and Litestream first")
                }
            }
            if !hasReported { report(.waits(path: path)) }
            hasReported = true
            Thread.sleep(forTimeInterval: 0.1)
        }
    }

    /// Returns a text that differs after every change of the file. Uses only stat: opening and closing the file would
    /// release this process's locks on it (fcntl).
    private func fingerprint() throws -> String {
        let status = try FileStatus(path)
        return "\(status.inode) \(status.bytes) \(status.modifiedNanoseconds)"
    }

    private func inode(_ path: String) throws -> UInt64 { try FileStatus(path).inode }
    private func bytes(_ path: String) throws -> Int { try FileStatus(path).bytes }

    /// Throws if the disk may lack the space for the new file, which is at most as large as the old file. `existing` is
    /// the number of bytes that an interrupted run has written to the new file.
    private func requireSpace(existing: Int) throws {
        let needed = max(0, try bytes(path) - existing) + FreeSpace.bytesMin
        guard let free = FreeSpace.bytes(besideFile: path), free < needed else { return }
        throw MaintenanceRefusal(
            "migration \(Self.number) copies the database: \(needed >> 20) MiB of free disk space are needed beside it, "
                + "\(free >> 20) MiB are free")
    }

    // MARK: The new file

    private func create(from old: DatabaseQueue) throws {
        DatabaseCopy.remove(newPath)
        try DatabaseBackup.create(newPath)
        let added = try old.read(RebuiltTables.added)
        let queue = try DatabaseQueue(path: newPath)
        defer { try? queue.close() }
        try queue.writeWithoutTransaction { db in
            try migrations.upTo(Self.number).run(db, atMilliseconds: now)
            let names = Set(try String.fetchAll(db, sql: "SELECT name FROM sqlite_schema"))
            for object in added where !names.contains(object.name) { try db.execute(sql: object.sql) }
        }
    }

    /// Runs the check of `dwell check` on the new file.
    private func check() throws {
        var pace = RebuildPace()
        let check = try DatabaseCheck(path: newPath)
        defer { check.close() }
        let found = try check.run(beforeRefold: true) { progress in
            pace.show(progress.done, of: progress.total) { report(.checks($0)) }
        }
        guard let problem = found.problems.first else { return }
        try RebuildMark.remove(newPath)
        let more = found.problems.count == 1 ? "" : " (dwell check --database \(newPath) lists more)"
        throw MaintenanceRefusal(
            "migration \(Self.number) stopped and \(path) is as it was, because the check of the new file found a problem: "
                + problem + more)
    }

    /// Puts the new file in the database's place. At every moment, the old or the new file has the database's name.
    private func replace() throws {
        let status = try FileStatus(path)
        try DatabaseCopy.copyOwner(of: path, to: newPath)
        guard chmod(newPath, status.mode) == 0 else { throw MaintenanceRefusal(errnoAt: newPath) }
        try DatabaseCopy.sync(newPath)
        // An interrupted run may already have linked the database under `keptPath`. `path` then names the same file, so
        // removing `keptPath` loses nothing.
        _ = unlink(keptPath)
        try FileManager.default.linkItem(atPath: path, toPath: keptPath)
        try DatabaseCopy.sync(DatabaseCopy.folder(of: path))
        try options.reached(.oldKept)
        try DatabaseCopy.move(newPath, to: path)
        try options.reached(.replaced)
    }
}
