// The statements that read sessions, and the journeys and events of sessions, for the driver and the operator.

import JourneyModel
import Postgres

enum SessionHistoryStatements {
    private static let columns = """
        session.session_id, session.opened_at_ms, session.registered_at_ms, session.registered_charger,
        session.registered_merchant
        """
    private static let tables = """
        driver JOIN session ON session.driver = driver.id
            AND \(LaneParameters.condition("driver")) AND \(LaneParameters.condition("session"))
        """
    /// SQL condition that a session is shown. If retention has deleted the events and the registration of a session,
    /// the session is not shown. The row then exists only for the fold (AgedRows).
    ///
    /// OFFSET 0 makes PostgreSQL look for one event of each session. Without it, PostgreSQL could read all events of
    /// the driver.
    ///
    /// Parameters $1 and $2: `LaneParameters`.
    static let isThere = """
        (session.registered_at_ms IS NOT NULL OR session.session_id = driver.session_id
        OR EXISTS (SELECT 1 FROM event WHERE event.driver = driver.id AND event.session_id = session.session_id
            AND \(LaneParameters.condition("event")) OFFSET 0))
        """
    /// Parameters: `LaneParameters`, `driver_id`, the session's id.
    static let one = PostgresStatement(
        "session",
        """
        SELECT \(columns) FROM \(tables)
        WHERE driver.driver_id = $3::text AND session.session_id = $4::text AND \(isThere)
        """)

    /// Returns items of a FROM clause, to be written after `driver`. They yield the sessions opened at `time`, and the
    /// last `count` sessions opened before `time`. They may yield more, because sessions opened in the same millisecond
    /// are never separated.
    ///
    /// A driver may have tens of thousands of sessions, so there are two steps. The first step finds the earliest
    /// opening time of the result in an index. The second step reads the sessions opened at that time or later.
    ///
    /// Without OFFSET 0, PostgreSQL could repeat the first step for each session.
    static func latest(_ count: String, until time: String) -> String {
        let isShown = "\(LaneParameters.condition("session")) AND \(isThere)"
        return """
            LATERAL (
                SELECT coalesce((
                    SELECT session.opened_at_ms FROM session
                    WHERE \(RowsInOrder.ofDriver("session")) AND session.opened_at_ms < \(time) AND \(isShown)
                    ORDER BY session.driver, session.opened_at_ms DESC LIMIT 1 OFFSET \(count) - 1),
                    '\(Int64.min)'::int8) AS at_ms
                OFFSET 0) last, LATERAL (
                SELECT * FROM session
                WHERE session.driver = driver.id AND session.opened_at_ms >= last.at_ms
                    AND session.opened_at_ms <= \(time) AND \(isShown)
                OFFSET 0) session
            """
    }

    /// A page of a driver's sessions, sorted by opening time and number, both descending. Several sessions may have the
    /// same opening time, for example those of one batch.
    ///
    /// Parameters: `LaneParameters`, `driver_id`, the cursor's time and id, whether there is no cursor, the number of
    /// rows.
    static let page = PostgresStatement(
        "session_page",
        """
        SELECT \(columns) FROM driver, \(latest("$7::int8", until: "$4::int8"))
        WHERE driver.driver_id = $3::text AND \(LaneParameters.condition("driver"))
            AND ($6::bool OR (session.opened_at_ms, session.number) < ($4::int8, (
                SELECT place.number FROM session place WHERE place.driver = driver.id AND place.session_id = $5::text
                    AND \(LaneParameters.condition("place")))))
        ORDER BY session.opened_at_ms DESC, session.number DESC LIMIT $7::int8
        """)

    /// For each session, the journey after one of its events: the last event whose `after_session_id` is this session.
    ///
    /// The last column tells whether a reset closed the session. It is NULL if no event with the corrected time of that
    /// last event, or a later time, closed the session.
    ///
    /// Parameters: `LaneParameters`, the `driver_id` of drivers, ids of their sessions.
    static let journeys = PostgresStatement(
        "session_journeys",
        """
        SELECT asked.session_id, last.after_state, last.after_grace_deadline_ms, last.after_hard_deadline_ms,
            last.after_ended_by,
            (SELECT closing.after_session_id IS NULL FROM event closing
                WHERE closing.driver = driver.id AND closing.closed_session_id = asked.session_id
                    AND closing.corrected_at_ms >= last.corrected_at_ms AND \(LaneParameters.condition("closing"))
                LIMIT 1)
        FROM unnest($3::text[], $4::text[]) asked(driver_id, session_id)
        JOIN driver ON driver.driver_id = asked.driver_id AND \(LaneParameters.condition("driver")), LATERAL (
            SELECT event.corrected_at_ms FROM event
            WHERE event.driver = driver.id AND event.session_id = asked.session_id
                AND \(LaneParameters.condition("event"))
                AND event.after_session_id = asked.session_id
            ORDER BY event.corrected_at_ms DESC LIMIT 1) latest, LATERAL (
            SELECT * FROM event WHERE event.driver = driver.id AND event.session_id = asked.session_id
                AND \(LaneParameters.condition("event"))
                AND event.after_session_id = asked.session_id AND event.corrected_at_ms = latest.corrected_at_ms
            ORDER BY \(EventStatements.descending) LIMIT 1) last
        """)

    /// The corrected time of the cursor's event. OFFSET 0 makes PostgreSQL find the event by its key. Without it,
    /// PostgreSQL may search all events of the session.
    ///
    /// Parameters: `LaneParameters`, `driver_id`, the session's id, the cursor.
    static let place = PostgresStatement(
        "timeline_place",
        """
        SELECT event.corrected_at_ms FROM driver, LATERAL (
            SELECT corrected_at_ms, session_id FROM event
            WHERE event.driver = driver.id AND event.seq = $5::int8 AND \(LaneParameters.condition("event"))
            OFFSET 0) event
        WHERE driver.driver_id = $3::text AND event.session_id = $4::text AND \(LaneParameters.condition("driver"))
        """)

    /// SQL condition on an event of the session $4 of `driver`.
    private static let isOfSession =
        "event.driver = driver.id AND event.session_id = $4::text AND \(LaneParameters.condition("event"))"

    /// The events after the cursor's event, in order.
    ///
    /// A session may have many events, so there are two steps. The first step finds the millisecond of the page's last
    /// event in an index. The second step sorts the events up to this millisecond.
    ///
    /// Parameters: `LaneParameters`, `driver_id`, the session's id, the cursor or 0, the corrected time of the cursor's
    /// event, the number of rows.
    static let timeline = PostgresStatement(
        "session_timeline",
        """
        WITH ordered AS (
            SELECT event.*, row_number() OVER (ORDER BY \(EventStatements.ascending)) AS place
            FROM driver, LATERAL (
                SELECT coalesce((
                    SELECT event.corrected_at_ms FROM event
                    WHERE \(isOfSession) AND event.corrected_at_ms > $6::int8
                    ORDER BY event.corrected_at_ms LIMIT 1 OFFSET $7::int8 - 1), \(Int64.max)) AS at_ms
                OFFSET 0) last, LATERAL (
                SELECT * FROM event
                WHERE \(isOfSession) AND event.corrected_at_ms >= $6::int8 AND event.corrected_at_ms <= last.at_ms
                OFFSET 0) event
            WHERE driver.driver_id = $3::text AND \(LaneParameters.condition("driver")))
        SELECT seq, coalesce(event_id, idempotency_key), idempotency_key, name, true, source, app_state, charger,
            merchant, sequence, details,
            CASE sender WHEN \(OrderedEvent.Sender.service.rawValue) THEN 'service' END, corrected_at_ms, occurred_at,
            received_at_ms, settings_version, transition, reason, implied, after_state, after_ended_by
        FROM ordered WHERE place > coalesce((SELECT place FROM ordered WHERE seq = $5::int8), 0)
        ORDER BY place LIMIT $7::int8
        """)
}
