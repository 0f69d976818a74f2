// Replaces a database that SQLite cannot open: either the database is damaged, or only its WAL or journal is left. Also
// removes the WAL and the journal of a database before another file replaces it.

import Foundation

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

enum DatabaseFiles {
    /// Suffixes of the log files that SQLite applies when it opens a database. SQLite recreates the shared-memory file
    /// from the WAL, so that file is not among them.
    private static let logs = ["-wal", "-journal"]

    /// SQLite's lock ranges (sqlite.org/fileformat2.html, "The WAL-Index"; `PENDING_BYTE` in SQLite's os.h). A process
    /// that has the database open in WAL mode holds a lock in each range.
    private static let locks = (database: (start: 0x4000_0000, length: 512), sharedMemory: (start: 120, length: 9))

    /// Moves `new` to `path`. Keeps an existing database, its WAL and its journal under the name `old`.
    ///
    /// Returns the path of the kept database. If there was none, returns the path of the kept WAL or journal; nil if
    /// there was no file at all.
    static func takePlace(of path: String, _ new: String, keepingAt old: String) throws -> String? {
        if try isInUse(path) { throw MaintenanceRefusal.inUse(path) }
        var kept: String?
        for suffix in logs where DatabaseCopy.exists(path + suffix) {
            try DatabaseCopy.move(path + suffix, to: old + suffix)
            kept = old + suffix
        }
        _ = unlink(path + "-shm")
        if DatabaseCopy.exists(path) {
            try FileManager.default.linkItem(atPath: path, toPath: old)
            kept = old
        }
        try DatabaseCopy.move(new, to: path)
        return kept
    }

    /// Returns the path with its symbolic links resolved. SQLite keeps WAL, journal and shared memory beside the file
    /// to which a link leads, even if this file is missing. A rename to the link's own path would replace the link
    /// instead of the file.
    static func resolved(_ path: String) -> String {
        var path = path
        // `resolvingSymlinksInPath` returns a link to a missing file unchanged.
        for _ in 0..<linksMax {
            guard let target = try? FileManager.default.destinationOfSymbolicLink(atPath: path) else { break }
            let folder = URL(fileURLWithPath: path).deletingLastPathComponent().resolvingSymlinksInPath()
            path = URL(fileURLWithPath: target, relativeTo: folder).path
        }
        return URL(fileURLWithPath: path).resolvingSymlinksInPath().path
    }

    /// The number of links that Linux follows in one path.
    private static let linksMax = 40

    /// Returns the paths at which SQLite and the server keep files beside the database at `path`. The signing key is
    /// beside `path` itself, even if `path` is a symbolic link.
    static func ofServer(at path: String) -> [String] {
        (logs + ["-shm", ".sock"]).map { resolved(path) + $0 } + [path + ".jwt-key"]
    }

    /// Follows symbolic links. Returns false for a directory, a device such as /dev/null, a pipe or a socket.
    static func isMissingOrRegular(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) != 0 || status.st_mode & S_IFMT == S_IFREG
    }

    /// Returns the path of the database if it exists; otherwise the path of its WAL or journal, if one is left.
    static func existing(of path: String) -> String? {
        ([""] + logs).map { path + $0 }.first { DatabaseCopy.exists($0) }
    }

    static func hasLogs(of path: String) -> Bool { logs.contains { DatabaseCopy.exists(path + $0) } }

    /// Durably removes the WAL, the journal and the shared-memory file of the database at `path`. Even after a power
    /// failure, SQLite cannot apply them to a file that replaces the database.
    static func removeLogs(of path: String) throws {
        for suffix in logs + ["-shm"] {
            guard unlink(path + suffix) == 0 || errno == ENOENT else {
                throw MaintenanceRefusal(errnoAt: path + suffix)
            }
        }
        try DatabaseCopy.sync(DatabaseCopy.folder(of: path))
    }

    /// Returns whether another process has the database open in WAL mode, or has a lock on it in another journal mode.
    static func isInUse(_ path: String) throws -> Bool {
        try isLocked(path, locks.database) || isLocked(path + "-shm", locks.sharedMemory)
    }

    private static func isLocked(_ path: String, _ range: (start: Int, length: Int)) throws -> Bool {
        let descriptor = open(path, O_RDWR | O_CLOEXEC)
        if descriptor < 0 {
            if errno == ENOENT { return false }
            throw MaintenanceRefusal(errnoAt: path)
        }
        defer { close(descriptor) }
        var lock = flock()
        lock.l_type = Int16(F_WRLCK)
        lock.l_whence = Int16(SEEK_SET)
        lock.l_start = off_t(range.start)
        lock.l_len = off_t(range.length)
        guard fcntl(descriptor, F_GETLK, &lock) == 0 else {
            throw MaintenanceRefusal(errnoAt: path)
        }
        return lock.l_type != Int16(F_UNLCK)
    }
}
