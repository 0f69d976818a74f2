// Lists of the sessions of all drivers, for the operator page. One page examines at most `sessionRowsMax` sessions. If
// few of them match the filter, the page is short or empty, although another page follows.

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
        ]
        let found = try await read([PostgresQuery(SessionLists.page, parameters)])
        let rows = try await rows(ofSessions: found[0], charger: filter.chargerID) { one, other in
            (one.openedAt, one.number) > (other.openedAt, other.number)
        }
        let sessions = try await operatorSessions(rows)
        return try decoded { () throws(PostgresError) in
            var page: [OperatorSession] = []
            for (index, (row, session)) in zip(rows, sessions).enumerated() {
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

    /// The sort keys of sessions.
    private struct Place {
        var openedAt: Int64
        var number: Int64
        var sessionID: TextKey
    }

    /// Reads `SessionLists.rows` for the sessions in `named`. Each row of `named` contains a `driver.id` and a
    /// session's id.
    private func rows(
        ofSessions named: PostgresResult, charger: String?, sortedBy isBefore: (Place, Place) -> Bool
    ) async throws(StoreFailure) -> [PostgresRow] {
        let sessions = try decoded { () throws(PostgresError) in
            var sessions: [(driver: Int64, sessionID: String)] = []
            for row in named.rows { sessions.append((try row.int8(0), try row.text(1))) }
            return sessions
        }
        let found = try await read(
            shards().queries(SessionLists.rows, sessions, lane: { Lane.of(driver: $0.driver) }) {
                [
                    .int8s($0.map { $0.driver }), .texts($0.map { $0.sessionID }),
                    charger.map(PostgresValue.text) ?? .null,
                ]
            })
        return try decoded { () throws(PostgresError) in
            var rows: [(row: PostgresRow, place: Place)] = []
            for row in found.allRows {
                let place = Place(
                    openedAt: try row.int8(1), number: try row.int8(6), sessionID: TextKey(try row.text(0)))
                rows.append((row, place))
            }
            return rows.sorted { isBefore($0.place, $1.place) }.map(\.row)
        }
    }

    /// Returns the sessions, sorted by id. Each row of `named` contains a `driver.id` and a session's id.
    func operatorSessions(named: PostgresResult) async throws(StoreFailure) -> [OperatorSession] {
        try await operatorSessions(
            rows(ofSessions: named, charger: nil) { one, other in one.sessionID < other.sessionID })
    }

    /// Converts rows of `SessionLists.rows`. Reads the journey in each session from the database, and adds it to the
    /// session.
    func operatorSessions(_ rows: [PostgresRow]) async throws(StoreFailure) -> [OperatorSession] {
        var sessions = try decoded { () throws(PostgresError) in
            var sessions: [OperatorSession] = []
            for row in rows {
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
    /// The columns of `SessionSummary`, the driver's id and the session's number. If the registration names no charger,
    /// the charger's column comes from one of the session's events. $1 and $2 are the `LaneParameters`.
    private static let columns = """
        session.session_id, session.opened_at_ms, session.registered_at_ms,
        coalesce(session.registered_charger, (SELECT event.charger FROM event
            WHERE event.driver = session.driver AND event.session_id = session.session_id
                AND event.charger IS NOT NULL AND \(LaneParameters.condition("event")) LIMIT 1)),
        session.registered_merchant, driver.driver_id, session.number
        """

    /// The opening time of a session. Parameters: its number.
    static let place = PostgresStatement(
        "operator_session_place", "SELECT opened_at_ms FROM session WHERE number = $1::int8")

    /// The driver and id of each session, sorted by opening time and number, both descending. Parameters: the earliest
    /// opening time, the end of the opening times (excluded), the cursor's time and number, the number of rows.
    static let page = PostgresStatement(
        "operator_session_page",
        """
        SELECT driver, session_id FROM session
        WHERE opened_at_ms >= $1::int8 AND opened_at_ms < $2::int8 AND (opened_at_ms, number) < ($3::int8, $4::int8)
        ORDER BY opened_at_ms DESC, number DESC LIMIT $5::int8
        """)

    /// The rows of the given sessions: `columns`, and whether the registration or an event of the session names the
    /// wanted charger. If no charger is wanted, this last column is true. Parameters: `LaneParameters`, the `driver.id`
    /// of drivers, ids of their sessions, a charger or NULL.
    static let rows = PostgresStatement(
        "operator_session_rows",
        """
        SELECT \(columns), $5::text IS NULL OR coalesce(session.registered_charger = $5::text, false)
            OR EXISTS (SELECT 1 FROM event WHERE event.driver = session.driver
                AND event.session_id = session.session_id AND event.charger = $5::text
                AND \(LaneParameters.condition("event")))
        FROM unnest($3::int8[], $4::text[]) asked(driver, session_id)
        JOIN session ON session.driver = asked.driver AND session.session_id = asked.session_id
        JOIN driver ON driver.id = session.driver
        WHERE \(LaneParameters.condition("session")) AND \(LaneParameters.condition("driver"))
        """)

    /// A driver's sessions, sorted by opening time and number, both descending. Parameters: `LaneParameters`,
    /// `driver_id`, the number of rows.
    static let ofDriver = PostgresStatement(
        "operator_driver_sessions",
        """
        SELECT \(columns) FROM driver, \(SessionHistoryStatements.latest("$4::int8", until: "\(Int64.max)"))
        WHERE driver.driver_id = $3::text AND \(LaneParameters.condition("driver"))
        ORDER BY session.opened_at_ms DESC, session.number DESC LIMIT $4::int8
        """)

    /// The driver and id of each session, sorted by id. Parameters: the lowest id, the end of the ids (excluded), the
    /// number of rows.
    static let byName = PostgresStatement(
        "operator_sessions_by_name",
        """
        SELECT owner, session_id FROM session_owner WHERE session_id >= $1::text AND session_id < $2::text
        ORDER BY session_id LIMIT $3::int8
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
