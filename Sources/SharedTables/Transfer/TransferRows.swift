// The values that a transfer reads from SQLite and writes to PostgreSQL. Both stores' modules use these types, because
// neither module depends on the other.

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

/// A driver whose rows are copied, with the state of the source when these rows were read.
package struct TransferredDriver: Hashable, Sendable {
    /// Row number in SQLite's `driver`.
    package var row: Int64
    /// A hash of the driver's stored data except the events. If it differs from the hash of an earlier pass, these data
    /// have changed.
    package var mark: Int64
    /// The highest event number of all drivers at the time when this driver was read.
    package var lastEvent: Int64

    package init(row: Int64, mark: Int64, lastEvent: Int64) {
        (self.row, self.mark, self.lastEvent) = (row, mark, lastEvent)
    }
}

/// A change of a journey in the column `driver.recent_changes`. The two stores encode this column differently, so a
/// transfer decodes it.
package struct TransferredChange: Sendable {
    package var event: Int64
    package var journey: Journey

    package init(event: Int64, journey: Journey) {
        (self.event, self.journey) = (event, journey)
    }
}

/// A part of a pass. It has the rows of some drivers, or, if a driver has many events, only some of this driver's
/// events.
package struct TransferPart: Sendable {
    /// The drivers whose first rows are in this part. Before the target writes this part, it deletes the rows that it
    /// already has of these drivers.
    package var drivers: [TransferredDriver] = []
    /// The column `driver.recent_changes`, by row number of the driver.
    package var recentChanges: [Int64: [TransferredChange]] = [:]
    /// Rows of `TransferredTables.ofDrivers`. The column `driver` contains the driver's row number in SQLite. In the
    /// table `driver`, this is the column `number`.
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
    /// Returns the reason why the database cannot be transferred now, as a sentence for the operator. Returns nil if it
    /// can be transferred.
    ///
    /// - Parameter isFinal: whether the last pass is about to begin. If so, unfinished work that the target cannot
    ///   continue is also an obstacle.
    func obstacle(isFinal: Bool) throws -> String?
    /// Returns all drivers in their present state, in the order of their row numbers.
    func drivers() throws -> [TransferredDriver]
    /// For each driver who has events with numbers above `event`, returns the number of the driver's last event.
    func lastEvents(after event: Int64) throws -> [Int64: Int64]
    /// Returns the part that begins at the cursor, and moves the cursor to the end of this part. Leaves out drivers who
    /// no longer exist.
    func part(at cursor: inout TransferCursor) throws -> TransferPart
    /// Returns the next rows of a shared table, in the order of its primary key. Returns no rows after the end of the
    /// table.
    ///
    /// - Parameter key: the primary key of the row after which to begin; nil to begin with the first row. The call sets
    ///   it to the key of the last returned row.
    func rows(of table: String, columns: [String], after key: inout [SQLValue]?) throws -> TransferRows
    func close()
}

/// The database to which a transfer writes. Before the transfer, it is empty or was filled by an interrupted run of the
/// same transfer.
package protocol TransferTarget: Sendable {
    /// Brings the database to the schema of this binary, and reserves it for this transfer. Returns the drivers that an
    /// interrupted run has already copied, by their row numbers.
    ///
    /// - Throws: if the database has data that no transfer wrote, or belongs to the transfer of another source.
    func begin(_ source: [UInt8]) async throws -> [Int64: TransferredDriver]
    /// Writes the part. If the next part has further events of this part's last driver, the transaction stays open
    /// until all events of this driver are written.
    func write(_ part: TransferPart) async throws
    /// Removes all rows of these drivers, who no longer exist in the source.
    func remove(_ drivers: [Int64]) async throws
    /// Updates the statistics of PostgreSQL's query planner.
    func analyze() async throws
    /// Begins the last transaction. Returns the columns of the shared tables.
    func beginLastTransaction() async throws -> [String: [String]]
    func write(_ rows: TransferRows) async throws
    /// Ends the transfer. From then on, servers may start on the target.
    func commitLastTransaction() async throws
}
