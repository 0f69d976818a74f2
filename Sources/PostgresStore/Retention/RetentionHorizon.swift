// One step of retention. In one transaction, it raises the floors of drivers and then deletes events.
//
// A driver's floor is a corrected time, in milliseconds. The fold begins at the floor, with the stored journey that
// results from all earlier events (`journey_base`). Deleting those earlier events therefore cannot change later
// results.
//
// Raising a floor also raises the driver's version. So a batch that has read the old floor must read again.

import Engine
import JourneyModel
import Postgres
import Push
import Sockets

enum RetentionHorizon {
    /// A driver whose floor is raised.
    private struct Raise {
        var driver: Int64
        var old: Moment?
        var floor: Moment
        var losesHead: Bool
    }

    /// Raises the floor of each driver with events in `events` to the millisecond after the last of them, but not above
    /// the driver's next deadline. A higher floor stays. Then deletes the given events below the floors, and returns
    /// their number.
    ///
    /// Leaves out drivers whose events are not refolded by the current rules yet, and drivers whose deletion is under
    /// way.
    static func delete(
        _ events: [AgedEvent], _ shards: Shards, on connection: PostgresConnection, until deadline: Deadline
    ) async throws(PostgresError) -> Int {
        var positions: [Int64?] = []
        for group in shards.groups(events, lane: { Lane.of(driver: $0.driver) }) {
            positions += try await delete(group.rows, group.parameters, on: connection, until: deadline)
        }
        if positions.isEmpty { return 0 }
        _ = try await connection.run([PostgresQuery(countLost, [.int8s(positions)])], until: deadline)
        return positions.count
    }

    /// Raises the floors and deletes the events of one group (`Shards.groups`): the events of one shard on Citus, or
    /// all events on a single PostgreSQL server. Returns the positions of the deleted events.
    private static func delete(
        _ events: [AgedEvent], _ lanes: [PostgresValue], on connection: PostgresConnection, until deadline: Deadline
    ) async throws(PostgresError) -> [Int64?] {
        var highest: [Int64: Moment] = [:]
        for event in events {
            highest[event.driver] = max(highest[event.driver] ?? event.correctedAt, event.correctedAt)
        }
        let asked = PostgresValue.int8s(highest.keys.map { Optional($0) })
        let locked = try await connection.run(
            [
                PostgresQuery(lock, lanes + [asked, .int8(Fold.rulesVersion)]),
                PostgresQuery(DriverStatements.erasing, lanes + [asked]),
            ], until: deadline)
        // Leaves out drivers whose deletion is under way. The journey at the new floor is copied from an event, and
        // that event may still have the old ids.
        for row in locked[1].rows { highest[try row.int8(0)] = nil }
        var floors: [Int64: Moment] = [:]
        var raises: [Raise] = []
        for row in locked[0].rows {
            let driver = try row.int8(0)
            guard let last = highest[driver] else { continue }
            let old = try row.optionalMoment(1)
            // The floor must not rise above the driver's next deadline, because the expiry (the event of this deadline)
            // is not stored yet.
            var floor = last.advanced(byMilliseconds: 1)
            if let nextDeadline = try row.optionalMoment(2) { floor = min(floor, nextDeadline) }
            if let old, old >= floor {
                floors[driver] = old
                continue
            }
            floors[driver] = floor
            // The head is the driver's last event in the fold's order. If it is below the floor, the driver no longer
            // has a head.
            let losesHead = try row.optionalMoment(3).map { $0 < floor } ?? false
            raises.append(Raise(driver: driver, old: old, floor: floor, losesHead: losesHead))
        }
        let gone = events.filter { event in floors[event.driver].map { event.correctedAt < $0 } ?? false }
        if gone.isEmpty { return [] }
        let drivers = PostgresValue.int8s(raises.map { $0.driver })
        let to = PostgresValue.int8s(raises.map { $0.floor.millisecondsSinceEpoch })
        let bases = lanes + [drivers, .int8s(raises.map { $0.old?.millisecondsSinceEpoch ?? .min }), to]
        let results = try await connection.run(
            [
                PostgresQuery(keepIdleBases, bases), PostgresQuery(keepBases, bases),
                PostgresQuery(raise, lanes + [drivers, to, .bools(raises.map { $0.losesHead })]),
                PostgresQuery(deleteEvents, lanes + [.int8s(gone.map { $0.driver }), .int8s(gone.map { $0.id })]),
            ], until: deadline)
        var positions: [Int64?] = []
        for row in results[3].rows { positions.append(try row.int8(0)) }
        return positions
    }

    // MARK: Statements

    /// Locks drivers in the same order as batches do. Leaves out drivers that must first be refolded by the current
    /// rules.
    ///
    /// Parameters: `LaneParameters`, the `driver.id` of drivers, the version of the fold's rules.
    private static let lock = PostgresStatement(
        "retention_locked",
        """
        SELECT id, floor_at_ms, next_deadline_ms, head_corrected_at_ms FROM driver
        WHERE id = ANY ($3::int8[]) AND rules = $4::int8 AND \(LaneParameters.condition("driver"))
        ORDER BY id FOR NO KEY UPDATE
        """)

    /// The table `given`, from which `keepIdleBases` and `keepBases` take drivers, each with the old and the new floor.
    ///
    /// Parameters: `LaneParameters`, the `driver.id` of drivers, old floors, new floors.
    private static let given = """
        unnest($3::int8[], $4::int8[], $5::int8[]) given(driver, old_ms, new_ms)
        JOIN driver ON driver.id = given.driver AND \(LaneParameters.condition("driver"))
        """

    /// If a driver has no event between the old and the new floor, stores IDLE as the journey at the new floor. If a
    /// journey at the old floor is stored, keeps it, because no event has changed it.
    ///
    /// Parameters: those of `given`.
    private static let keepIdleBases = PostgresStatement(
        "retention_idle_bases",
        """
        INSERT INTO journey_base (lane, driver, state) SELECT driver.lane, driver.id, \(JourneyState.idle.code)::int2
        FROM \(given)
        WHERE NOT EXISTS (SELECT 1 FROM event
            WHERE event.driver = given.driver AND \(LaneParameters.condition("event"))
                AND event.corrected_at_ms >= given.old_ms AND event.corrected_at_ms < given.new_ms)
        ON CONFLICT DO NOTHING
        """)

    /// Stores the journey at each new floor: the journey after the last event between the old and the new floor.
    /// Without such an event, changes nothing.
    ///
    /// Parameters: those of `given`.
    private static let keepBases: PostgresStatement = {
        let columns = JourneyColumns.head.split(separator: ",").map { $0.trimmingWhitespace }
        let update = columns.map { "\($0) = excluded.\($0)" }.joined(separator: ", ")
        return PostgresStatement(
            "retention_bases",
            """
            INSERT INTO journey_base (lane, driver, \(JourneyColumns.head))
            SELECT driver.lane, driver.id, \(JourneyColumns.after) FROM \(given), LATERAL (
                SELECT event.corrected_at_ms FROM event
                WHERE event.driver = given.driver AND \(LaneParameters.condition("event"))
                    AND event.corrected_at_ms >= given.old_ms AND event.corrected_at_ms < given.new_ms
                ORDER BY event.corrected_at_ms DESC LIMIT 1) latest, LATERAL (
                SELECT * FROM event
                WHERE event.driver = given.driver AND \(LaneParameters.condition("event"))
                    AND event.corrected_at_ms = latest.corrected_at_ms
                ORDER BY \(EventStatements.descending) LIMIT 1) last
            ON CONFLICT (driver, lane) DO UPDATE SET \(update)
            """)
    }()

    /// Parameters: `LaneParameters`, the `driver.id` of drivers, new floors, whether the driver's last event is below
    /// the new floor.
    private static let raise = PostgresStatement(
        "retention_floors",
        """
        UPDATE driver SET version = driver.version + 1, floor_at_ms = given.floor_ms,
            head_seq = CASE WHEN given.loses_head THEN NULL ELSE driver.head_seq END,
            head_corrected_at_ms = CASE WHEN given.loses_head THEN NULL ELSE driver.head_corrected_at_ms END
        FROM unnest($3::int8[], $4::int8[], $5::bool[]) given(driver, floor_ms, loses_head)
        WHERE driver.id = given.driver AND \(LaneParameters.condition("driver"))
        """)

    /// Parameters: `LaneParameters`, the `driver.id` of drivers, positions. Returns the positions of the deleted
    /// events.
    private static let deleteEvents = PostgresStatement(
        "retention_events_deleted",
        """
        WITH gone AS (
            DELETE FROM event USING unnest($3::int8[], $4::int8[]) given(driver, position)
            WHERE event.position = given.position AND event.driver = given.driver
                AND \(LaneParameters.condition("event")) RETURNING event.position)
        SELECT position FROM gone
        """)

    /// Raises each feed consumer's count of lost events by the number of deleted events that the consumer has not read.
    /// Parameters: the positions of the deleted events.
    private static let countLost = PostgresStatement(
        "retention_lost",
        """
        UPDATE feed_consumer SET lost_count = lost_count + unread.count
        FROM (SELECT name, count(*) AS count FROM feed_consumer
            JOIN unnest($1::int8[]) gone(position) ON gone.position > last_event GROUP BY name) unread
        WHERE feed_consumer.name = unread.name AND feed_consumer.name <> '\(pushConsumer)'
        """)

    /// The consumer for push notifications. It only looks for recent changes of journeys, so deleted events do not
    /// count as lost for it.
    private static let pushConsumer = PushConsumer.consumer
}

extension Substring {
    fileprivate var trimmingWhitespace: String {
        String(drop { $0.isWhitespace }.reversed().drop { $0.isWhitespace }.reversed())
    }
}
