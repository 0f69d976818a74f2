// Finds the reason why this process cannot open a database file, and usually a remedy. SQLite's own messages ("unable
// to open database file", "attempt to write a readonly database") contain neither.

import Foundation
import GRDB

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

enum OpeningObstacle {
    /// Throws if `path` leads to a directory, a FIFO, a socket or a device. SQLite would, for example, block on a FIFO
    /// until another process opens it for writing.
    static func requireFile(_ path: String) throws(RecordsUnreadable) {
        var status = stat()
        guard stat(path, &status) == 0 else { return }
        let kind =
            switch status.st_mode & S_IFMT {
            case S_IFREG: ""
            case S_IFDIR: "a directory"
            case S_IFIFO: "a FIFO"
            case S_IFSOCK: "a socket"
            default: "a device"
            }
        if !kind.isEmpty { throw RecordsUnreadable("it is \(kind), not a database file") }
    }

    /// Throws if the file exists, but this process lacks the right to read it or the right to write it.
    static func requireWritable(_ path: String) throws(RecordsUnreadable) {
        if let obstacle = ofFile(path) { throw RecordsUnreadable(obstacle) }
    }

    /// Returns the cause of SQLite's `error`; nil if no cause is found. Possible causes are an unfinished transaction
    /// in the rollback journal, and missing access to the file, its file system or directory.
    static func cause(of error: DatabaseError, at path: String) -> String? {
        guard [.SQLITE_CANTOPEN, .SQLITE_READONLY, .SQLITE_PERM].contains(error.resultCode) else { return nil }
        if error.extendedResultCode == .SQLITE_READONLY_ROLLBACK {
            return "the rollback journal beside it has an unfinished transaction: open the file once with sqlite3"
        }
        if let obstacle = ofFile(path) { return obstacle }
        let folder = URL(fileURLWithPath: path).deletingLastPathComponent().path
        guard access(folder, W_OK | X_OK) != 0 else { return nil }
        return "\(String(cString: strerror(errno))): SQLite must create files in the directory \(folder)"
    }

    private static func ofFile(_ path: String) -> String? {
        var status = stat()
        guard stat(path, &status) == 0 else {
            if errno == ENOENT { return nil }
            return "\(String(cString: strerror(errno))): check the directories on its path"
        }
        let remedy = "run this as the file's owner (user id \(status.st_uid)), or change its permissions"
        if access(path, R_OK) != 0 { return "user id \(getuid()) may not read the file: \(remedy)" }
        if access(path, W_OK) == 0 { return nil }
        return errno == EROFS
            ? "its file system is read-only: mount it writable, or move the database"
            : "user id \(getuid()) may not write the file: \(remedy)"
    }
}
