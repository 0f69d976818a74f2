// Reads a database file for `dwell explain`. Each call is one snapshot.

import GRDB
package import JourneyModel

package struct EventRecords: RecordsReader {
    private let queue: DatabaseQueue

    /// A journey has some dozens of events; this many fill a screen for an hour.
    package static let eventsMax = 10_000

    /// Opens the file read-only; the schema may be of another version if its events are in the same place.
    package init(path: String) throws(RecordsUnreadable) {
        queue = try RecordsFile.open(path)
    }

    package func close() {
        try? queue.close()
    }

    /// The journey of that session: the driver's events from the one that began the journey, before the session, to
    /// the session's last one, including those of other sessions in between; the last `eventsMax` of them. Nil when
    /// no event names the session.
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
        try RecordsFile.read(queue, body)
    }
}
