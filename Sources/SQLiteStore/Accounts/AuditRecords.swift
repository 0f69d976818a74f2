// Reads the audit entries in a database file, for `dwell audit`. Each call reads one snapshot.

import GRDB
package import Identity
package import JourneyModel
import SharedTables

package struct AuditRecords: RecordsReader {
    private let queue: DatabaseQueue

    package static let entriesMax = 10_000

    /// Opens the file read-only.
    package init(path: String) throws(RecordsUnreadable) {
        queue = try RecordsFile.open(path)
    }

    package func close() {
        try? queue.close()
    }

    /// Returns the newest entries about a driver, newest first.
    ///
    /// - Parameter limit: 1 to `entriesMax`.
    package func entries(of driver: DriverID, limit: Int) throws(RecordsUnreadable) -> [AuditEntry] {
        try RecordsFile.read(queue) { db in
            try AuditRows.entries(of: driver, limit: min(limit, Self.entriesMax), SQLiteTransaction(db))
        }
    }
}
