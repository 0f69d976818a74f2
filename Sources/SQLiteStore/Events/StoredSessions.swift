// Reads a driver's sessions and their events, with plain SQL through GRDB. Every query for a session also compares the
// driver, so that another driver's session is never found.
//
// Statements that run for each session of a page are cached per connection, because preparing them takes about ten
// times as long as running them.

import Engine
import GRDB
import JourneyModel

enum StoredSessions {
    private static let summarySQL = """
        SELECT session.id, session_id, opened_at_ms, registered_at_ms,
            coalesce(registered_charger, (SELECT place_id FROM place WHERE place.id = charger)),
            coalesce(registered_merchant, (SELECT place_id FROM place WHERE place.id = merchant))
        FROM driver JOIN session ON session.driver = driver.id
        """

    /// SQL condition for the sessions that are shown. Retention may have removed all events and the registration of a
    /// session. Such a session is not shown, but its row remains for one of three reasons:
    ///
    /// - The driver's journey names the session as the previous one.
    /// - The journey at the driver's floor names the session.
    /// - No session has a higher row number.
    static let isThere = """
        (registered_at_ms IS NOT NULL OR session.id = driver.session
        OR EXISTS (SELECT 1 FROM event WHERE event.session = session.id))
        """

    // MARK: Sessions

    static func page(of driver: DriverID, limit: Int, after cursor: String?, _ db: Database) throws -> SessionPage? {
        var before = Int64.max
        if let cursor {
            guard let row = try row(of: cursor, driver, db) else { return nil }
            before = row[0]
        }
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    \(summarySQL) WHERE driver_id = ? AND session.id < ? AND \(isThere)
                    ORDER BY session.id DESC LIMIT ?
                    """),
            arguments: [driver.rawValue, before, limit + 1])
        let sessions = try rows.prefix(limit).map { try summary($0, db) }
        return SessionPage(sessions: sessions, hasMore: rows.count > limit)
    }

    private static func row(of sessionID: String, _ driver: DriverID, _ db: Database) throws -> Row? {
        try Row.fetchOne(
            db.cachedStatement(sql: "\(summarySQL) WHERE driver_id = ? AND session_id = ? AND \(isThere)"),
            arguments: [driver.rawValue, sessionID])
    }

    static func summary(_ row: Row, _ db: Database) throws -> SessionSummary {
        SessionSummary(
            sessionID: row[1], openedAt: Moment(millisecondsSinceEpoch: row[2]),
            registeredAt: StoredEvents.moment(row[3]), chargerID: row[4], merchantID: row[5],
            journey: try journey(in: row[0], db).map { journey in
                var journey = journey
                journey.sessionID = row[1]
                return journey
            })
    }

    /// Finds the session's last event after which the journey still named the session. Returns the journey after this
    /// event. If an event of another journey closed the session in progress, returns a journey in SESSION_ENDED
    /// instead.
    ///
    /// - Returns: a journey without the session's id. Nil if there is no such event, for example because all events of
    ///   the session were rejected.
    static func journey(in session: Int64, _ db: Database) throws -> Journey? {
        let find = try db.cachedStatement(
            sql: """
                SELECT after_state, after_grace_deadline_ms, after_hard_deadline_ms, after_ended_by, corrected_at_ms
                FROM event CROSS JOIN event_kind ON event_kind.id = event.kind
                WHERE session = ?1 AND after_session = ?1 ORDER BY \(FoldOrder.descending) LIMIT 1
                """)
        guard let row = try Row.fetchOne(find, arguments: [session]) else { return nil }
        let state = try StoredEvents.state(row, 0)
        if state.hasSessionInProgress, let ending = try closing(of: session, after: row[4], db) {
            return Journey(state: .sessionEnded, endedBy: ending)
        }
        return Journey(
            state: state, graceDeadline: StoredEvents.moment(row[1]), hardDeadline: StoredEvents.moment(row[2]),
            endedBy: StoredEvents.ending(row[3]))
    }

    /// If an event of another journey closed the session, returns why the session ended; otherwise nil.
    private static func closing(of session: Int64, after milliseconds: Int64, _ db: Database) throws -> Journey.Ending?
    {
        let find = try db.cachedStatement(
            sql: "SELECT after_session IS NULL FROM event WHERE closed_session = ? AND corrected_at_ms >= ? LIMIT 1")
        return try Row.fetchOne(find, arguments: [session, milliseconds]).map { $0[0] ? .reset : .superseded }
    }

    // MARK: Events

    static func timeline(
        of sessionID: String, of driver: DriverID, limit: Int, after cursor: Int64?, _ db: Database
    ) throws -> TimelineOutcome {
        guard let row = try row(of: sessionID, driver, db) else { return .sessionNotFound }
        let session: Int64 = row[0]
        var from = Int64.min
        if let cursor {
            let sequence = try Int64.fetchOne(
                db.cachedStatement(sql: "SELECT corrected_at_ms FROM event WHERE id = ? AND session = ?"),
                arguments: [cursor, session])
            guard let sequence else { return .cursorNotFound }
            from = sequence
        }
        let events = try events(of: session, from: from, after: cursor, limit: limit + 1, db)
        return .found(
            SessionTimeline(
                session: try summary(row, db), events: Array(events.prefix(limit)), hasMore: events.count > limit))
    }

    /// Returns the session's first `limit` events after the event `cursor`. If `cursor` is nil, begins with the first
    /// event. `from` is the corrected time of the event `cursor`, so that the query need not read earlier events.
    private static func events(
        of session: Int64, from: Int64, after cursor: Int64?, limit: Int, _ db: Database
    ) throws -> [SessionEvent] {
        let rows = try Row.fetchCursor(
            db.cachedStatement(
                sql: """
                    SELECT event.id, coalesce(event_id, idempotency_key), idempotency_key, name, has_session,
                        corrected_at_ms, occurred_at, received_at_ms, version, transition, reason, implied, after_state,
                        after_ended_by, \(SentMemberColumns.sql())
                    FROM event
                    CROSS JOIN event_kind ON event_kind.id = event.kind
                    CROSS JOIN settings_version ON settings_version.id = event.settings_version
                    WHERE session = ? AND corrected_at_ms >= ? ORDER BY \(FoldOrder.ascending)
                    """),
            arguments: [session, from])
        var events: [SessionEvent] = []
        var isBeyondCursor = cursor == nil
        while events.count < limit, let row = try rows.next() {
            if isBeyondCursor { events.append(try event(row)) }
            if row[0] == cursor { isBeyondCursor = true }
        }
        return events
    }

    private static func event(_ row: Row) throws -> SessionEvent {
        SessionEvent(
            id: row[0], eventID: row[1], idempotencyKey: row[2], name: try StoredEvents.name(row, 3),
            sent: SentMembers(row, at: 14), occurredAt: Moment(millisecondsSinceEpoch: row[5]),
            occurredAtText: row[6], receivedAt: Moment(millisecondsSinceEpoch: row[7]), settingsVersion: row[8],
            verdict: try StoredEvents.verdict(row, 9), state: try StoredEvents.state(row, 12),
            endedBy: StoredEvents.ending(row[13]))
    }
}
