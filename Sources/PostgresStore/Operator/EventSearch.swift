// Finds the first event that was received at or after a given time, by binary search over positions. The search works
// because positions follow the order of receipt. Only events received at nearly the same time may be out of order.
//
// Citus does not support recursive statements over distributed tables. On Citus, each step of the search is therefore a
// separate statement.

import Postgres

enum EventSearch {
    /// The first event from a position on. Parameters: the position.
    static let probe = PostgresStatement(
        "event_probe",
        "SELECT position, received_at_ms FROM event WHERE position >= $1::int8 ORDER BY position LIMIT 1")

    /// The lowest and the highest position; NULL if there is no event.
    static let bounds = PostgresStatement("event_bounds", "SELECT min(position), max(position) FROM event")

    /// The position of the first event received at `$1` or later. Without such an event, the highest position plus 1.
    /// The search takes about fifty index lookups.
    static let firstReceived = PostgresStatement(
        "event_first_received",
        """
        WITH RECURSIVE search(step, low, high) AS (
            SELECT 0, coalesce(min(position), 0), coalesce(max(position), 0) + 1 FROM event
            UNION ALL
            SELECT step + 1, CASE WHEN probe.received_at_ms < $1::int8 THEN probe.position + 1 ELSE low END,
                CASE WHEN probe.received_at_ms < $1::int8 THEN high ELSE middle END
            FROM search CROSS JOIN LATERAL (SELECT low + (high - low) / 2 AS middle) halved
            LEFT JOIN LATERAL (SELECT event.position, event.received_at_ms FROM event
                WHERE event.position >= middle ORDER BY event.position LIMIT 1) probe ON true
            WHERE low < high)
        SELECT low FROM search ORDER BY step DESC LIMIT 1
        """)
}
