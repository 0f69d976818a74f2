// What SQLite answers when it does not answer SQLITE_OK, and the one question that the writer asks of it: whose
// fault is it. Texts are SQLite's own; they hold names of tables and columns, never a value.

import GRDB
import GRDBSQLite

/// An extended result code (https://www.sqlite.org/rescode.html) with SQLite's message.
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

    /// Any error from GRDB; one that is not SQLite's keeps its description under SQLITE_ERROR.
    package init(_ error: any Error) {
        if let error = error as? DatabaseError {
            extendedCode = error.extendedResultCode.rawValue
            message = error.message ?? "no message"
        } else {
            extendedCode = SQLITE_ERROR
            message = "\(error)"
        }
    }

    package var description: String { "SQLite \(extendedCode): \(message)" }

    /// The low byte of an extended code is its primary one.
    package var primaryCode: Int32 { extendedCode & 0xFF }

    /// What a statement's own values can cause. Everything else (a full disk, an I/O error, a lock, no memory) says
    /// nothing about the request that happened to meet it.
    var isAboutOneStatement: Bool {
        switch primaryCode {
        case SQLITE_CONSTRAINT, SQLITE_MISMATCH, SQLITE_TOOBIG, SQLITE_RANGE, SQLITE_ERROR: true
        default: false
        }
    }

    /// The same, or rows of one driver that hold what nobody wrote.
    var isAboutOneDriver: Bool { isAboutOneStatement || extendedCode == SQLITE_CORRUPT }

    /// COMMIT writes all frames of the transaction to the WAL, the one that commits last, and syncs after that. An
    /// error of writing therefore means that the committing frame is not there whole, and recovery will not find
    /// it. After any other error the frames may be in the file.
    var provesThatCommitDidNotHappen: Bool {
        primaryCode == SQLITE_FULL || extendedCode == ioerrWrite
    }
}

/// `SQLITE_IOERR_WRITE`; the header makes it with an expression that Swift does not import.
private let ioerrWrite: Int32 = SQLITE_IOERR | (3 << 8)

extension SQLiteError {
    /// Not SQLite's at all: about one request, which is refused alone as `StoreFailure.driverErased`.
    static let driverWasErased = SQLiteError(extendedCode: SQLITE_CONSTRAINT, message: "the driver was just erased")

    /// Not SQLite's either: takes back what was done to see what it would do.
    static let dryRun = SQLiteError(extendedCode: SQLITE_CONSTRAINT, message: "a dry run")

    /// A row holds what no release of this server wrote.
    static func unreadable(_ column: String) -> SQLiteError {
        SQLiteError(extendedCode: SQLITE_CORRUPT, message: "unreadable value in column \(column)")
    }
}
