// `OperatorReader` on PostgreSQL: counts over many drivers, and any driver's session.

package import Engine
package import JourneyModel
import Logging
import Postgres
import Synchronization

extension PostgresEventStore {
    /// Maximum number of events counted by one query.
    static let talliedEventsMax: Int64 = 500_000

    /// The time limit, in seconds, for counting the drivers. The count reads the rows of all drivers.
    private static let countSeconds = 120

    /// Returns the number of drivers in each state, without the drivers of `dwell simulate`.
    ///
    /// Logs a failure, because the callers continue without the counts. If several calls in a row fail, only the first
    /// failure is logged as a warning. The other failures are logged at the level debug.
    package func driverCounts() async throws(StoreFailure) -> [JourneyState: Int] {
        do throws(StoreFailure) {
            let counts = try await countDrivers()
            hasFailedCount.withLock { $0 = false }
            return counts
        } catch {
            let isFirst = hasFailedCount.withLock { hasFailed in
                defer { hasFailed = true }
                return !hasFailed
            }
            logger.log(
                level: isFirst ? .warning : .debug, "counting the drivers failed", metadata: ["failure": "\(error)"])
            throw error
        }
    }

    private func countDrivers() async throws(StoreFailure) -> [JourneyState: Int] {
        try await inTransaction(seconds: Self.countSeconds) { (connection, deadline) async throws(PostgresError) in
            let found = try await connection.run(
                [
                    PostgresQuery(OperatorStatements.countTimeout, [.text("\(Self.countSeconds)s")]),
                    PostgresQuery(OperatorStatements.driverCounts),
                ], until: deadline)
            var counts: [JourneyState: Int] = [:]
            for row in found[1].rows { counts[try JourneyColumns.state(try row.int2(0))] = Int(try row.int8(1)) }
            return counts
        }
    }

    package func tallies(after id: Int64?, since start: Moment) async throws(StoreFailure) -> EventTallies {
        let begin = try await tallyBegin(after: id, since: start)
        let end = try await settledEnd()
        let found = try await read([
            PostgresQuery(OperatorStatements.newest, [.int8(end)]),
            PostgresQuery(OperatorStatements.tallyCut, [.int8(begin), .int8(Self.talliedEventsMax), .int8(end)]),
        ])
        let (last, cut) = try decoded { () throws(PostgresError) in
            (
                try found[0][0].optionalInt8(0) ?? begin,
                try found[1].rows.first.map { (row) throws(PostgresError) in try row.int8(0) }
            )
        }
        let rows = try await read([
            PostgresQuery(OperatorStatements.tallies, [.int8(max(begin, cut ?? begin)), .int8(last)])
        ])
        return try decoded { () throws(PostgresError) in
            var tallies: [EventTally] = []
            for row in rows[0].rows {
                let name = try Self.name(row, 1)
                tallies.append(
                    EventTally(
                        minute: try row.int8(0),
                        name: EventName.listed.contains(name) ? name.canonical : "diagnostic",
                        verdict: try Verdict(row, at: 3), state: try JourneyColumns.state(try row.int2(6)),
                        count: Int(try row.int8(7))))
            }
            return EventTallies(last: last, tallies: tallies, isWhole: cut == nil)
        }
    }

    /// Returns the position after which events are counted. If `id` is nil, counting begins with the first event
    /// received at `start` or later.
    private func tallyBegin(after id: Int64?, since start: Moment) async throws(StoreFailure) -> Int64 {
        if let id { return id }
        return try await firstEvent(receivedFrom: start) - 1
    }

    func firstEvent(receivedFrom moment: Moment) async throws(StoreFailure) -> Int64 {
        if try await shards().areDistributed { return try await searchFirstEvent(receivedFrom: moment) }
        let found = try await read([
            PostgresQuery(EventSearch.firstReceived, [.int8(moment.millisecondsSinceEpoch)])
        ])
        return try decoded { () throws(PostgresError) in try found[0][0].int8(0) }
    }

    private func searchFirstEvent(receivedFrom moment: Moment) async throws(StoreFailure) -> Int64 {
        let bounds = try await read([PostgresQuery(EventSearch.bounds)])
        var (low, high) = try decoded { () throws(PostgresError) in
            (try bounds[0][0].optionalInt8(0) ?? 0, (try bounds[0][0].optionalInt8(1) ?? 0) + 1)
        }
        while low < high {
            let middle = low + (high - low) / 2
            let found = try await read([PostgresQuery(EventSearch.probe, [.int8(middle)])])
            let probe = try decoded { () throws(PostgresError) in
                try found[0].rows.first.map { (row) throws(PostgresError) in (try row.int8(0), try row.moment(1)) }
            }
            if let probe, probe.1 < moment { low = probe.0 + 1 } else { high = middle }
        }
        return low
    }

    /// Returns the size of this database in bytes. The size includes the indexes, but not the server's WAL.
    package func storageBytes() async throws(StoreFailure) -> Int64 {
        let found = try await read([PostgresQuery(OperatorStatements.storage)])
        return try decoded { () throws(PostgresError) in try found[0][0].int8(0) }
    }

    package func settingsVersions(limit: Int) async throws(StoreFailure) -> [SettingsVersionUse] {
        let found = try await read([PostgresQuery(OperatorStatements.settingsVersions, [.int8(Int64(limit))])])
        return try decoded { () throws(PostgresError) in
            var uses: [SettingsVersionUse] = []
            for row in found[0].rows {
                uses.append(
                    SettingsVersionUse(
                        version: try row.text(0), settings: try row.text(1), firstUsedAt: try row.moment(2)))
            }
            return uses
        }
    }

    package func operatorTimeline(
        of sessionID: String, limit: Int
    ) async throws(StoreFailure) -> OperatorTimeline? {
        let found = try await read([
            PostgresQuery(OperatorStatements.sessionDriver, [.text(sessionID), .int2(Lane.of(sessionID))])
        ])
        let driver = try decoded { () throws(PostgresError) in
            try found[0].rows.first.map { (row) throws(PostgresError) in DriverID(try row.text(0)) }
        }
        guard let driver else { return nil }
        let outcome = try await timeline(of: sessionID, of: driver, limit: limit, after: nil)
        guard case .found(let timeline) = outcome else { return nil }
        return OperatorTimeline(driver: driver, timeline: timeline)
    }

    /// Returns the number of drivers whose deadline has passed, but whose expiry (the event of this deadline) is not
    /// stored yet.
    package func dueDriverCount(at now: Moment) async throws(StoreFailure) -> Int {
        let found = try await read([
            PostgresQuery(OperatorStatements.dueDrivers, [.int8(now.millisecondsSinceEpoch)])
        ])
        return try decoded { () throws(PostgresError) in Int(try found[0][0].int8(0)) }
    }

    /// Returns the number of events of all drivers.
    package func eventCount() async throws(StoreFailure) -> Int {
        let found = try await read([PostgresQuery(OperatorStatements.eventCount)])
        return try decoded { () throws(PostgresError) in Int(try found[0][0].int8(0)) }
    }
}

private enum OperatorStatements {
    /// Parameters: the time limit with its unit, as text.
    static let countTimeout = PostgresStatement(
        "driver_counts_timeout", "SELECT set_config('statement_timeout', $1, true)")

    static let driverCounts = PostgresStatement(
        "driver_counts",
        "SELECT state, count(*) FROM driver WHERE NOT \(SimulatedDrivers.condition) GROUP BY state")

    /// The highest position; NULL if there is no event. Parameters: `settledEnd`.
    static let newest = PostgresStatement(
        "newest_event", "SELECT max(position) FROM event WHERE position < \(EventPosition.end(settled: "$1"))")

    /// Returns the position after which exactly the maximum number of events follow. If the number of events is not
    /// above the maximum, returns no row.
    ///
    /// Parameters: the position after which counting would begin, the maximum, `settledEnd`.
    static let tallyCut = PostgresStatement(
        "tally_cut",
        """
        SELECT position FROM event WHERE position > $1::int8 AND position < \(EventPosition.end(settled: "$3"))
        ORDER BY position DESC OFFSET $2::int8 LIMIT 1
        """)

    /// Parameters: the position after which to begin, the last position.
    static let tallies = PostgresStatement(
        "tallies",
        """
        SELECT received_at_ms / 60000 AS minute, name, event.session_id IS NOT NULL AS has_session, transition, reason,
            implied, after_state, count(*)
        FROM event WHERE position > $1::int8 AND position <= $2::int8
            AND event.driver NOT IN (SELECT driver.id FROM driver WHERE \(SimulatedDrivers.condition) OFFSET 0)
        GROUP BY minute, name, has_session, transition, reason, implied, after_state
        """)

    static let storage = PostgresStatement("storage_bytes", "SELECT pg_database_size(current_database())")

    /// Parameters: the number of rows.
    static let settingsVersions = PostgresStatement(
        "settings_versions",
        """
        SELECT version, settings, first_used_at_ms FROM settings_version
        ORDER BY first_used_at_ms DESC, version DESC LIMIT $1::int8
        """)

    /// Parameters: a session's id, its lane.
    static let sessionDriver = PostgresStatement(
        "session_driver",
        """
        WITH owned AS MATERIALIZED (SELECT owner FROM session_owner WHERE session_id = $1::text AND lane = $2::int2)
        SELECT driver.driver_id FROM owned JOIN driver ON driver.id = owned.owner
        """)

    /// Parameters: the current time.
    static let dueDrivers = PostgresStatement(
        "due_drivers", "SELECT count(*) FROM driver WHERE next_deadline_ms < $1::int8")

    static let eventCount = PostgresStatement("event_count", "SELECT count(*) FROM event")
}
