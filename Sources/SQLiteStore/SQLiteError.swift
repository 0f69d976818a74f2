// An error of the SQLite store: SQLite's result code and message. Also tells whether one request may have caused the
// error. SQLite's own messages contain names of tables and columns, but never a value.

import GRDB
import GRDBSQLite
import SharedTables

/// An extended result code (https://www.sqlite.org/rescode.html) with a message, usually SQLite's own.
package struct SQLiteError: Error, Hashable, Sendable, CustomStringConvertible {
    package var extendedCode: Int32
    package var message: String

    package init(extendedCode: Int32, message: String) {
        self.extendedCode = extendedCode
        self.message = message
    }

    init(code: Int32, on connection: OpaquePointer) {
        extendedCode = code
        message = String(cString: sqlite3_errmsg(connection))
    }

    /// Converts any error of a transaction. An error of an unknown type becomes SQLITE_ERROR, with the error's
    /// description as the message.
    package init(_ error: any Error) {
        switch error {
        case let error as SQLiteError: self = error
        case let error as DatabaseError:
            extendedCode = error.extendedResultCode.rawValue
            message = error.message ?? "no message"
        case let error as UnreadableColumn: self = .unreadable(error.name)
        case is DriverErased: self = .driverWasErased
        default:
            extendedCode = SQLITE_ERROR
            message = "\(error)"
        }
    }

    package var description: String { "SQLite \(extendedCode): \(message)" }

    /// The primary result code.
    package var primaryCode: Int32 { extendedCode & 0xFF }

    /// Whether the values of the failed statement may have caused the error. False, for example, for a full disk, an
    /// I/O error, a lock or a lack of memory.
    var isAboutOneStatement: Bool {
        switch primaryCode {
        case SQLITE_CONSTRAINT, SQLITE_MISMATCH, SQLITE_TOOBIG, SQLITE_RANGE, SQLITE_ERROR: true
        default: false
        }
    }

    /// Whether the values of the failed statement, or a damaged value in one driver's rows, may have caused the error.
    var isAboutOneDriver: Bool { isAboutOneStatement || extendedCode == SQLITE_CORRUPT }

    /// Whether a failed COMMIT has certainly stored nothing. COMMIT writes the transaction's frames to the WAL, the
    /// commit frame last. After that, it syncs the WAL.
    ///
    /// If a write failed, the commit frame is missing or incomplete, so SQLite's recovery ignores the transaction.
    /// After any other error, all frames may be in the WAL, and the recovery may apply them.
    var provesThatCommitDidNotHappen: Bool {
        primaryCode == SQLITE_FULL || extendedCode == ioerrWrite
    }
}

/// `SQLITE_IOERR_WRITE`. SQLite's header defines it by an expression that Swift does not import.
private let ioerrWrite: Int32 = SQLITE_IOERR | (3 << 8)

extension SQLiteError {
    /// An error of this server, not of SQLite. The driver of the request was deleted a moment ago. Only this request
    /// fails, with `StoreFailure.driverErased`.
    static let driverWasErased = SQLiteError(extendedCode: SQLITE_CONSTRAINT, message: "the driver was just erased")

    /// An error of this server, not of SQLite. A release with newer fold rules has folded the driver's events, or is
    /// refolding them. This release must not fold them again.
    static let foldedByNewerRelease = SQLiteError(
        extendedCode: SQLITE_CONSTRAINT, message: "the journey was folded by the rules of a newer release")

    /// The database file is no longer at its path. SQLite itself returns this error (SQLITE_READONLY_DBMOVED) only with
    /// a rollback journal. In WAL mode, `WriterTransaction.start` checks the path instead of SQLite.
    static let fileMoved = SQLiteError(
        extendedCode: SQLITE_READONLY | (4 << 8), message: "the database file was moved, replaced or deleted")

    /// The error for a stored value that no release of this server writes.
    static func unreadable(_ column: String) -> SQLiteError {
        SQLiteError(extendedCode: SQLITE_CORRUPT, message: "unreadable value in column \(column)")
    }
}
