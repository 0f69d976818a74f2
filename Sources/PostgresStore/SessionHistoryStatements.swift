// The statements that read sessions for the driver and the operator: one session, pages of a driver's sessions, the
// journeys of sessions, and the events of a session.

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
    /// SQL condition on a session to show. It excludes a session whose events and registration retention has deleted,
    /// and whose row remains only because the driver's journey names it as the previous session, or the journey at the
    /// driver's floor names it. $1 and $2 are those of `LaneParameters`.
    static let isThere = """
        (session.registered_at_ms IS NOT NULL OR session.session_id = driver.session_id
        OR EXISTS (SELECT 1 FROM event WHERE event.driver = driver.id AND event.session_id = session.session_id
            AND \(LaneParameters.condition("event"))))
        """
    /// Parameters: `LaneParameters`, `driver_id`, the session's id.
    static let one = PostgresStatement(
        "session",
        """
        SELECT \(columns) FROM \(tables)
        WHERE driver.driver_id = $3::text AND session.session_id = $4::text AND \(isThere)
        """)
    /// Parameters: `LaneParameters`, `driver_id`, the cursor's time and id, whether there is no cursor, the number
    /// of rows.
    static let page = PostgresStatement(
        "session_page",
        """
        SELECT \(columns) FROM \(tables)
        WHERE driver.driver_id = $3::text AND \(isThere)
            AND ($6::bool OR (session.opened_at_ms, session.session_id) < ($4::int8, $5::text))
        ORDER BY session.opened_at_ms DESC, session.session_id DESC LIMIT $7::int8
        """)

    /// For each session, the journey after one of its events, the last one after which the journey still belongs to
    /// this session. The last column is NULL if no event at or after that time closed the session. Otherwise it tells
    /// whether the closing event was a reset. Parameters: `LaneParameters`, the `driver_id` of drivers, ids of their
    /// sessions.
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

    /// The corrected time of the cursor's event. Parameters: `LaneParameters`, `driver_id`, the session's id, the
    /// cursor.
    static let place = PostgresStatement(
        "timeline_place",
        """
        SELECT event.corrected_at_ms FROM driver JOIN event ON event.driver = driver.id
        WHERE driver.driver_id = $3::text AND event.session_id = $4::text AND event.seq = $5::int8
            AND \(LaneParameters.condition("driver")) AND \(LaneParameters.condition("event"))
        """)

    /// The events after the cursor's event, in order. Parameters: `LaneParameters`, `driver_id`, the session's id,
    /// the cursor or 0, the corrected time of the cursor's event, the number of rows.
    static let timeline = PostgresStatement(
        "session_timeline",
        """
        WITH ordered AS (
            SELECT event.*, row_number() OVER (ORDER BY \(EventStatements.ascending)) AS place
            FROM driver JOIN event ON event.driver = driver.id
            WHERE driver.driver_id = $3::text AND event.session_id = $4::text AND event.corrected_at_ms >= $6::int8
                AND \(LaneParameters.condition("driver")) AND \(LaneParameters.condition("event")))
        SELECT seq, coalesce(event_id, idempotency_key), idempotency_key, name, true, source, app_state, charger,
            merchant, sequence, details,
            CASE sender WHEN \(OrderedEvent.Sender.service.rawValue) THEN 'service' END, corrected_at_ms, occurred_at,
            received_at_ms, settings_version, transition, reason, implied, after_state, after_ended_by
        FROM ordered WHERE place > coalesce((SELECT place FROM ordered WHERE seq = $5::int8), 0)
        ORDER BY place LIMIT $7::int8
        """)
}
