// The part of a driver's deletion that concerns events. Each store has its own tables of events, so each store
// implements this part. Erasing.swift deletes the rest.

package import Engine
package import JourneyModel

package protocol EventErasure: Sendable {
    /// Called before a transaction that may begin a deletion, so that SQLite's store can shorten the work at the end of
    /// the deletion. PostgreSQL's store does nothing.
    func prepareErasure() async

    /// Called in the transaction that deletes a driver who has no row, because another transaction may add the driver
    /// meanwhile, with an event. Makes the second of the two transactions wait for the first and start again, so that
    /// it finds the row or the tombstone.
    func collideWithAdding(_ driver: DriverID, at now: Moment, _ db: any SQLTransaction) throws

    /// Renames the driver to `pseudonym`, so that no request finds the driver any more, and stores that the deletion
    /// has begun. From then on, an event that arrives for the old id does not change this row.
    ///
    /// - Parameters:
    ///   - driver: the row number in `driver`.
    ///   - digest: the keyed hash of the driver's id.
    ///   - pseudonym: a random name. The new ids of the driver's sessions and events also begin with it.
    func beginErasure(of driver: Int64, digest: [UInt8], pseudonym: String, _ db: any SQLTransaction) throws

    /// Deletes the data about the phone number with this keyed hash from tables that only this store has.
    func eraseOlderCodes(ofPhone digest: [UInt8], _ db: any SQLTransaction) throws

    /// Rewrites the first rows of the driver, as the last step of the transaction that begins the deletion. If the
    /// driver has few rows, the deletion is then complete. Returns the effects on SQLite's WAL and on the writer's
    /// cache of drivers.
    func eraseFirstRows(of driver: Int64, _ db: any SQLTransaction) throws -> ChangeEffects

    /// Returns the row numbers of the drivers whose deletion is not complete, in ascending order. If `digest` is not
    /// nil, returns only the drivers with this keyed hash.
    func unfinishedErasures(_ digest: [UInt8]?, _ db: any SQLTransaction) throws -> [Int64]

    /// Rewrites the driver's remaining rows: events, sessions, the texts that SQLite's store shares between drivers,
    /// and `sid`, `address` and `request_id` in `audit` and `revocation`.
    ///
    /// Works in pieces, each a transaction of its own, so that other work can run in between. Another task or process
    /// may work on the same deletion at the same time.
    func completeErasure(of driver: Int64) async throws(StoreFailure)

    /// Waits until SQLite's WAL is truncated, so that the removed bytes are gone from it too. Returns false if this
    /// takes longer than `timeout`. On PostgreSQL, returns true at once, because Dwell cannot truncate PostgreSQL's
    /// WAL.
    func finishRemoval(within timeout: Duration) async -> Bool
}

extension EventErasure {
    package func eraseOlderCodes(ofPhone digest: [UInt8], _ db: any SQLTransaction) throws {}

    /// Does nothing: in a database with one writer, no two transactions write at the same time.
    package func collideWithAdding(_ driver: DriverID, at now: Moment, _ db: any SQLTransaction) throws {}
}

/// Searches a database for data that a deletion has left behind, for `dwell verify-erased`. The search is independent
/// of the code that deletes.
package protocol ErasureSearch: Sendable {
    /// Returns every place that contains an identifier.
    func find(_ identifiers: [String]) async throws -> [ErasureFinding]

    /// Returns the tables and columns that still refer to the driver of this receipt. Returns nil for an unknown
    /// receipt.
    func leftovers(ofReceipt receipt: String) async throws -> [String]?
}

package struct ErasureFinding: Hashable, Sendable {
    /// Index of the identifier in the list of searched identifiers. The identifier itself is not repeated here.
    package var identifier: Int
    /// The place where the identifier was found, for example `account.email` or `dwell.sqlite3-wal, byte 4711`.
    package var location: String

    package init(identifier: Int, location: String) {
        self.identifier = identifier
        self.location = location
    }
}
