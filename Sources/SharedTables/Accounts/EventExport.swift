// The lists of sessions and events in a driver's export. Each store implements them for its own tables.
// AccountExport.swift writes the rest of the export.

package import Engine
package import JourneyModel

package protocol EventExport: Sendable {
    /// Runs `value` in one snapshot of the database. The snapshot never shows an incomplete refold.
    func readEvents<Value: Sendable>(
        of driver: DriverID, _ value: @escaping @Sendable (any SQLTransaction) throws -> Value
    ) async throws(StoreFailure) -> Value

    /// Returns the driver's stored journey. If no journey is stored, returns the journey of a new driver.
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
    /// Returns the keys of at most `limit` rows of the driver, in ascending order. Begins after the key `after`, or
    /// with the first row if `after` is nil.
    package var keys:
        @Sendable (_ driver: Int64, _ after: SQLValue?, _ limit: Int, _ db: any SQLTransaction) throws -> [SQLValue]
    /// Writes rows as JSON objects, in the order of `keys`, until `json` has `bytesMin` bytes. A row may have been
    /// deleted since its key was read. Then nothing is written, even if another driver's row now has the key.
    ///
    /// Returns the number of keys that were handled. A key without a row also counts.
    ///
    /// - Parameter keys: at least one key.
    package var write:
        @Sendable (
            _ keys: ArraySlice<SQLValue>, _ driver: Int64, _ now: Moment, _ bytesMin: Int, _ json: inout JSONWriter,
            _ db: any SQLTransaction
        ) throws -> Int

    package init(
        name: String,
        keys: @escaping @Sendable (Int64, SQLValue?, Int, any SQLTransaction) throws -> [SQLValue],
        write:
            @escaping @Sendable (
                ArraySlice<SQLValue>, Int64, Moment, Int, inout JSONWriter, any SQLTransaction
            ) throws -> Int
    ) {
        self.name = name
        self.keys = keys
        self.write = write
    }

    /// Creates a list from a function that writes a single row.
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
