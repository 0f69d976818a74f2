// Opens a database file for read-only commands. A server may be using the file. Nothing is ever written to it.

import Foundation
import GRDB

/// The reason why a file cannot be read. It is a sentence for the operator.
package struct RecordsUnreadable: Error, Hashable, Sendable, CustomStringConvertible {
    package var description: String

    /// - Parameter path: the path of the file if it could not be opened. The description can then name the cause
    ///   (OpeningObstacle). Nil for an error after the file was opened.
    init(_ error: any Error, at path: String? = nil) {
        description =
            if let error = error as? RecordsUnreadable {
                error.description
            } else if let error = error as? DatabaseError {
                path.flatMap { OpeningObstacle.cause(of: error, at: $0) }
                    ?? error.message ?? "SQLite error \(error.resultCode.rawValue)"
            } else { "\(error)" }
    }

    /// SQLite's own message for a missing file would only be "unable to open database file".
    static let missing = RecordsUnreadable("file not found")

    init(_ description: String) {
        self.description = description
    }
}

/// Reads one kind of record from a database file.
package protocol RecordsReader: Sendable {
    /// Opens the file read-only.
    init(path: String) throws(RecordsUnreadable)
    func close()
}

enum RecordsFile {
    /// Opens a database of this version of Dwell or of an older one. Throws for any other file.
    static func open(_ path: String) throws(RecordsUnreadable) -> DatabaseQueue {
        do {
            let queue = try connect(path)
            try queue.read(MigrationRun().requireDwell)
            return queue
        } catch {
            throw RecordsUnreadable(error, at: path)
        }
    }

    static func read<Value>(
        _ queue: DatabaseQueue, _ body: (Database) throws -> Value
    ) throws(RecordsUnreadable) -> Value {
        do {
            return try queue.read(body)
        } catch {
            throw RecordsUnreadable(reason(for: error, queue))
        }
    }

    /// Returns a `MigrationRefusal` if the file is of another version of Dwell, otherwise `error`. The file of an older
    /// version may lack columns, and SQLite's error about a missing column would not mention the version.
    static func reason(for error: any Error, _ queue: DatabaseQueue) -> any Error {
        do {
            try queue.read(MigrationRun().requireCurrent)
            return error
        } catch let refusal as MigrationRefusal {
            return refusal
        } catch {
            return error
        }
    }

    /// Opens the file read-only. To read a WAL database, SQLite needs the shared-memory file, and creates it if it is
    /// missing. The process may not be permitted to create it.
    ///
    /// Without this permission, the file is opened as immutable, but only if it has neither a WAL nor a rollback
    /// journal. In that case no server has the database open, so the file is complete and does not change.
    static func connect(_ path: String) throws -> DatabaseQueue {
        guard FileManager.default.fileExists(atPath: path) else { throw RecordsUnreadable.missing }
        try OpeningObstacle.requireFile(path)
        _ = DatabaseOpening.isConfigured
        var configuration = Configuration()
        configuration.readonly = true
        configuration.label = "dwell.records"
        configuration.busyMode = .timeout(DatabaseOpening.busyTimeoutSeconds)
        do {
            let queue = try DatabaseQueue(path: path, configuration: configuration)
            _ = try queue.read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM sqlite_schema") }
            return queue
        } catch let error as DatabaseError
            where [.SQLITE_CANTOPEN, .SQLITE_READONLY].contains(error.resultCode)
            && FileManager.default.isReadableFile(atPath: path)
            && !DatabaseFiles.hasLogs(of: DatabaseFiles.resolved(path))
        {
            guard var components = URLComponents(string: URL(fileURLWithPath: path).absoluteString) else { throw error }
            components.queryItems = [URLQueryItem(name: "immutable", value: "1")]
            return try DatabaseQueue(path: components.string ?? path, configuration: configuration)
        }
    }
}
