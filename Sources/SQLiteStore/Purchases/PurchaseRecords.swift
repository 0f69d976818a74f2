// The purchases in a database file, for `dwell purchases`. Each call reads one snapshot.

import GRDB
package import JourneyModel
package import SharedTables

package struct PurchaseRecords: RecordsReader {
    private let queue: DatabaseQueue

    /// Opens the file read-only.
    package init(path: String) throws(RecordsUnreadable) {
        queue = try RecordsFile.open(path)
    }

    package func close() {
        try? queue.close()
    }

    /// Returns the driver's purchases; nil for an unknown driver.
    package func purchases(
        of driver: DriverID
    ) throws(RecordsUnreadable) -> DriverPurchases? {
        try RecordsFile.read(queue) { db in try PurchaseRecordRows.purchases(of: driver, SQLiteTransaction(db)) }
    }

    /// Returns the purchases with this original transaction id. There is at most one in each environment.
    package func purchases(original id: String) throws(RecordsUnreadable) -> [PurchaseRecord] {
        try RecordsFile.read(queue) { db in try PurchaseRecordRows.purchases(original: id, SQLiteTransaction(db)) }
    }
}
