// The part of a driver's export that concerns events. Each store has its own tables of events, so each store implements
// this part. AccountExport.swift writes the rest of the document.

package import Engine
package import JourneyModel

package protocol EventExport: Sendable {
    /// Reads the driver's events in one snapshot, never in the middle of a refold.
    func readEvents<Value: Sendable>(
        of driver: DriverID, _ value: @escaping @Sendable (any SQLTransaction) throws -> Value
    ) async throws(StoreFailure) -> Value

    /// Returns the driver's stored journey. If nothing is stored, returns the journey of a new driver.
    func exportedJourney(of driver: DriverID, _ db: any SQLTransaction) throws -> Journey

    /// The list `sessions`. Each session is an object with the members session_id, opened_at, registered_at,
    /// charger_id, merchant_id, state and ended_by.
    var exportedSessions: ExportList { get }

    /// The list `events`. PostgreSQL's store must write the members of an event in the same order as SQLite's store.
    var exportedEvents: ExportList { get }
}

/// One list of the document: the rows of a table that belong to one driver.
package struct ExportList: Sendable {
    package var name: String
    /// Returns the keys of at most `limit` rows of the driver after the key `after`, in ascending order. `after` is nil
    /// for the first rows.
    package var keys:
        @Sendable (_ driver: Int64, _ after: SQLValue?, _ limit: Int, _ db: any SQLTransaction) throws -> [SQLValue]
    /// Writes a row as a JSON object. Writes nothing if the row was deleted since its key was read, even if another
    /// driver's row has the key now. `now` is the time of the export; deadlines before it have passed.
    package var write:
        @Sendable (_ key: SQLValue, _ driver: Int64, _ now: Moment, _ json: inout JSONWriter, _ db: any SQLTransaction)
            throws -> Void

    package init(
        name: String,
        keys: @escaping @Sendable (Int64, SQLValue?, Int, any SQLTransaction) throws -> [SQLValue],
        write: @escaping @Sendable (SQLValue, Int64, Moment, inout JSONWriter, any SQLTransaction) throws -> Void
    ) {
        self.name = name
        self.keys = keys
        self.write = write
    }
}

/// A database with everything that `StoredAccounts` needs.
package typealias AccountDatabase = SQLDatabase & EventErasure & EventExport
