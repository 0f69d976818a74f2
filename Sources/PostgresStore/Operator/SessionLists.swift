// Lists of the sessions of all drivers, for the operator page. A filter examines a bounded number of rows, the last
// opened first. If a page ends because this bound is reached, it contains the number at which the next page continues.

package import Engine
package import JourneyModel
import Postgres

extension PostgresEventStore: OperatorListReader {
    /// Maximum number of sessions examined for one page.
    static let sessionRowsMax = 2000

    package func sessions(
        _ filter: SessionFilter, before cursor: Int64?, limit: Int, at now: Moment
    ) async throws(StoreFailure) -> ListPage<OperatorSession> {
        // `cursor` is a session's number. The list is ordered by opening time, then by number.
        var before: (openedAt: Int64, number: Int64) = (.max, .max)
        if let cursor {
            let found = try await read([PostgresQuery(SessionLists.place, [.int8(cursor)])])
            guard let row = found[0].rows.first else { return ListPage([], next: nil) }
            before = (try decoded { () throws(PostgresError) in try row.int8(0) }, cursor)
        }
        let parameters: [PostgresValue] = [
            .int8(filter.since?.millisecondsSinceEpoch ?? .min), .int8(filter.until?.millisecondsSinceEpoch ?? .max),
            .int8(before.openedAt), .int8(before.number), .int8(Int64(Self.sessionRowsMax)),
            filter.chargerID.map(PostgresValue.text) ?? .null,
        ]
        let found = try await read([PostgresQuery(SessionLists.page, parameters)])
        let sessions = try await operatorSessions(found[0])
        return try decoded { () throws(PostgresError) in
            var page: [OperatorSession] = []
            for (index, (row, session)) in zip(found[0].rows, sessions).enumerated() {
                if try row.bool(7), filter.takes(session.session.journey?.advanced(to: now).state) {
                    page.append(session)
                }
                if page.count == limit || index + 1 == Self.sessionRowsMax {
                    return ListPage(page, next: try row.int8(6))
                }
            }
            return ListPage(page, next: nil)
        }
    }

    /// Reads rows of `SessionLists.columns`, and the journeys in these sessions.
    func operatorSessions(_ result: PostgresResult) async throws(StoreFailure) -> [OperatorSession] {
        var sessions = try decoded { () throws(PostgresError) in
            var sessions: [OperatorSession] = []
            for row in result.rows {
                sessions.append(OperatorSession(driver: DriverID(try row.text(5)), session: try Self.summary(row)))
            }
            return sessions
        }
        guard !sessions.isEmpty else { return [] }
        let journeys = try await journeys(in: sessions.map { ($0.driver, $0.session.sessionID) })
        for index in sessions.indices {
            sessions[index].session.journey = journeys[TextKey(sessions[index].session.sessionID)]
        }
        return sessions
    }
}

enum SessionLists {
    /// The columns of `SessionSummary`, then the driver and the number. If the registration names no charger, the column
    /// contains the charger of one of the session's events.
    private static let columns = """
        session.session_id, session.opened_at_ms, session.registered_at_ms,
        coalesce(session.registered_charger, (SELECT event.charger FROM event
            WHERE event.driver = session.driver AND event.session_id = session.session_id
                AND event.charger IS NOT NULL LIMIT 1)),
        session.registered_merchant, driver.driver_id, session.number
        """

    /// The opening time of a session. Parameters: its number.
    static let place = PostgresStatement(
        "operator_session_place", "SELECT opened_at_ms FROM session WHERE number = $1::int8")

    /// The last column tells whether the registration or one of the session's events names the wanted charger.
    /// Parameters: the first opening time, the time after the last, the cursor's time and number, the number of rows,
    /// a charger or NULL.
    static let page = PostgresStatement(
        "operator_session_page",
        """
        SELECT \(columns), $6::text IS NULL OR coalesce(session.registered_charger = $6::text, false)
            OR EXISTS (SELECT 1 FROM event WHERE event.driver = session.driver
                AND event.session_id = session.session_id AND event.charger = $6::text)
        FROM (SELECT * FROM session
            WHERE opened_at_ms >= $1::int8 AND opened_at_ms < $2::int8
                AND (opened_at_ms, number) < ($3::int8, $4::int8)
            ORDER BY opened_at_ms DESC, number DESC LIMIT $5::int8) session
        JOIN driver ON driver.id = session.driver ORDER BY session.opened_at_ms DESC, session.number DESC
        """)

    /// A driver's sessions, the last opened first. Parameters: the driver's id, the number of rows.
    static let ofDriver = PostgresStatement(
        "operator_driver_sessions",
        """
        SELECT \(columns) FROM driver JOIN session ON session.driver = driver.id
        WHERE driver.driver_id = $1::text AND \(SessionQueries.isThere)
        ORDER BY session.opened_at_ms DESC, session.session_id DESC LIMIT $2::int8
        """)

    /// Parameters: the first text, the text after the last, the number of rows.
    static let byName = PostgresStatement(
        "operator_sessions_by_name",
        """
        SELECT \(columns) FROM (SELECT * FROM session_owner
            WHERE session_id >= $1::text AND session_id < $2::text ORDER BY session_id LIMIT $3::int8) owned
        JOIN session ON session.driver = owned.owner AND session.session_id = owned.session_id
        JOIN driver ON driver.id = session.driver ORDER BY session.session_id
        """)
}

extension SessionFilter {
    /// Returns whether the filter matches a session in the state `current`. `current` is nil for a session that was
    /// never activated.
    fileprivate func takes(_ current: JourneyState?) -> Bool {
        if let state, state != current { return false }
        if let isEnded, isEnded != (current == .sessionEnded) { return false }
        return true
    }
}
