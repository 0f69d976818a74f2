// The lists of a driver's export that are read from the tables of events. Each store has its own tables of events, so
// each store implements these lists. AccountExport.swift writes the rest of the export.

package import Engine
package import JourneyModel

package protocol EventExport: Sendable {
    /// Runs `value` in one snapshot of the database. The snapshot never shows a refold that is not complete.
    func readEvents<Value: Sendable>(
        of driver: DriverID, _ value: @escaping @Sendable (any SQLTransaction) throws -> Value
    ) async throws(StoreFailure) -> Value

    /// Returns the driver's stored journey. If nothing is stored, returns the journey of a new driver.
    func exportedJourney(of driver: DriverID, _ db: any SQLTransaction) throws -> Journey

    /// The list `sessions`. Each session is an object with the members session_id, opened_at, registered_at,
    /// charger_id, merchant_id, state and ended_by.
    var exportedSessions: ExportList { get }

    /// The list `events`. Both stores must write the members of an event in the same order.
    var exportedEvents: ExportList { get }
}

/// One list of a driver's export: the rows of a table that belong to the driver.
package struct ExportList: Sendable {
    package var name: String
    /// Returns the keys of the driver's next rows in ascending order, at most `limit`. The next rows are those whose
    /// keys follow `after`. If `after` is nil, they begin with the first row.
    package var keys:
        @Sendable (_ driver: Int64, _ after: SQLValue?, _ limit: Int, _ db: any SQLTransaction) throws -> [SQLValue]
    /// Writes rows as JSON objects, in the order of `keys`, until the document has `bytesMin` bytes. Writes nothing for
    /// a row that was deleted since its key was read, even if another driver's row has the key now.
    ///
    /// - Parameters:
    ///   - keys: at least one key.
    ///   - now: the time of the export. Deadlines before it have passed.
    ///
    /// Returns the number of keys whose rows are written or deleted.
    package var write:
        @Sendable (
            _ keys: ArraySlice<SQLValue>, _ driver: Int64, _ now: Moment, _ bytesMin: Int, _ json: inout JSONWriter,
            _ db: any SQLTransaction
        ) throws -> Int

    package init(
        name: String,
        keys: @escaping @Sendable (Int64, SQLValue?, Int, any SQLTransaction) throws -> [SQLValue],
        write: @escaping @Sendable (ArraySlice<SQLValue>, Int64, Moment, Int, inout JSONWriter, any SQLTransaction)
            throws -> Int
    ) {
        self.name = name
        self.keys = keys
        self.write = write
    }

    /// Creates a list whose rows are written one by one. `writeRow` writes the row with this key.
    package init(
        name: String,
        keys: @escaping @Sendable (Int64, SQLValue?, Int, any SQLTransaction) throws -> [SQLValue],
        writeRow: @escaping @Sendable (SQLValue, Int64, Moment, inout JSONWriter, any SQLTransaction) throws -> Void
    ) {
        self.init(name: name, keys: keys) { keys, driver, now, bytesMin, json, db in
            for (index, key) in zip(keys.indices, keys) {
                try writeRow(key, driver, now, &json, db)
                if json.bytes.count >= bytesMin { return index - keys.startIndex + 1 }
            }
            return keys.count
        }
    }
}

/// A database with everything that `StoredAccounts` needs.
package typealias AccountDatabase = SQLDatabase & EventErasure & EventExport
