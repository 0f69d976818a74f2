// The values that a transfer reads from SQLite and writes to PostgreSQL. They are here because neither store's module
// depends on the other.

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

/// A driver to copy, with the state of the source when the driver was read.
package struct TransferredDriver: Hashable, Sendable {
    /// Row number in SQLite's `driver`.
    package var row: Int64
    /// A hash of the driver's stored data except the events. If the hash differs between two passes, these data have
    /// changed.
    package var mark: Int64
    /// The highest event number in the source, over all drivers, when this driver was read.
    package var lastEvent: Int64

    package init(row: Int64, mark: Int64, lastEvent: Int64) {
        (self.row, self.mark, self.lastEvent) = (row, mark, lastEvent)
    }
}

/// An element of the column `driver.recent_changes`. A transfer decodes this column, because the two stores encode it
/// differently.
package struct TransferredChange: Sendable {
    package var event: Int64
    package var journey: Journey

    package init(event: Int64, journey: Journey) {
        (self.event, self.journey) = (event, journey)
    }
}

/// A part of a pass: the rows of some drivers. If a driver has many events, a part may have only some of them.
package struct TransferPart: Sendable {
    /// The drivers whose first rows are in this part. Before the target writes the part, it deletes its old rows of
    /// these drivers.
    package var drivers: [TransferredDriver] = []
    /// The column `driver.recent_changes`, by row number of the driver.
    package var recentChanges: [Int64: [TransferredChange]] = [:]
    /// Rows of `TransferredTables.ofDrivers`. In the table `driver`, the column `number` has the driver's row number in
    /// SQLite. In the other tables, the column `driver` has it.
    package var tables: [TransferRows] = []
    /// Whether the next part contains further events of the last driver.
    package var isContinued = false

    package init() {}

    package var eventCount: Int { tables.last { $0.table == "event" }?.rows.count ?? 0 }
}

/// The place in a pass at which the next part begins.
package struct TransferCursor: Sendable {
    /// The drivers of whom no part has been read yet.
    package var drivers: ArraySlice<TransferredDriver>
    /// The remaining events of the driver whose rows are being read.
    package var events: ArraySlice<Int64> = []

    package init(_ drivers: [TransferredDriver]) {
        self.drivers = drivers[...]
    }
}

/// The database from which a transfer reads, for one pass.
package protocol TransferSource: Sendable {
    /// Returns a value that identifies this database. A copy of the database has the same value.
    func identity() throws -> [UInt8]
    /// Returns why the database cannot be transferred now, as a sentence for the operator; nil if it can be
    /// transferred.
    ///
    /// - Parameter isFinal: whether to check for the last pass. Unfinished work that the target cannot continue
    ///   prevents only the last pass.
    func obstacle(isFinal: Bool) throws -> String?
    /// Returns all drivers in their present state, by ascending row number.
    func drivers() throws -> [TransferredDriver]
    /// Returns the highest event number of each driver who has events with numbers above `event`.
    func lastEvents(after event: Int64) throws -> [Int64: Int64]
    /// Returns the part that begins at the cursor, and moves the cursor to the end of the part. Leaves out drivers that
    /// have been deleted.
    func part(at cursor: inout TransferCursor) throws -> TransferPart
    /// Returns some rows of a shared table, in the order of its primary key. Returns no rows at the end of the table.
    ///
    /// - Parameter key: the rows after this primary key are returned; nil for the first call. The call sets it to the
    ///   key of the last returned row.
    func rows(of table: String, columns: [String], after key: inout [SQLValue]?) throws -> TransferRows
    func close()
}

/// The database to which a transfer writes. It must be empty, or have been filled by an interrupted run of the same
/// transfer.
package protocol TransferTarget: Sendable {
    /// Brings the database to this binary's schema, and reserves it for this transfer. Returns the drivers that an
    /// interrupted run has copied, by row number.
    ///
    /// - Throws: if the database has data that no transfer wrote, or belongs to another source's transfer.
    func begin(_ source: [UInt8]) async throws -> [Int64: TransferredDriver]
    /// Writes the part. If `isContinued` is true, the transaction stays open until all events of the part's last driver
    /// are written.
    func write(_ part: TransferPart) async throws
    /// Removes all rows of these drivers, because the source no longer has them.
    func remove(_ drivers: [Int64]) async throws
    /// Updates the statistics of PostgreSQL's query planner.
    func analyze() async throws
    /// Begins the last transaction. Returns the columns of the shared tables.
    func beginLastTransaction() async throws -> [String: [String]]
    func write(_ rows: TransferRows) async throws
    /// Ends the transfer. Servers may then start on the target.
    func commitLastTransaction() async throws
}
