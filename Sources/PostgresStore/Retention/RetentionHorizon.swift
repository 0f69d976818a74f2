// One step of retention: raises the floors of the drivers, then deletes events, in one transaction.
//
// A floor is a time in a driver's order, in milliseconds. The fold begins at the floor, with the journey that results
// from the events below it (`journey_base`), and never reads those events again. Deleting those events therefore cannot
// change the results of the events at or above the floor. The drivers' versions are raised, so that a batch that has
// read an old floor reads again.

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

    /// Raises the floor of each driver in `events`, then deletes those `events` that are below the new floors. Returns
    /// the number of deleted events.
    static func delete(
        _ events: [AgedEvent], on connection: PostgresConnection, until deadline: Deadline
    ) async throws(PostgresError) -> Int {
        var highest: [Int64: Moment] = [:]
        for event in events {
            highest[event.driver] = max(highest[event.driver] ?? event.correctedAt, event.correctedAt)
        }
        let locked = try await connection.run(
            [PostgresQuery(lock, [.int8s(highest.keys.map { Optional($0) }), .int8(Fold.rulesVersion)])],
            until: deadline)
        var floors: [Int64: Moment] = [:]
        var raises: [Raise] = []
        for row in locked[0].rows {
            let driver = try row.int8(0)
            guard let last = highest[driver] else { continue }
            let old = try row.optionalMoment(1)
            // A deadline that has passed, and whose expiry is not stored yet, holds the floor below it.
            var floor = last.advanced(byMilliseconds: 1)
            if let nextDeadline = try row.optionalMoment(2) { floor = min(floor, nextDeadline) }
            if let old, old >= floor {
                floors[driver] = old
                continue
            }
            floors[driver] = floor
            // If the driver's last event is below the floor, the event is deleted, and the driver no longer has a head
            // event.
            let losesHead = try row.optionalMoment(3).map { $0 < floor } ?? false
            raises.append(Raise(driver: driver, old: old, floor: floor, losesHead: losesHead))
        }
        let gone = events.filter { event in floors[event.driver].map { event.correctedAt < $0 } ?? false }
        if gone.isEmpty { return 0 }
        let drivers = PostgresValue.int8s(raises.map { $0.driver })
        let to = PostgresValue.int8s(raises.map { $0.floor.millisecondsSinceEpoch })
        let goneRows: [PostgresValue] = [.int8s(gone.map { $0.driver }), .int8s(gone.map { $0.id })]
        let results = try await connection.run(
            [
                PostgresQuery(
                    keepBases, [drivers, .int8s(raises.map { $0.old?.millisecondsSinceEpoch ?? .min }), to]),
                PostgresQuery(raise, [drivers, to, .bools(raises.map { $0.losesHead })]),
                PostgresQuery(countLost, goneRows),
                PostgresQuery(deleteEvents, goneRows),
            ], until: deadline)
        return Int(try results[3][0].int8(0))
    }

    // MARK: Statements

    /// Locks drivers, in the order in which batches lock them. Leaves out the drivers whose journeys must be folded
    /// again first. Parameters: rows of drivers, the version of the fold's rules.
    private static let lock = PostgresStatement(
        "retention_locked",
        """
        SELECT id, floor_at_ms, next_deadline_ms, head_corrected_at_ms FROM driver
        WHERE id = ANY ($1::int8[]) AND rules = $2::int8 ORDER BY id FOR NO KEY UPDATE
        """)

    /// Stores the journeys at the new floors. This is the journey after the last event between the old floor and the
    /// new one. If there is no such event, the stored journey remains. If no journey is stored either, stores IDLE.
    /// Parameters: rows of drivers, old floors, new floors.
    private static let keepBases: PostgresStatement = {
        let columns = JourneyColumns.head.split(separator: ",").map { $0.trimmingWhitespace }
        let update = columns.map { "\($0) = excluded.\($0)" }.joined(separator: ", ")
        return PostgresStatement(
            "retention_bases",
            """
            WITH given AS (
                SELECT driver.lane, given.* FROM unnest($1::int8[], $2::int8[], $3::int8[]) given(driver, old_ms, new_ms)
                JOIN driver ON driver.id = given.driver),
            idle AS (
                INSERT INTO journey_base (lane, driver, state)
                SELECT given.lane, given.driver, \(JourneyState.idle.code) FROM given
                WHERE NOT EXISTS (SELECT 1 FROM event WHERE event.driver = given.driver
                    AND event.corrected_at_ms >= given.old_ms AND event.corrected_at_ms < given.new_ms)
                ON CONFLICT DO NOTHING)
            INSERT INTO journey_base (lane, driver, \(JourneyColumns.head))
            SELECT given.lane, given.driver, \(JourneyColumns.after) FROM given, LATERAL (
                SELECT event.corrected_at_ms FROM event
                WHERE event.driver = given.driver
                    AND event.corrected_at_ms >= given.old_ms AND event.corrected_at_ms < given.new_ms
                ORDER BY event.corrected_at_ms DESC LIMIT 1) latest, LATERAL (
                SELECT * FROM event
                WHERE event.driver = given.driver AND event.corrected_at_ms = latest.corrected_at_ms
                ORDER BY \(EventReads.descending) LIMIT 1) last
            ON CONFLICT (driver, lane) DO UPDATE SET \(update)
            """)
    }()

    /// Parameters: rows of drivers, new floors, whether the driver's last event goes.
    private static let raise = PostgresStatement(
        "retention_floors",
        """
        UPDATE driver SET version = driver.version + 1, floor_at_ms = given.floor_ms,
            head_seq = CASE WHEN given.loses_head THEN NULL ELSE driver.head_seq END,
            head_corrected_at_ms = CASE WHEN given.loses_head THEN NULL ELSE driver.head_corrected_at_ms END
        FROM unnest($1::int8[], $2::int8[], $3::bool[]) given(driver, floor_ms, loses_head)
        WHERE driver.id = given.driver
        """)

    /// Counts the events as lost for the consumers of the feed that have not read them. Parameters: rows of drivers and
    /// positions of the events to delete.
    private static let countLost = PostgresStatement(
        "retention_lost",
        """
        UPDATE feed_consumer SET lost_count = lost_count + unread.count
        FROM (SELECT name, count(*) AS count FROM feed_consumer
            JOIN (SELECT DISTINCT event.driver, event.seq, event.position
                FROM unnest($1::int8[], $2::int8[]) given(driver, position)
                JOIN event ON event.position = given.position AND event.driver = given.driver) gone
                ON gone.position > last_event
            GROUP BY name) unread
        WHERE feed_consumer.name = unread.name AND feed_consumer.name <> '\(pushConsumer)'
        """)

    /// The consumer whose position only says which changes of journeys were considered.
    private static let pushConsumer = PushConsumer.consumer

    /// Parameters: rows of drivers, positions. Returns the number of deleted events.
    private static let deleteEvents = PostgresStatement(
        "retention_events_deleted",
        """
        WITH gone AS (
            DELETE FROM event USING unnest($1::int8[], $2::int8[]) given(driver, position)
            WHERE event.position = given.position AND event.driver = given.driver RETURNING 1)
        SELECT count(*) FROM gone
        """)
}

extension Substring {
    fileprivate var trimmingWhitespace: String {
        String(drop { $0.isWhitespace }.reversed().drop { $0.isWhitespace }.reversed())
    }
}
