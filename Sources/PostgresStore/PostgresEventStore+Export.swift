// `EventExport` on PostgreSQL: the sessions and events in a driver's export.

package import Engine
package import JourneyModel
package import SharedTables

extension PostgresEventStore: EventExport {
    /// Reads everything in one snapshot. A refold is one transaction, so the snapshot never shows a half-finished
    /// refold.
    package func readEvents<Value: Sendable>(
        of driver: DriverID, _ value: @escaping @Sendable (any SQLTransaction) throws -> Value
    ) async throws(StoreFailure) -> Value {
        try await read(value)
    }

    package func exportedJourney(of driver: DriverID, _ db: any SQLTransaction) throws -> Journey {
        let row = try SQLRow.fetchOne(
            db, sql: "SELECT \(JourneyColumns.head) FROM driver WHERE driver_id = ? AND lane = CAST(? AS int2)",
            arguments: [driver.rawValue, Int64(Lane.of(driver.rawValue))])
        guard let row else { return Journey() }
        return Journey(
            state: try Self.state(row[0]), sessionID: try row[1], targetChargerID: try row[2],
            nextTargetChargerID: try row[3], graceDeadline: try Self.moment(row[4]),
            hardDeadline: try Self.moment(row[5]),
            endedBy: (try row[6] as Int64?).flatMap(Journey.Ending.init(code:)), previousSessionID: try row[7])
    }

    private static func state(_ code: Int64) throws -> JourneyState {
        guard let state = JourneyState(code: code) else { throw UnreadableColumn(name: "state") }
        return state
    }

    private static func moment(_ milliseconds: Int64?) -> Moment? {
        milliseconds.map(Moment.init(millisecondsSinceEpoch:))
    }

    package var exportedSessions: ExportList {
        ExportList(name: "sessions") { driver, last, limit, db in
            // `+number` keeps PostgreSQL from using the index on `number`. With that index, PostgreSQL may read the
            // sessions of all drivers to find those of this driver.
            try Self.keys("session", "+number", of: driver, after: last, limit: limit, db)
        } writeRow: { key, driver, now, json, db in
            let row = try SQLRow.fetchOne(db, sql: Self.sessionSQL, arguments: SQLArguments([key, .integer(driver)]))
            guard let row else { return }
            var journey: Journey?
            if let code: Int64 = try row[5] {
                journey = Journey(
                    state: try Self.state(code), graceDeadline: try Self.moment(row[6]),
                    hardDeadline: try Self.moment(row[7]),
                    endedBy: (try row[8] as Int64?).flatMap(Journey.Ending.init(code:)))
                if let running = journey, running.state.hasSessionInProgress, let isReset: Bool = try row[9] {
                    journey = Journey(state: .sessionEnded, endedBy: isReset ? .reset : .superseded)
                }
            }
            let current = journey?.advanced(to: now)
            json.beginObject()
            json.members(Self.sessionMembers, row.values)
            json.member("state", current?.state.rawValue)
            json.member("ended_by", current?.endedBy?.rawValue)
            json.endObject()
        }
    }

    /// SQL condition that a row lies in the lane of the driver ?2. Because of this condition, Citus asks only the
    /// server with the driver's rows.
    private static let isInLane = "lane = \(Lane.sql(ofDriver: "?2"))"

    private static let sessionMembers = [
        "session_id", "opened_at_ms", "registered_at_ms", "charger_id", "merchant_id",
    ].map(ExportColumn.init)

    /// The first columns are `sessionMembers`. The next four columns are the journey after one event of the session:
    /// the last event whose `after_session_id` is this session.
    ///
    /// The last column tells whether a reset closed the session. It is NULL if no event with the corrected time of that
    /// last event, or a later time, closed the session.
    private static let sessionSQL = """
        SELECT session.session_id, session.opened_at_ms, session.registered_at_ms, session.registered_charger,
            session.registered_merchant, last.after_state, last.after_grace_deadline_ms, last.after_hard_deadline_ms,
            last.after_ended_by,
            (SELECT closing.after_session_id IS NULL FROM event closing
                WHERE closing.driver = session.driver AND closing.\(isInLane)
                    AND closing.closed_session_id = session.session_id
                    AND closing.corrected_at_ms >= last.corrected_at_ms LIMIT 1)
        FROM session LEFT JOIN LATERAL (
            SELECT event.* FROM event
            WHERE event.driver = session.driver AND event.\(isInLane) AND event.session_id = session.session_id
                AND event.after_session_id = session.session_id
            ORDER BY \(EventStatements.descending) LIMIT 1) last ON true
        WHERE session.number = ?1 AND session.driver = ?2 AND session.\(isInLane)
        """

    package var exportedEvents: ExportList {
        ExportList(name: "events") { driver, last, limit, db in
            try Self.keys("event", "seq", of: driver, after: last, limit: limit, db)
        } writeRow: { key, driver, _, json, db in
            let row = try SQLRow.fetchOne(db, sql: Self.eventSQL, arguments: SQLArguments([key, .integer(driver)]))
            guard let row else { return }
            json.beginObject()
            json.members(Self.eventMembers, row.values)
            json.endObject()
        }
    }

    private static let eventSQL = """
        SELECT \(eventColumns.map { $0.sql }.joined(separator: ", ")) FROM event
        WHERE seq = ?1 AND driver = ?2 AND \(isInLane)
        """

    private static let eventMembers = eventColumns.map { ExportColumn($0.name) }

    /// The columns of an exported event. `ExportColumn` derives the JSON members from the names.
    private static let eventColumns: [(name: String, sql: String)] = [
        ("event_id", "coalesce(event_id, idempotency_key)"), ("idempotency_key", "idempotency_key"), ("event", "name"),
        ("spelling", "spelling"), ("schema_version", "schema_version"), ("source", "source"),
        ("app_state", "app_state"), ("charger_id", "charger"), ("merchant_id", "merchant"), ("sequence", "sequence"),
        ("details", "details"),
        ("sender", "CASE sender WHEN \(OrderedEvent.Sender.service.rawValue) THEN 'service' END"),
        ("session_id", "session_id"), ("occurred_at", "occurred_at"), ("corrected_at_ms", "corrected_at_ms"),
        ("sent_at_ms", "sent_at_ms"), ("timestamp_ms", "timestamp_ms"), ("received_at_ms", "received_at_ms"),
        ("skew_ms", "skew_ms"), ("clock_rule", "clock_rule"), ("transition", "transition"), ("reason", "reason"),
        ("implied", "implied"), ("state", "after_state"), ("ended_by", "after_ended_by"),
        ("settings_version", "settings_version"), ("metadata", "metadata"),
    ]

    private static func keys(
        _ table: String, _ column: String, of driver: Int64, after last: SQLValue?, limit: Int, _ db: any SQLTransaction
    ) throws -> [SQLValue] {
        try Int64.fetchAll(
            db,
            sql: """
                SELECT \(column) FROM \(table) WHERE driver = ?2 AND \(isInLane) AND \(column) > ?1
                ORDER BY \(column) LIMIT ?3
                """,
            arguments: [last.flatMap(Int64.init) ?? 0, driver, limit]
        ).map(SQLValue.integer)
    }
}
