// The statements that find and delete the sessions and audit entries of retention.

import Postgres

enum AgedRows {
    /// SQL condition on a session to delete. The session was opened before $2. If it was registered, it was registered
    /// before $2. It has no events. It is named neither by its driver's journey nor by the journey with which the
    /// driver's fold begins. The journeys after the remaining events need no check, because they follow from these
    /// events and that first journey, and so name no other sessions. Begins with parameter $1, which is the statement's
    /// own.
    private static let unused = """
        session.opened_at_ms < $2::int8 AND coalesce(session.registered_at_ms < $2::int8, true)
        AND NOT EXISTS (SELECT 1 FROM event
            WHERE event.driver = session.driver AND event.session_id = session.session_id)
        AND NOT EXISTS (SELECT 1 FROM driver
            WHERE driver.id = session.driver AND session.session_id IN (driver.session_id, driver.previous_session_id))
        AND NOT EXISTS (SELECT 1 FROM journey_base WHERE journey_base.driver = session.driver
            AND session.session_id IN (journey_base.session_id, journey_base.previous_session_id))
        """

    /// Parameters: the number after which to begin, the time, the number of rows.
    static let sessions = PostgresStatement(
        "aged_sessions",
        """
        SELECT session.number FROM session WHERE session.number > $1::int8 AND \(unused)
        ORDER BY session.number LIMIT $3::int8
        """)

    /// The next sessions, each with whether it is to be deleted. Parameters as of `sessions`.
    static let registrations = PostgresStatement(
        "aged_registrations",
        """
        SELECT session.number, session.opened_at_ms, session.registered_at_ms IS NOT NULL AND \(unused)
        FROM session WHERE session.number > $1::int8 ORDER BY session.number LIMIT $3::int8
        """)

    /// Locks the drivers of sessions. A batch that opens or uses one of the sessions meanwhile has read the driver's
    /// old version, and must read it again. Parameters: numbers of sessions.
    static let lockDrivers = PostgresStatement(
        "aged_sessions_locked",
        """
        WITH locked AS MATERIALIZED (
            SELECT driver.id FROM driver
            WHERE driver.id IN (SELECT session.driver FROM session WHERE session.number = ANY ($1::int8[]))
            ORDER BY driver.id FOR NO KEY UPDATE)
        UPDATE driver SET version = driver.version + 1 FROM locked WHERE driver.id = locked.id
        """)

    /// Deletes those sessions that still meet the condition. It is checked again, because an event of a session may have
    /// arrived since the session was found. Parameters: numbers of sessions, the time. Returns the number of sessions.
    static let deleteSessions = PostgresStatement(
        "aged_sessions_deleted",
        """
        WITH gone AS (
            DELETE FROM session WHERE session.number = ANY ($1::int8[]) AND \(unused)
            RETURNING session.driver, session.session_id),
        owners AS (
            DELETE FROM session_owner USING gone
            WHERE session_owner.session_id = gone.session_id AND session_owner.owner = gone.driver),
        codes AS (
            DELETE FROM session_code USING gone
            WHERE session_code.driver = gone.driver AND session_code.session = gone.session_id),
        pushes AS (
            DELETE FROM push_outbox USING gone
            WHERE push_outbox.driver = gone.driver AND push_outbox.session = gone.session_id)
        SELECT count(*) FROM gone
        """)

    /// The next audit entries, each with whether it is to be deleted. Parameters as of `sessions`.
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
