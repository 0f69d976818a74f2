// The part of a driver's deletion that concerns events. Each store implements it for its own tables of events.
// Erasing.swift deletes the rest.

package import Engine
package import JourneyModel

package protocol EventErasure: Sendable {
    /// Called before a transaction that may begin a deletion. SQLite's store copies most of the WAL into the database
    /// file here. Truncating the WAL after the deletion then takes less time.
    func prepareErasure() async

    /// Called in the transaction that deletes a driver who has no row. At the same time, another transaction may add
    /// this driver for an event. Makes the two transactions conflict, so that one of them runs again, and finds the row
    /// or the tombstone.
    func collideWithAdding(_ driver: DriverID, at now: Moment, _ db: any SQLTransaction) throws

    /// Stores that the deletion has begun. Renames the driver to `pseudonym`, so that no request finds the driver any
    /// more. From then on, an event for the old id does not change this row.
    ///
    /// - Parameters:
    ///   - driver: the row number in `driver`.
    ///   - digest: the keyed hash of the driver's id.
    ///   - pseudonym: a random name. The driver's sessions and events get new ids that begin with it.
    func beginErasure(of driver: Int64, digest: [UInt8], pseudonym: String, _ db: any SQLTransaction) throws

    /// Deletes the data about a phone number from tables that only this store has. `digest` is the keyed hash of the
    /// number.
    func eraseOlderCodes(ofPhone digest: [UInt8], _ db: any SQLTransaction) throws

    /// Rewrites the driver's first rows, as the last step of the transaction that begins the deletion. This completes
    /// the deletion if the driver has few rows.
    func eraseFirstRows(of driver: Int64, _ db: any SQLTransaction) throws -> ChangeEffects

    /// Returns the row numbers of the drivers whose deletion is not complete, in ascending order. `digest` restricts
    /// the result to the driver with this keyed hash; nil means all drivers.
    func unfinishedErasures(_ digest: [UInt8]?, _ db: any SQLTransaction) throws -> [Int64]

    /// Completes a deletion. Rewrites the driver's remaining events and sessions, and the texts that SQLite's store
    /// shares between drivers. Also clears `sid`, `address` and `request_id` in `audit`, and deletes the rows of
    /// `revocation` with these `sid`s.
    ///
    /// Runs as several transactions, so that other work can run between them. Another task or process may work on the
    /// same deletion at the same time.
    func completeErasure(of driver: Int64) async throws(StoreFailure)

    /// Waits until SQLite's WAL is truncated and no longer contains the removed bytes. Returns false if this takes
    /// longer than `timeout`. On PostgreSQL, returns true at once, because Dwell cannot truncate PostgreSQL's WAL.
    func finishRemoval(within timeout: Duration) async -> Bool
}

extension EventErasure {
    package func eraseOlderCodes(ofPhone digest: [UInt8], _ db: any SQLTransaction) throws {}

    /// Does nothing: SQLite never runs two writing transactions at the same time.
    package func collideWithAdding(_ driver: DriverID, at now: Moment, _ db: any SQLTransaction) throws {}
}

/// Searches a database for data that a deletion has left behind, for `dwell verify-erased`. The search does not use the
/// code of the deletion, so that it also finds data that a fault in this code has left behind.
package protocol ErasureSearch: Sendable {
    /// Returns every place that contains an identifier.
    func find(_ identifiers: [String]) async throws -> [ErasureFinding]

    /// Returns the tables and columns that still refer to the driver whose deletion has this receipt. Returns nil for
    /// an unknown receipt.
    func leftovers(ofReceipt receipt: String) async throws -> [String]?
}

package struct ErasureFinding: Hashable, Sendable {
    /// The index of the identifier in the argument of `find`. A finding does not repeat the identifier itself.
    package var identifier: Int
    /// The place of the identifier, for example `account.email` or `dwell.sqlite3-wal, byte 4711`.
    package var location: String

    package init(identifier: Int, location: String) {
        self.identifier = identifier
        self.location = location
    }
}
