// What a transfer reads from SQLite and writes to PostgreSQL. The two stores do not know each other; they meet in these
// values.

package import JourneyModel

/// Rows of a table, with the columns of the target.
package struct TransferRows: Sendable {
    package var table: String
    package var columns: [String]
    package var rows: [[SQLValue]]

    package init(_ table: String, columns: [String], rows: [[SQLValue]] = []) {
        (self.table, self.columns, self.rows) = (table, columns, rows)
    }
}

/// A driver whose rows are copied.
package struct TransferredDriver: Hashable, Sendable {
    /// Row number in SQLite's `driver`.
    package var row: Int64
    /// A hash of what is stored of the driver, except for events. Another value means that the driver was changed.
    package var mark: Int64
    /// The highest number that an event of any driver had before the driver was read.
    package var lastEvent: Int64

    package init(row: Int64, mark: Int64, lastEvent: Int64) {
        (self.row, self.mark, self.lastEvent) = (row, mark, lastEvent)
    }
}

/// A change in `driver.recent_changes`. The two stores encode changes in different forms.
package struct TransferredChange: Sendable {
    package var event: Int64
    package var journey: Journey

    package init(event: Int64, journey: Journey) {
        (self.event, self.journey) = (event, journey)
    }
}

/// A part of a pass: the rows of some drivers, or some events of a driver with many.
package struct TransferPart: Sendable {
    /// The drivers that begin in this part. What the target has of them is replaced.
    package var drivers: [TransferredDriver] = []
    /// The column `driver.recent_changes`, by row number of the driver.
    package var recentChanges: [Int64: [TransferredChange]] = [:]
    /// Rows of `TransferredTables.ofDrivers`. Column `driver`, and `number` of a driver, is the row number in SQLite.
    package var tables: [TransferRows] = []
    /// Whether the next part has further events of the last driver.
    package var isContinued = false

    package init() {}

    package var eventCount: Int { tables.last { $0.table == "event" }?.rows.count ?? 0 }
}

/// The place between two parts of a pass.
package struct TransferCursor: Sendable {
    /// The drivers that have not begun.
    package var drivers: ArraySlice<TransferredDriver>
    /// Events of the last driver that began.
    package var events: ArraySlice<Int64> = []

    package init(_ drivers: [TransferredDriver]) {
        self.drivers = drivers[...]
    }
}

/// The database from which a transfer reads, for one pass.
package protocol TransferSource: Sendable {
    /// Distinguishes this database from others. A copy of the database has the same value.
    func identity() throws -> [UInt8]
    /// Returns why the database cannot be transferred now, in a sentence for the operator; nil if it can.
    ///
    /// - Parameter isFinal: whether nothing may be left unfinished.
    func obstacle(isFinal: Bool) throws -> String?
    /// Returns all drivers as they are now, in the order of their row numbers.
    func drivers() throws -> [TransferredDriver]
    /// Returns the number of the last event of each driver who has events with numbers above `event`.
    func lastEvents(after event: Int64) throws -> [Int64: Int64]
    /// Returns the part at the cursor, and moves the cursor behind it. Drivers who no longer exist are left out.
    func part(at cursor: inout TransferCursor) throws -> TransferPart
    /// Returns the next rows of a shared table in the order of its primary key; no rows after the last one.
    ///
    /// - Parameter key: the primary key of the last row; nil for the first rows. Becomes that of the last returned row.
    func rows(of table: String, columns: [String], after key: inout [SQLValue]?) throws -> TransferRows
    func close()
}

/// The database to which a transfer writes: empty, or filled by an interrupted run of the same transfer.
package protocol TransferTarget: Sendable {
    /// Brings the database to the schema of this binary, and claims it for this transfer. Returns the drivers that an
    /// interrupted run has copied, by their row numbers.
    ///
    /// - Throws: if the database has other data, or belongs to the transfer of another source.
    func begin(_ source: [UInt8]) async throws -> [Int64: TransferredDriver]
    /// Writes the part. If the next part continues it, its drivers become visible only with the last of the continuing
    /// parts.
    func write(_ part: TransferPart) async throws
    /// Removes drivers who no longer exist in the source.
    func remove(_ drivers: [Int64]) async throws
    /// Gathers the planner's statistics.
    func analyze() async throws
    /// Begins the last transaction. Returns the columns of the shared tables.
    func beginLastTransaction() async throws -> [String: [String]]
    func write(_ rows: TransferRows) async throws
    /// Ends the transfer: servers may start.
    func commitLastTransaction() async throws
}
