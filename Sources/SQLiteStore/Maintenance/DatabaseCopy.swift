// Copies a database to one file, for backup and restore. The copy is verified and made durable before it gets its final
// name.

import Foundation
import GRDB

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The reason why a backup, a restore, a check or a rebuild was refused or failed. It is a sentence for the operator.
package struct MaintenanceRefusal: Error, Hashable, Sendable, CustomStringConvertible {
    package var description: String

    init(_ description: String) {
        self.description = description
    }

    static func inUse(_ path: String) -> MaintenanceRefusal {
        MaintenanceRefusal("\(path) is in use: stop the server first")
    }

    /// `errno` must be that of the preceding system call on the file.
    init(errnoAt path: String) {
        description = "\(path): \(String(cString: strerror(errno)))"
    }

    init(_ path: String, _ error: any Error) {
        if let refusal = error as? MaintenanceRefusal {
            self = refusal
        } else {
            description = "\(path): \(RecordsUnreadable(error, at: path))"
        }
    }
}

/// The progress of a copy, a check or a trial (RefoldTrial). The numbers are pages for a copy, events for a check, and
/// drivers for a trial.
package struct MaintenanceProgress: Hashable, Sendable {
    package var done: Int
    package var total: Int
}

enum DatabaseCopy {
    /// Number of rows by table, without SQLite's own tables.
    typealias RowCounts = [String: Int]

    /// Number of pages copied in one step. 256 pages of 4 KiB are 1 MiB, so progress is reported for each MiB.
    private static let pagesPerStep: CInt = 256

    /// Copies one snapshot of `source` to the file at `path`, which must be empty or missing. Commits during the copy
    /// are not copied, and do not delay the copy. Returns the snapshot's row counts.
    static func copy(
        _ source: DatabaseQueue, to path: String, _ progress: (MaintenanceProgress) -> Void
    ) throws -> RowCounts {
        let copy = try DatabaseQueue(path: path)
        defer { try? copy.close() }
        return try copy.writeWithoutTransaction { destination in
            try source.read { db in
                // This transaction holds one snapshot. Without it, SQLite's backup would start over with every commit
                // of the server.
                let counts = try rowCounts(db)
                try withoutActuallyEscaping(progress) { progress in
                    do {
                        try db.backup(to: destination, pagesPerStep: pagesPerStep) {
                            progress(MaintenanceProgress(done: $0.completedPageCount, total: $0.totalPageCount))
                        }
                    } catch let error as DatabaseError {
                        // When a step of the backup fails, the connection does not know the error yet. GRDB's error
                        // therefore has the wrong message "not an error".
                        let failure = DatabaseError(resultCode: error.extendedResultCode)
                        // Nothing is written to the source. If a disk is full, it is therefore the disk of the copy.
                        guard error.resultCode == .SQLITE_FULL else { throw failure }
                        throw MaintenanceRefusal(path, failure)
                    }
                }
                return counts
            }
        }
    }

    static func rowCounts(_ db: Database) throws -> RowCounts {
        let tables = try String.fetchAll(
            db, sql: "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'")
        var counts: RowCounts = [:]
        for table in tables {
            counts[table] = try Int.fetchOne(db, sql: "SELECT count(*) FROM \"\(table)\"") ?? 0
        }
        return counts
    }

    /// Switches the copy from WAL mode to a rollback journal, so that it is a single file. Throws if the copy is
    /// damaged, or if its row counts differ from `counts`.
    static func verify(_ path: String, expecting counts: RowCounts? = nil) throws {
        let queue = try DatabaseQueue(path: path)
        defer { try? queue.close() }
        try queue.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA journal_mode = DELETE")
            try MigrationRun().requireDwell(db)
            if let problem = try integrityProblem(db) { throw MaintenanceRefusal("\(path) is damaged: \(problem)") }
            if let counts, try rowCounts(db) != counts {
                throw MaintenanceRefusal("\(path) does not have the same rows as its source")
            }
        }
    }

    /// Returns the first problem; nil when there is none.
    static func integrityProblem(_ db: Database) throws -> String? {
        let found = try String.fetchOne(db, sql: "PRAGMA integrity_check(1)") ?? "no answer"
        if found != "ok" { return found }
        guard let row = try Row.fetchOne(db, sql: "PRAGMA foreign_key_check") else {
            return try EventReferences.problem(db)
        }
        let table: String = row[0]
        let parent: String = row[2]
        return "a row of \(table) references a missing row of \(parent)"
    }

    /// Makes the file readable by its owner only, because it contains all data of the database.
    static func secure(_ path: String) throws {
        guard chmod(path, 0o600) == 0 else { throw MaintenanceRefusal(errnoAt: path) }
    }

    /// Gives `copy` the owner and group of `path`. Otherwise a server could not open a database that root has restored.
    static func copyOwner(of path: String, to copy: String) throws {
        var status = stat()
        guard stat(path, &status) == 0 else { throw MaintenanceRefusal(errnoAt: path) }
        guard status.st_uid != geteuid() || status.st_gid != getegid() else { return }
        guard chown(copy, status.st_uid, status.st_gid) == 0 else {
            throw MaintenanceRefusal("\(path) belongs to another user: run this as its owner or as root")
        }
    }

    /// Makes the bytes of a file durable. For a folder, makes the names of its files durable.
    static func sync(_ path: String) throws {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw MaintenanceRefusal(errnoAt: path) }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw MaintenanceRefusal(errnoAt: path) }
    }

    static func folder(of path: String) -> String {
        URL(fileURLWithPath: path).deletingLastPathComponent().path
    }

    /// Moves `from` to `to` atomically and durably, replacing an existing file.
    static func move(_ from: String, to: String) throws {
        guard rename(from, to) == 0 else { throw MaintenanceRefusal(errnoAt: to) }
        try sync(folder(of: to))
    }

    static func exists(_ path: String) -> Bool {
        FileManager.default.fileExists(atPath: path)
    }

    static func remove(_ path: String) {
        for suffix in ["", "-journal", "-wal", "-shm"] { _ = unlink(path + suffix) }
    }
}
