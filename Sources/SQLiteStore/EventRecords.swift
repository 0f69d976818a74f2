// Reads a database file for `dwell explain`: beside a running server or without one, and without ever writing. Each
// call is one snapshot.

import Foundation
import GRDB
package import JourneyModel

/// The file cannot be read, in a sentence for the operator.
package struct RecordsUnreadable: Error, Hashable, Sendable, CustomStringConvertible {
    package var description: String
}

package struct EventRecords: Sendable {
    private let queue: DatabaseQueue

    /// A journey has some dozens of events; this many fill a screen for an hour.
    package static let eventsMax = 10_000

    /// Opens the file read-only; the schema may be of another version as long as its events are where they are now.
    package init(path: String) throws(RecordsUnreadable) {
        do {
            queue = try Self.open(path)
        } catch let error as DatabaseError {
            throw RecordsUnreadable(description: error.message ?? "SQLite error \(error.resultCode.rawValue)")
        } catch {
            throw RecordsUnreadable(description: "\(error)")
        }
    }

    /// A reader of a WAL database needs its shared memory file, and makes it when there is none. Where it may not,
    /// and no server has the file open (there is no WAL), the file is all there is and does not change.
    private static func open(_ path: String) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.readonly = true
        configuration.label = "dwell.explain"
        configuration.busyMode = .timeout(DatabaseOpening.busyTimeoutSeconds)
        do {
            let queue = try DatabaseQueue(path: path, configuration: configuration)
            _ = try queue.read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM sqlite_schema") }
            return queue
        } catch let error as DatabaseError
            where [.SQLITE_CANTOPEN, .SQLITE_READONLY].contains(error.resultCode)
            && FileManager.default.isReadableFile(atPath: path)
            && !FileManager.default.fileExists(atPath: path + "-wal")
        {
            guard var components = URLComponents(string: URL(fileURLWithPath: path).absoluteString) else { throw error }
            components.queryItems = [URLQueryItem(name: "immutable", value: "1")]
            return try DatabaseQueue(path: components.string ?? path, configuration: configuration)
        }
    }

    package func close() {
        try? queue.close()
    }

    /// The journey of that session: the driver's events from the one with which the journey began, before there was
    /// a session, to the session's last one, those of other sessions in between too; the last `eventsMax` of them.
    /// Nil when no event names it.
    package func events(ofSession sessionID: String) throws(RecordsUnreadable) -> RecordedEvents? {
        try read { db in try RecordedEventRows.events(ofSession: sessionID, limit: Self.eventsMax, db) }
    }

    /// A driver's last events; nil when there are none.
    ///
    /// - Parameter last: 1 to `eventsMax`.
    package func events(of driver: DriverID, last: Int) throws(RecordsUnreadable) -> RecordedEvents? {
        try read { db in try RecordedEventRows.events(of: driver, last: min(last, Self.eventsMax), db) }
    }

    private func read<Value>(_ body: (Database) throws -> Value) throws(RecordsUnreadable) -> Value {
        do {
            return try queue.read(body)
        } catch let error as DatabaseError {
            throw RecordsUnreadable(description: error.message ?? "SQLite error \(error.resultCode.rawValue)")
        } catch {
            throw RecordsUnreadable(description: "\(error)")
        }
    }
}
