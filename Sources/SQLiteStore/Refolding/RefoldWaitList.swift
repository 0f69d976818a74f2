// Finds the drivers that must be refolded. These are the drivers folded by other rules than this release's, and the
// drivers whose refold is not complete.

import Engine
import JourneyModel

final class RefoldWaitList {
    private let find: PreparedStatement
    private let findUnfinished: PreparedStatement

    init(on connection: OpaquePointer) throws(SQLiteError) {
        find = try PreparedStatement(
            """
            SELECT id, driver_id FROM driver WHERE id > ?1 AND rules <> ?2
            AND (?3 IS NULL OR EXISTS (SELECT 1 FROM event WHERE driver = driver.id AND received_at_ms >= ?3))
            ORDER BY id LIMIT 1
            """, on: connection)
        findUnfinished = try PreparedStatement(
            """
            SELECT driver.id, driver_id FROM refold CROSS JOIN driver ON driver.id = refold.driver
            WHERE refold.driver > ?1 ORDER BY refold.driver LIMIT 1
            """, on: connection)
    }

    /// Returns the next driver, in the order of row numbers. Must be called after `DriverCache.writeChanged`, because
    /// the query reads the database and not the cache.
    func next(_ request: RefoldRequest) throws(SQLiteError) -> (number: Int64, driver: DriverID)? {
        try (request.resumesOnly ? findUnfinished : find).first { (bindings) throws(SQLiteError) in
            try bindings.set(1, request.after)
            guard !request.resumesOnly else { return }
            try bindings.set(2, Fold.rulesVersion)
            try bindings.set(3, request.since?.millisecondsSinceEpoch)
        } read: { row in
            (row.integer(0), DriverID(row.text(1)))
        }
    }
}
