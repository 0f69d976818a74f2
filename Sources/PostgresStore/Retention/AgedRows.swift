// The statements with which retention finds and deletes sessions and audit entries.

import JourneyModel
import Postgres
import Sockets

enum AgedRows {
    /// SQL condition that a session is outlived: clients no longer see it. All of the following must hold:
    ///
    /// - The session was opened before `time`. If it was registered, the registration was before `time` too.
    /// - It has no events, and is not its driver's current session.
    /// - No deletion of the driver is under way. During a deletion, the session's row may have the old id, and its
    ///   events the new id.
    ///
    /// - Parameters:
    ///   - time: the parameter with the time.
    ///   - lanes: returns a condition on a table, with which Citus finds the session's shard.
    private static func outlived(_ time: String, _ lanes: (String) -> String) -> String {
        """
        session.opened_at_ms < \(time)::int8 AND coalesce(session.registered_at_ms < \(time)::int8, true)
        AND NOT EXISTS (SELECT 1 FROM event
            WHERE event.driver = session.driver AND event.session_id = session.session_id AND \(lanes("event")))
        AND NOT EXISTS (SELECT 1 FROM driver
            WHERE driver.id = session.driver AND session.session_id = driver.session_id AND \(lanes("driver")))
        AND \(ErasureProgress.isNotErasing("session", "driver"))
        """
    }

    /// SQL condition that no journey names an outlived session, so that the session's row can be deleted. The condition
    /// checks the journey at the driver's floor, and the previous session of the current journey. `outlived` checks the
    /// current session.
    ///
    /// The journeys after stored events need no check. They name only sessions that have events, or that the journey at
    /// the floor names.
    ///
    /// - Parameters:
    ///   - lanes: like that of `outlived`.
    ///   - condition: SQL condition on the session. If it is false, the session counts as unneeded, even if a journey
    ///     names the session.
    private static func unneeded(_ lanes: (String) -> String, if condition: String = "true") -> String {
        """
        NOT EXISTS (SELECT 1 FROM driver WHERE driver.id = session.driver AND \(condition)
            AND session.session_id = driver.previous_session_id AND \(lanes("driver")))
        AND NOT EXISTS (SELECT 1 FROM journey_base WHERE journey_base.driver = session.driver AND \(condition)
            AND session.session_id IN (journey_base.session_id, journey_base.previous_session_id)
            AND \(lanes("journey_base")))
        """
    }

    /// SQL condition that a table's row lies in the session's lane. Statements over all lanes use this condition, and
    /// not `LaneParameters.condition`.
    private static func hasSessionsLane(_ table: String) -> String { "\(table).lane = session.lane" }

    /// Selects the outlived sessions that retention has to change. If a journey still names such a session, retention
    /// only removes its registration. Parameters: the session's number after which to begin, the time, the number of
    /// rows.
    static let sessions = PostgresStatement(
        "aged_sessions",
        """
        SELECT session.number FROM session WHERE session.number > $1::int8 AND \(outlived("$2", hasSessionsLane))
            AND \(unneeded(hasSessionsLane, if: "session.registered_at_ms IS NULL"))
        ORDER BY session.number LIMIT $3::int8
        """)

    /// Selects sessions in the order of their numbers. The last column tells whether retention deletes the session: it
    /// was registered, is outlived and is unneeded. The parameters are those of `sessions`.
    static let registrations = PostgresStatement(
        "aged_registrations",
        """
        SELECT session.number, session.opened_at_ms, session.registered_at_ms IS NOT NULL
            AND \(outlived("$2", hasSessionsLane)) AND \(unneeded(hasSessionsLane))
        FROM session WHERE session.number > $1::int8 ORDER BY session.number LIMIT $3::int8
        """)

    /// Deletes the outlived and unneeded sessions, with their rows of `session_owner`, `session_code` and
    /// `push_outbox`. If a journey still names an outlived session, only removes its registration. Returns the number
    /// of deleted sessions.
    ///
    /// Checks the conditions again, because a session may have got an event since it was selected.
    static func delete(
        sessions numbers: [Int64], openedBefore: Moment, _ shards: Shards, on connection: PostgresConnection,
        until deadline: Deadline
    ) async throws(PostgresError) -> Int {
        let found = try await connection.run([PostgresQuery(drivers, [.int8s(numbers)])], until: deadline)
        var sessions: [(number: Int64, driver: Int64)] = []
        for row in found[0].rows { sessions.append((try row.int8(0), try row.int8(1))) }
        var trip = RoundTrip()
        var deleted: [Range<Int>] = []
        for (lanes, rows) in shards.groups(sessions, lane: { Lane.of(driver: $0.driver) }) {
            let numbers = PostgresValue.int8s(rows.map { $0.number })
            trip.add([PostgresQuery(lockDrivers, lanes + [.int8s(Set(rows.map { $0.driver }).sorted())])])
            let before = PostgresValue.int8(openedBefore.millisecondsSinceEpoch)
            deleted.append(trip.add([PostgresQuery(deleteSessions, lanes + [numbers, before])]))
            trip.add([PostgresQuery(forgetRegistrations, lanes + [numbers, before])])
        }
        let results = try await connection.run(trip.queries, until: deadline)
        var gone: [(driver: Int64, session: String)] = []
        for row in deleted.flatMap({ results.rows($0) }) { gone.append((try row.int8(0), try row.text(1))) }
        if gone.isEmpty { return 0 }
        let values = { (gone: [(driver: Int64, session: String)]) -> [PostgresValue] in
            [.int8s(gone.map { $0.driver }), .texts(gone.map { $0.session })]
        }
        var rest = RoundTrip()
        rest.add(shards.queries(deleteOwners, gone, lane: { Lane.of($0.session) }, values))
        rest.add([PostgresQuery(deleteCodes, values(gone)), PostgresQuery(deletePushes, values(gone))])
        _ = try await connection.run(rest.queries, until: deadline)
        return gone.count
    }

    /// Parameters: numbers of sessions.
    private static let drivers = PostgresStatement(
        "aged_sessions_drivers", "SELECT number, driver FROM session WHERE number = ANY ($1::int8[])")

    /// Locks drivers and raises their versions. A batch that has already read one of these drivers therefore has to
    /// read it again.
    ///
    /// Parameters: `LaneParameters`, the `driver.id` of drivers.
    private static let lockDrivers = PostgresStatement(
        "aged_sessions_locked",
        """
        WITH locked AS MATERIALIZED (
            SELECT driver.id FROM driver WHERE driver.id = ANY ($3::int8[]) AND \(LaneParameters.condition("driver"))
            ORDER BY driver.id FOR NO KEY UPDATE)
        UPDATE driver SET version = driver.version + 1 FROM locked
        WHERE driver.id = locked.id AND \(LaneParameters.condition("driver"))
        """)

    /// Returns the driver and the id of each deleted session. Parameters: `LaneParameters`, numbers of sessions, the
    /// time.
    private static let deleteSessions = PostgresStatement(
        "aged_sessions_deleted",
        """
        WITH gone AS (
            DELETE FROM session WHERE session.number = ANY ($3::int8[]) AND \(LaneParameters.condition("session"))
                AND \(outlived("$4", LaneParameters.condition)) AND \(unneeded(LaneParameters.condition))
            RETURNING session.driver, session.session_id)
        SELECT driver, session_id FROM gone
        """)

    /// Removes the registrations of those outlived sessions that `deleteSessions` has not deleted. The parameters are
    /// those of `deleteSessions`.
    private static let forgetRegistrations = PostgresStatement(
        "aged_sessions_registrations",
        """
        UPDATE session SET registered_at_ms = NULL, registered_charger = NULL, registered_merchant = NULL
        WHERE session.number = ANY ($3::int8[]) AND \(LaneParameters.condition("session"))
            AND session.registered_at_ms IS NOT NULL AND \(outlived("$4", LaneParameters.condition))
        """)

    /// Parameters: `LaneParameters`, the `driver.id` of drivers, ids of sessions.
    private static let deleteOwners = PostgresStatement(
        "aged_sessions_owners",
        """
        DELETE FROM session_owner USING unnest($3::int8[], $4::text[]) gone(driver, session_id)
        WHERE session_owner.session_id = gone.session_id AND session_owner.owner = gone.driver
            AND \(LaneParameters.condition("session_owner"))
        """)

    /// Parameters: the `driver.id` of drivers, ids of sessions.
    private static let deleteCodes = PostgresStatement(
        "aged_sessions_codes",
        """
        DELETE FROM session_code USING unnest($1::int8[], $2::text[]) gone(driver, session_id)
        WHERE session_code.driver = gone.driver AND session_code.session = gone.session_id
        """)
    private static let deletePushes = PostgresStatement(
        "aged_sessions_pushes",
        """
        DELETE FROM push_outbox USING unnest($1::int8[], $2::text[]) gone(driver, session_id)
        WHERE push_outbox.driver = gone.driver AND push_outbox.session = gone.session_id
        """)

    /// Selects audit entries in the order of their ids. The last column tells whether retention deletes the entry. The
    /// parameters are those of `sessions`.
    static let auditLines = PostgresStatement(
        "aged_audit_lines",
        """
        SELECT id, at_ms, at_ms < $2::int8 AND action <> 'erased' FROM audit WHERE id > $1::int8
        ORDER BY id LIMIT $3::int8
        """)

    /// Parameters: numbers of entries.
    static let deleteAuditLines = PostgresStatement(
        "aged_audit_lines_deleted",
        """
        WITH gone AS (DELETE FROM audit WHERE id = ANY ($1::int8[]) AND action <> 'erased' RETURNING 1)
        SELECT count(*) FROM gone
        """)
}
