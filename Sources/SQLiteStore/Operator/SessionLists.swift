// Lists of the sessions and events of all drivers, newest first, for the operator page. A page examines a limited
// number of rows. If more rows are left, it has a cursor for the next page, even if it is not full.

package import Engine
import GRDB
package import JourneyModel

extension SQLiteEventStore: OperatorListReader {
    /// Maximum number of sessions examined for one page.
    static let sessionRowsMax = 2000
    /// Maximum number of events examined for one page.
    static let eventRowsMax: Int64 = 50_000

    /// The columns that `StoredSessions.summary` reads, then the driver's id. The charger comes from the registration,
    /// else from the session's row, else from one of the session's events.
    static let sessionColumnsSQL = """
        SELECT session.id, session_id, opened_at_ms, registered_at_ms,
            coalesce(registered_charger, (SELECT place_id FROM place WHERE place.id = coalesce(session.charger, (
                SELECT event.charger FROM event
                WHERE event.session = session.id AND event.charger IS NOT NULL LIMIT 1)))),
            coalesce(registered_merchant, (SELECT place_id FROM place WHERE place.id = session.merchant)), driver_id
        """

    static func operatorSession(_ row: Row, _ db: Database) throws -> OperatorSession {
        OperatorSession(driver: DriverID(row[6]), session: try StoredSessions.summary(row, db))
    }

    // MARK: Sessions

    package func sessions(
        _ filter: SessionFilter, before cursor: Int64?, limit: Int, at now: Moment
    ) async throws(StoreFailure) -> ListPage<OperatorSession> {
        try await read { db in
            // Nil if no event names the charger, because `place` then has no row for it. A registration may still name
            // the charger, because a registration stores the charger's id as text.
            let charger = try filter.chargerID.flatMap { chargerID in
                try Int64.fetchOne(
                    db.cachedStatement(sql: "SELECT id FROM place WHERE place_id = ?"), arguments: [chargerID])
            }
            // `cursor` is a session's row number. The list is ordered by opening time, then by row number.
            var before: (openedAt: Int64, id: Int64) = (.max, .max)
            if let cursor {
                let openedAt = try Int64.fetchOne(
                    db.cachedStatement(sql: "SELECT opened_at_ms FROM session WHERE id = ?"), arguments: [cursor])
                guard let openedAt else { return ListPage([], next: nil) }
                before = (openedAt, cursor)
            }
            let rows = try Row.fetchCursor(
                db.cachedStatement(sql: Self.sessionsSQL),
                arguments: [
                    filter.since?.millisecondsSinceEpoch ?? .min, filter.until?.millisecondsSinceEpoch ?? .max,
                    before.openedAt, before.id, Self.sessionRowsMax, charger, filter.chargerID,
                ])
            var found: [OperatorSession] = []
            var lookedAt = 0
            while let row = try rows.next() {
                lookedAt += 1
                if row[7] as Bool {
                    let session = try Self.operatorSession(row, db)
                    if filter.takes(session.session.journey?.advanced(to: now).state) { found.append(session) }
                }
                if found.count == limit || lookedAt == Self.sessionRowsMax { return ListPage(found, next: row[0]) }
            }
            return ListPage(found, next: nil)
        }
    }

    /// Selects sessions. The last column is true if the session's registration, row or events name the wanted charger.
    /// Without a wanted charger, the column is always true.
    ///
    /// Parameters: ?6 is the wanted charger's row number in `place`, or NULL if it has no row there. ?7 is the wanted
    /// charger's id, or NULL if no charger is wanted.
    static let sessionsSQL = """
        \(sessionColumnsSQL), (?7 IS NULL OR registered_charger IS ?7 OR session.charger = ?6 OR EXISTS (
            SELECT 1 FROM event WHERE event.session = session.id AND event.charger = ?6)) IS TRUE
        FROM session INDEXED BY session_by_opening CROSS JOIN driver ON driver.id = session.driver
        WHERE opened_at_ms >= ?1 AND opened_at_ms < ?2 AND opened_at_ms <= ?3
            AND (opened_at_ms < ?3 OR session.id < ?4)
        ORDER BY opened_at_ms DESC, session.id DESC LIMIT ?5
        """

    // MARK: Events

    package func events(
        _ filter: EventFilter, before cursor: Int64?, limit: Int
    ) async throws(StoreFailure) -> ListPage<EventCase> {
        try await read { db in
            let newest = try StoredEvents.newestID(db)
            let apart = Self.receiptsApartMilliseconds
            func firstEvent(receivedFrom moment: Moment) throws -> Int64 {
                try Self.firstEvent(receivedFrom: moment, newest: newest, db)
            }
            let first = try filter.since.map { try firstEvent(receivedFrom: $0.advanced(byMilliseconds: -apart)) } ?? 1
            let end = try filter.until.map { try firstEvent(receivedFrom: $0.advanced(byMilliseconds: apart)) }
            let before = min(cursor ?? .max, end ?? newest + 1)
            let lowest = max(before - Self.eventRowsMax, first)
            let listed = EventName.listed.map { "'\($0.canonical)'" }.joined(separator: ",")
            let name =
                switch filter.name {
                case nil: "?7 IS NULL"
                case "diagnostic": "?7 IS NOT NULL AND event_kind.name NOT IN (\(listed))"
                default: "event_kind.name = ?7"
                }
            let rows = try Row.fetchAll(
                db, sql: Self.eventsSQL.replacing("NAME", with: name),
                arguments: [
                    lowest, before, filter.since?.millisecondsSinceEpoch ?? .min, filter.transition?.code,
                    filter.reason?.code, filter.state?.code, filter.name, limit,
                    filter.until?.millisecondsSinceEpoch ?? .max,
                ])
            let isFull = rows.count == limit
            let next: Int64 = isFull ? rows[rows.count - 1][0] : lowest
            return ListPage(try rows.map(Self.eventCase), next: next > first ? next : nil)
        }
    }

    /// Returns approximately the id of the first event received at or after `moment`. The result is not exact, because
    /// concurrent requests may be stored in another order than received. The caller allows for an error of
    /// `receiptsApartMilliseconds`.
    private static func firstEvent(receivedFrom moment: Moment, newest: Int64, _ db: Database) throws -> Int64 {
        let time = moment.millisecondsSinceEpoch
        var (low, high) = (Int64(1), newest + 1)
        while low < high {
            let middle = low + (high - low) / 2
            // Retention leaves gaps in the ids.
            let row = try Row.fetchOne(
                db.cachedStatement(sql: "SELECT id, received_at_ms FROM event WHERE id >= ? ORDER BY id LIMIT 1"),
                arguments: [middle])
            if let row, (row[1] as Int64) < time { low = (row[0] as Int64) + 1 } else { high = middle }
        }
        return low
    }

    /// The maximum duration of a request in milliseconds. An event with a higher id may have been received earlier than
    /// an event with a lower id, but at most by this duration.
    private static let receiptsApartMilliseconds: Int64 = 60_000

    private static let eventColumnsSQL = """
        SELECT event.id, driver_id, name, (SELECT session_id FROM session WHERE session.id = event.session),
            (SELECT place_id FROM place WHERE place.id = event.charger), corrected_at_ms, transition, reason, after_state,
            after_ended_by
        """

    static let eventsSQL = """
        \(eventColumnsSQL) FROM event CROSS JOIN event_kind ON event_kind.id = event.kind
        CROSS JOIN driver ON driver.id = event.driver
        WHERE event.id >= ?1 AND event.id < ?2 AND event.received_at_ms >= ?3
            AND (?4 IS NULL OR event.transition = ?4) AND (?5 IS NULL OR event.reason = ?5)
            AND (?6 IS NULL OR event.after_state = ?6) AND (NAME)
            AND event.received_at_ms < ?9
        ORDER BY event.id DESC LIMIT ?8
        """

    /// Selects the events of a list (DriverEvents), the last ones first.
    static let driverEventsSQL = """
        \(eventColumnsSQL) FROM \(DriverEvents.listedSQL("?1")) CROSS JOIN event_kind ON event_kind.id = event.kind
        CROSS JOIN driver ON driver.id = event.driver
        ORDER BY corrected_at_ms DESC LIMIT ?2
        """

    static func eventCase(_ row: Row) throws -> EventCase {
        guard let transition = Verdict.Transition(code: row[6]) else { throw SQLiteError.unreadable("transition") }
        return EventCase(
            id: row[0], driver: DriverID(row[1]), name: row[2], sessionID: row[3], chargerID: row[4],
            occurredAt: Moment(millisecondsSinceEpoch: row[5]), transition: transition,
            reason: (row[7] as Int64?).flatMap(Verdict.Reason.init(code:)), state: try StoredEvents.state(row, 8),
            endedBy: StoredEvents.ending(row[9]))
    }
}

extension SessionFilter {
    /// `current` is nil for a session that was never activated.
    fileprivate func takes(_ current: JourneyState?) -> Bool {
        if let state, state != current { return false }
        if let isEnded, isEnded != (current == .sessionEnded) { return false }
        return true
    }
}
