// Reads a database file for `dwell explain`. Each call is one snapshot.

package import Engine
import GRDB
package import JourneyModel

package struct EventRecords: RecordsReader {
    private let queue: DatabaseQueue

    /// The maximum number of events in one result. A journey has only a few dozen events.
    package static let eventsMax = 10_000

    /// Opens the file read-only. A file of an older version of Dwell can be read if RecordedEventRows has a substitute
    /// for each column that the file lacks.
    package init(path: String) throws(RecordsUnreadable) {
        queue = try RecordsFile.open(path)
    }

    package func close() {
        try? queue.close()
    }

    /// Returns the driver's events from the first event of the session's journey to the session's last event. If an
    /// event of another journey closed the session, the result ends with that event. Events of other sessions in
    /// between are included.
    ///
    /// If there are more than `eventsMax` such events, returns only the last `eventsMax`. Returns nil if no event names
    /// the session.
    package func events(ofSession sessionID: String) throws(RecordsUnreadable) -> RecordedEvents? {
        try read { db in try RecordedEventRows.events(ofSession: sessionID, limit: Self.eventsMax, db) }
    }

    /// Returns a driver's last events; nil when there are none.
    ///
    /// - Parameter last: 1 to `eventsMax`.
    package func events(of driver: DriverID, last: Int) throws(RecordsUnreadable) -> RecordedEvents? {
        try read { db in try RecordedEventRows.events(of: driver, last: min(last, Self.eventsMax), db) }
    }

    private func read<Value>(_ body: (Database) throws -> Value) throws(RecordsUnreadable) -> Value {
        try RecordsFile.read(queue, body)
    }
}
