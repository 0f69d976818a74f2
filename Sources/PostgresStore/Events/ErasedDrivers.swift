// The tombstones of deleted drivers. A batch looks for a tombstone only when an event or a registration would add a
// driver.

import Engine
import Identity
import JourneyModel
import Postgres

enum ErasedDrivers {
    /// Parameters: keyed hashes of drivers' ids.
    static let find = PostgresStatement(
        "erased_drivers",
        "SELECT driver_digest, erased_at_ms FROM erased_driver WHERE driver_digest = ANY ($1::bytea[])")

    /// Removes rows that this batch has added, if their drivers were deleted after the batch looked for tombstones. The
    /// batch then repeats its work for these drivers.
    ///
    /// The deletion adds and removes the driver's row too (`EventErasure.collideWithAdding`). The batch and the
    /// deletion therefore cannot miss each other:
    ///
    /// - If the batch is first, the deletion waits for it, and then finds the driver's row.
    /// - If the deletion is first, the batch waits in the statement that adds the drivers. `takeBack` runs after that
    ///   statement, so it sees the tombstone.
    ///
    /// Parameters: the `driver.id` of drivers, the keyed hashes of their ids, and a time for each driver. The statement
    /// ignores deletions up to this time.
    private static let takeBack = PostgresStatement(
        "erased_drivers_not_added",
        """
        DELETE FROM driver USING unnest($1::int8[], $2::bytea[], $3::int8[]) given(driver, digest, since_ms),
            erased_driver
        WHERE driver.id = given.driver AND driver.version = 0 AND erased_driver.driver_digest = given.digest
            AND erased_driver.erased_at_ms > given.since_ms
        """)

    typealias Added = (driver: Int64, digest: [UInt8], at: Moment)

    static func takeBackQuery(_ added: [Added]) -> PostgresQuery {
        PostgresQuery(
            takeBack,
            [.int8s(added.map { $0.driver }), .byteas(added.map { $0.digest }), .int8s(added.map(since))])
    }

    /// Like `takeBack`, for Citus, where the tombstones and the drivers lie on different servers. Removes nothing. A
    /// returned row means that a driver whom this batch adds was deleted, and that the whole batch must be run again.
    ///
    /// Parameters: the keyed hashes of drivers' ids, and a time for each driver. The statement ignores deletions up to
    /// this time.
    private static let findRecent = PostgresStatement(
        "erased_drivers_recent",
        """
        SELECT 1 FROM unnest($1::bytea[], $2::int8[]) given(digest, since_ms)
        JOIN erased_driver ON erased_driver.driver_digest = given.digest AND erased_driver.erased_at_ms > given.since_ms
        """)

    static func findRecentQuery(_ added: [Added]) -> PostgresQuery {
        PostgresQuery(findRecent, [.byteas(added.map { $0.digest }), .int8s(added.map(since))])
    }

    private static func since(_ added: Added) -> Int64 {
        added.at.advanced(byMilliseconds: -AccountRules.erasureSettlesMilliseconds).millisecondsSinceEpoch
    }
}
