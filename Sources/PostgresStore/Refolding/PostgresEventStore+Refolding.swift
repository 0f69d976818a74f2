// `JourneyRefolder` on PostgreSQL. Each driver is refolded in a batch of its own, in one transaction, so no reader sees
// a half-finished refold. For a correction, the batch reads the driver's events only from the first corrected event on.

package import Engine
import JourneyModel
import Postgres

extension PostgresEventStore: JourneyRefolder {
    /// The time limit in seconds of the search for the next driver. The search may read all events of very many
    /// drivers.
    static let searchSeconds = 600

    package func refold(_ request: RefoldRequest) async throws(StoreFailure) -> RefoldPart {
        if let correction = request.correction { return try await correct(correction, request) }
        let found = try await readLong(try await query(request), seconds: Self.searchSeconds)
        guard let row = found.rows.first else { return RefoldPart(next: nil, counts: RefoldCounts()) }
        let (number, driver) = try decoded { () throws(PostgresError) in
            (try row.int8(0), DriverID(try row.text(1)))
        }
        switch await refold(driver, DriverRefold(now: request.now)) {
        case .success(let counts): return RefoldPart(next: number, counts: counts)
        case .failure(let failure): return RefoldPart(next: number, counts: RefoldCounts(), failure: failure)
        }
    }

    /// Returns the query for the next driver to be refolded.
    private func query(_ request: RefoldRequest) async throws(StoreFailure) -> PostgresQuery {
        let position: [PostgresValue] = [.int8(Fold.rulesVersion), .int8(request.after)]
        if request.urgentOnly {
            let now = request.now?.millisecondsSinceEpoch ?? .max
            return PostgresQuery(RefoldStatements.nextUrgent, position + [.int8(now)])
        }
        let since: PostgresValue = request.since.map { .int8($0.millisecondsSinceEpoch) } ?? .null
        let next = try await shards().areDistributed ? RefoldStatements.nextOfShards : RefoldStatements.next
        return PostgresQuery(next, position + [since])
    }
}

private enum RefoldStatements {
    /// The next driver to be refolded. Even with many drivers, the statement needs only one index lookup for each older
    /// version of the rules.
    ///
    /// A driver with an unfinished deletion is left out. Its events have old and new ids, and a refold would mix them.
    ///
    /// Parameters: the version of the fold's rules, the number after which to begin, a receive time or NULL. With a
    /// receive time, the statement finds only drivers with an event received at that time or later.
    static let next = PostgresStatement(
        "refold_next",
        """
        SELECT found.number, found.driver_id FROM generate_series(0, $1::int8 - 1) older(rules), LATERAL (
            SELECT driver.number, driver.driver_id FROM driver
            WHERE driver.rules = older.rules AND driver.number > $2::int8 AND \(ErasureProgress.isNotErasing("driver"))
                AND ($3::int8 IS NULL OR EXISTS (SELECT 1 FROM event
                    WHERE event.driver = driver.id AND event.received_at_ms >= $3::int8))
            ORDER BY driver.rules, driver.number LIMIT 1) found
        ORDER BY found.number LIMIT 1
        """)

    /// `next` on Citus, which cannot look up each version separately.
    static let nextOfShards = PostgresStatement(
        "refold_next_of_shards",
        """
        SELECT driver.number, driver.driver_id FROM driver
        WHERE driver.rules < $1::int8 AND driver.number > $2::int8 AND \(ErasureProgress.isNotErasing("driver"))
            AND ($3::int8 IS NULL OR EXISTS (SELECT 1 FROM event
                WHERE event.lane = driver.lane AND event.driver = driver.id AND event.received_at_ms >= $3::int8))
        ORDER BY driver.number LIMIT 1
        """)

    /// The next driver to be refolded that has a passed deadline.
    ///
    /// Parameters: the version of the fold's rules, the number after which to begin, the current time.
    static let nextUrgent = PostgresStatement(
        "refold_next_urgent",
        """
        SELECT driver.number, driver.driver_id FROM driver
        WHERE driver.next_deadline_ms < $3::int8 AND driver.rules < $1::int8 AND driver.number > $2::int8
            AND \(ErasureProgress.isNotErasing("driver"))
        ORDER BY driver.number LIMIT 1
        """)
}
