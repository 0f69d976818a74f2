// Reads the table `erased_driver`, which stores a keyed hash of each deleted driver's id. The writer reads this table
// before it creates a driver.

import Identity
import JourneyModel

final class ErasedDrivers {
    private let digests: KeyedHashes
    private let find: PreparedStatement

    init(_ digests: KeyedHashes, on connection: OpaquePointer) throws(SQLiteError) {
        self.digests = digests
        find = try PreparedStatement(
            "SELECT erased_at_ms FROM erased_driver WHERE driver_digest = ?1", on: connection)
    }

    /// Returns whether the driver was deleted so recently that a request from before the deletion may still be in
    /// progress.
    func isSettling(_ driver: DriverID, at now: Moment) throws(SQLiteError) -> Bool {
        let erasedAt = try find.first { (bindings) throws(SQLiteError) in
            try bindings.set(1, blob: digests.driver(driver))
        } read: { row in
            Moment(millisecondsSinceEpoch: row.integer(0))
        }
        return erasedAt.map { AccountRules.isSettling(erasedAt: $0, at: now) } ?? false
    }
}
