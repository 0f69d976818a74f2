// Reads the rows for EventRecords, with plain SQL through GRDB.

import Engine
import GRDB
import JourneyModel

enum RecordedEventRows {
    /// Returns the query for events, without ORDER BY.
    ///
    /// - Parameters:
    ///   - clocks: SQL expressions for the columns `timestamp_ms` and `clock_rule`.
    ///   - details, sender: SQL expressions for the columns `details` and `sender`.
    ///   - foldSettings: an SQL expression for the column `fold_settings`.
    private static func sql(clocks: String, details: String, sender: String, foldSettings: String) -> String {
        """
        SELECT event.id, coalesce(event_id, idempotency_key), idempotency_key, name, has_session, spelling, origin,
            (SELECT session_id FROM session WHERE session.id = event.session),
            occurred_at, occurred_at_ms, corrected_at_ms, sent_at_ms, received_at_ms, skew_ms, metadata,
            version, grace_period_seconds, hard_timeout_seconds, transition, reason, implied,
            after_state, (SELECT session_id FROM session WHERE session.id = after_session),
            (SELECT place_id FROM place WHERE place.id = after_target_charger),
            (SELECT place_id FROM place WHERE place.id = after_next_target_charger),
            after_grace_deadline_ms, after_hard_deadline_ms, after_ended_by,
            (SELECT session_id FROM session WHERE session.id = after_previous_session), previous_state,
            \(SentMemberColumns.sql(details: details, sender: sender)), \(clocks),
            CASE WHEN \(foldSettings) IS NOT NULL THEN
                (SELECT version FROM settings_version WHERE settings_version.id = event.settings_version)
                END AS stored_settings
        FROM \(DriverEvents.listedSQL())
        CROSS JOIN event_kind ON event_kind.id = event.kind
        CROSS JOIN settings_version ON settings_version.id = coalesce(\(foldSettings), event.settings_version)
        """
    }

    // MARK: A session

    static func events(ofSession sessionID: String, limit: Int, _ db: Database) throws -> RecordedEvents? {
        let row = try Row.fetchOne(
            db,
            sql: """
                SELECT session.id, driver.id, driver_id,
                    (SELECT max(corrected_at_ms) FROM event
                        WHERE event.session = session.id OR closed_session = session.id),
                    (SELECT max(id) FROM event WHERE closed_session = session.id)
                FROM session JOIN driver ON driver.id = session.driver WHERE session_id = ?
                """,
            arguments: [sessionID])
        guard let row, let last: Int64 = row[3] else { return nil }
        let driver: Int64 = row[1]
        // The number of the session's events that the walk backwards has not reached yet. At 0, the walk has passed the
        // session's first event.
        var left = try Int.fetchOne(db, sql: "SELECT count(*) FROM event WHERE session = ?", arguments: [row[0]]) ?? 0
        // The event by which another journey closed the session; nil if there is none. It is the last event of the
        // result.
        let closing: Int64? = row[4]
        let rows = try backwards(from: last, of: driver, db)
        let begin = try FoldBegin(of: driver, db)
        var isWithin = false
        return try collect(rows, of: DriverID(row[2]), from: begin, limit: limit) { event in
            if left == 0 && event.endsJourney { return .stop }
            if event.sessionID.map({ $0.utf8.elementsEqual(sessionID.utf8) }) ?? false {
                left -= 1
                isWithin = true
            }
            if event.id == closing { isWithin = true }
            return isWithin ? .take : .skip
        }
    }

    // MARK: A driver

    static func events(of driver: DriverID, last: Int, _ db: Database) throws -> RecordedEvents? {
        let id = try Int64.fetchOne(db, sql: "SELECT id FROM driver WHERE driver_id = ?", arguments: [driver.rawValue])
        guard let id else { return nil }
        let rows = try backwards(from: .max, of: id, db)
        let events = try collect(rows, of: driver, from: try FoldBegin(of: id, db), limit: last) { _ in .take }
        return events.events.isEmpty ? nil : events
    }

    // MARK: Walking back

    /// The beginning of the driver's fold. If the driver has a floor, the fold begins at the floor, because retention
    /// has deleted events before it. Otherwise it begins with the driver's first event.
    private struct FoldBegin {
        var floor = Moment(millisecondsSinceEpoch: .min)
        var journey = Journey()

        init(of driver: Int64, _ db: Database) throws {
            // Only a server of this version or later creates the table `journey_base`. Without this table, no driver
            // has a floor.
            guard try db.tableExists("journey_base") else { return }
            let row = try Row.fetchOne(
                db,
                sql: """
                    SELECT floor_at_ms, journey_base.state,
                        (SELECT session_id FROM session WHERE session.id = journey_base.session),
                        (SELECT place_id FROM place WHERE place.id = journey_base.target_charger),
                        (SELECT place_id FROM place WHERE place.id = journey_base.next_target_charger),
                        journey_base.grace_deadline_ms, journey_base.hard_deadline_ms, journey_base.ended_by,
                        (SELECT session_id FROM session WHERE session.id = journey_base.previous_session)
                    FROM driver JOIN journey_base ON journey_base.driver = driver.id
                    WHERE driver.id = ? AND floor_at_ms IS NOT NULL
                    """,
                arguments: [driver])
            guard let row else { return }
            floor = Moment(millisecondsSinceEpoch: row[0])
            journey = try StoredEvents.journey(row, 1)
        }
    }

    private enum Step {
        case take
        case skip
        case stop
    }

    private static func backwards(from last: Int64, of driver: Int64, _ db: Database) throws -> DriverEventRows {
        // Older versions did not have these columns, so the file of an older version may lack them.
        let columns = Set(try db.columns(in: "event").map(\.name))
        let clocks =
            columns.contains("clock_rule") ? "timestamp_ms, clock_rule" : "NULL AS timestamp_ms, NULL AS clock_rule"
        let details = columns.contains("details") ? "details" : "NULL"
        let sender = try db.columns(in: "event_kind").contains { $0.name == "sender" } ? "sender" : "0"
        let foldSettings = columns.contains("fold_settings") ? "event.fold_settings" : "NULL"
        let select = sql(clocks: clocks, details: details, sender: sender, foldSettings: foldSettings)
        return try DriverEventRows(
            DriverEvents(of: driver, .backward, times: Int64.min...last, db),
            sql: "\(select) ORDER BY \(FoldOrder.descending)", db)
    }

    /// Collects events while walking back. If there are more than `limit` events, collects only the latest.
    ///
    /// `before` of an event is the journey after the preceding event. For the first event of the fold, `before` is the
    /// journey at the driver's floor. An event below the floor has no effect, so its `before` equals its `after`.
    private static func collect(
        _ rows: DriverEventRows, of driver: DriverID, from begin: FoldBegin, limit: Int, _ step: (RecordedEvent) -> Step
    ) throws -> RecordedEvents {
        var rows = rows
        var events: [RecordedEvent] = []
        while let row = try rows.next() {
            var event = try event(row)
            event.isBelowFloor = event.times.corrected < begin.floor
            event.before = event.isBelowFloor ? event.after : begin.journey
            if let last = events.indices.last, !event.isBelowFloor { events[last].before = event.after }
            let step = step(event)
            if step == .stop { break }
            if step == .skip { continue }
            if events.count == limit { return RecordedEvents(driver: driver, events: events.reversed(), isCut: true) }
            events.append(event)
        }
        return RecordedEvents(driver: driver, events: events.reversed(), isCut: false)
    }

    // MARK: One row

    private static func event(_ row: Row) throws -> RecordedEvent {
        guard let origin = UInt8(exactly: row[6] as Int64).flatMap(OrderedEvent.Origin.init(rawValue:)) else {
            throw SQLiteError.unreadable("origin")
        }
        return RecordedEvent(
            id: row[0], eventID: row[1], idempotencyKey: row[2], name: try StoredEvents.name(row, 3), spelling: row[5],
            isBelowFloor: false, origin: origin, sent: SentMembers(row, at: 30), sessionID: row[7],
            times: times(row, 8), metadata: row[14],
            settings: RecordedEvent.SettingsUsed(
                version: row[15], storedVersion: row["stored_settings"], gracePeriodSeconds: row[16],
                hardTimeoutSeconds: row[17]),
            verdict: try StoredEvents.verdict(row, 18), before: Journey(), after: try StoredEvents.journey(row, 21),
            previousState: (row[29] as Int64?).flatMap(JourneyState.init(code:)))
    }

    private static func times(_ row: Row, _ first: Int) -> RecordedEvent.Times {
        RecordedEvent.Times(
            occurredAtText: row[first], occurredAt: Moment(millisecondsSinceEpoch: row[first + 1]),
            corrected: Moment(millisecondsSinceEpoch: row[first + 2]), sentAt: StoredEvents.moment(row[first + 3]),
            timestamp: StoredEvents.moment(row["timestamp_ms"]),
            receivedAt: Moment(millisecondsSinceEpoch: row[first + 4]), skewMilliseconds: row[first + 5],
            rule: (row["clock_rule"] as Int64?).flatMap(ClockRule.init(code:)))
    }
}

extension RecordedEvent {
    /// Whether the journey ends with this event. The driver's later events then belong to the next journey, even if
    /// they only choose a charger or are diagnostic events.
    fileprivate var endsJourney: Bool {
        verdict.transition == .applied && (after.state == .idle || after.state == .sessionEnded)
    }
}
