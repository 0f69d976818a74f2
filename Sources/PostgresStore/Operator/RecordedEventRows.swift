// `RecordedEventReader` on PostgreSQL: reads a driver's stored events in pages, in the reverse order of the fold.

package import Engine
package import JourneyModel
import Postgres

extension PostgresEventStore: RecordedEventReader {
    /// The number of events per read.
    private static let recordedPageMax = 1000

    package func recordedEvents(
        ofSession sessionID: String, limit: Int
    ) async throws(StoreFailure) -> RecordedEvents? {
        let found = try await read([
            PostgresQuery(RecordedEventStatements.owner, [.text(sessionID), .int2(Lane.of(sessionID))])
        ])
        guard let row = found[0].rows.first else { return nil }
        let id = try decoded { () throws(PostgresError) in try row.int8(0) }
        let session = try await read([
            PostgresQuery(
                RecordedEventStatements.session,
                try await shards().parameters(ofDriver: id) + [.int8(id), .text(sessionID)])
        ])
        guard let row = session[0].rows.first else { return nil }
        let (driver, lastAt, closing) = try decoded { () throws(PostgresError) in
            (DriverID(try row.text(1)), try row.optionalInt8(2), try row.optionalInt8(3))
        }
        guard let lastAt else { return nil }
        // `left` is the number of the session's events that the walk has not reached yet. If it is 0, the walk has
        // reached the first event of the session.
        var left = try decoded { () throws(PostgresError) in try row.int8(4) }
        var isWithin = false
        return try await collect(of: id, driver, from: lastAt, limit: limit) { event in
            if left == 0, event.endsJourney { return .stop }
            if event.sessionID.map(TextKey.init) == TextKey(sessionID) {
                left -= 1
                isWithin = true
            }
            // The event that closed the session may name another session. It is collected as the session's last event
            // all the same.
            if event.id == closing { isWithin = true }
            return isWithin ? .take : .skip
        }
    }

    package func recordedEvents(of driver: DriverID, limit: Int) async throws(StoreFailure) -> RecordedEvents? {
        let found = try await read([PostgresQuery(RecordedEventStatements.driver, [.text(driver.rawValue)])])
        guard let row = found[0].rows.first else { return nil }
        let id = try decoded { () throws(PostgresError) in try row.int8(0) }
        let events = try await collect(of: id, driver, from: .max, limit: limit) { _ in .take }
        return events.events.isEmpty ? nil : events
    }

    // MARK: Walking back

    private enum Step {
        case take
        case skip
        case stop
    }

    /// Returns the driver's floor and the journey at the floor. Retention deletes only events before the floor. If the
    /// driver has no floor, returns the earliest time and an empty journey.
    private func foldBegin(of driver: Int64) async throws(StoreFailure) -> (floor: Moment, journey: Journey) {
        let found = try await read([
            PostgresQuery(
                RecordedEventStatements.begin, try await shards().parameters(ofDriver: driver) + [.int8(driver)])
        ])
        return try decoded { () throws(PostgresError) in
            guard let row = found[0].rows.first else { return (Moment(millisecondsSinceEpoch: .min), Journey()) }
            return (try row.moment(0), try Journey(row, at: 1))
        }
    }

    /// Collects events on a walk backwards, from the last event at `lastAt` or earlier. An event's `before` is the
    /// `after` of its predecessor, which is the next row of the walk. There are two exceptions:
    ///
    /// - For the earliest event at or above the driver's floor, `before` is the journey at the floor.
    /// - For an event below the floor, `before` equals its own `after`.
    private func collect(
        of id: Int64, _ driver: DriverID, from lastAt: Int64, limit: Int, _ step: (RecordedEvent) -> Step
    ) async throws(StoreFailure) -> RecordedEvents {
        let begin = try await foldBegin(of: id)
        let lanes = try await shards().parameters(ofDriver: id)
        var events: [RecordedEvent] = []
        var (offset, isLast): (Int64, Bool) = (0, false)
        while !isLast {
            let found = try await read([
                PostgresQuery(
                    RecordedEventStatements.events,
                    lanes + [.int8(id), .int8(lastAt), .int8(Int64(Self.recordedPageMax)), .int8(offset)])
            ])
            let page = try decoded { () throws(PostgresError) in
                var page: [RecordedEvent] = []
                for row in found[0].rows { page.append(try RecordedEvent(row)) }
                return page
            }
            isLast = page.count < Self.recordedPageMax
            offset += Int64(page.count)
            for var event in page {
                event.isBelowFloor = event.times.corrected < begin.floor
                event.before = event.isBelowFloor ? event.after : begin.journey
                if let last = events.indices.last, !event.isBelowFloor { events[last].before = event.after }
                switch step(event) {
                case .stop: return RecordedEvents(driver: driver, events: events.reversed(), isCut: false)
                case .skip: continue
                case .take where events.count == limit:
                    return RecordedEvents(driver: driver, events: events.reversed(), isCut: true)
                case .take: events.append(event)
                }
            }
        }
        return RecordedEvents(driver: driver, events: events.reversed(), isCut: false)
    }
}

extension RecordedEvent {
    /// Whether this event ends its journey. All later events belong to the following journey, even charger choices and
    /// diagnostic events.
    fileprivate var endsJourney: Bool {
        verdict.transition == .applied && (after.state == .idle || after.state == .sessionEnded)
    }

    /// Reads the columns of `RecordedEventStatements.events`.
    fileprivate init(_ row: PostgresRow) throws(PostgresError) {
        guard let origin = UInt8(exactly: try row.int2(7)).flatMap(OrderedEvent.Origin.init(rawValue:)) else {
            throw PostgresError(.unreadable, "an event has an unknown origin")
        }
        let times = Times(
            occurredAtText: try row.text(16), occurredAt: try row.moment(17), corrected: try row.moment(18),
            sentAt: try row.optionalMoment(19), timestamp: try row.optionalMoment(20),
            receivedAt: try row.moment(21), skewMilliseconds: try row.int8(22),
            rule: try row.optionalInt2(23).flatMap { ClockRule(code: Int64($0)) })
        let settings = SettingsUsed(
            version: try row.text(25), storedVersion: try row.optionalText(26),
            gracePeriodSeconds: Int(try row.int8(27)), hardTimeoutSeconds: Int(try row.int8(28)))
        self.init(
            id: try row.int8(0), eventID: try row.text(1), idempotencyKey: try row.text(2),
            name: try PostgresEventStore.name(row, 3), spelling: try row.text(5), isBelowFloor: false, origin: origin,
            sent: try SentMembers(row, at: 8), sessionID: try row.optionalText(6), times: times,
            metadata: try row.optionalText(24), settings: settings, verdict: try Verdict(row, at: 29),
            before: Journey(), after: try Journey(row, at: 32),
            previousState: try row.optionalInt2(15).flatMap { JourneyState(code: Int64($0)) })
    }
}

private enum RecordedEventStatements {
    static let driver = PostgresStatement(
        "recorded_driver", "SELECT id FROM driver WHERE driver_id = $1::text")

    /// Parameters: a session's id, its lane.
    static let owner = PostgresStatement(
        "recorded_owner", "SELECT owner FROM session_owner WHERE session_id = $1::text AND lane = $2::int2")

    /// Columns: the driver's two ids, the time of the session's last event, the `seq` of its closing event, and its
    /// event count.
    ///
    /// Parameters: `LaneParameters`, `driver.id`, the session's id.
    static let session = PostgresStatement(
        "recorded_session",
        """
        SELECT driver.id, driver.driver_id,
            (SELECT max(corrected_at_ms) FROM event WHERE event.driver = $3::int8 AND \(LaneParameters.condition("event"))
                AND (event.session_id = $4::text OR event.closed_session_id = $4::text)),
            (SELECT max(seq) FROM event WHERE event.driver = $3::int8 AND \(LaneParameters.condition("event"))
                AND event.closed_session_id = $4::text),
            (SELECT count(*) FROM event WHERE event.driver = $3::int8 AND \(LaneParameters.condition("event"))
                AND event.session_id = $4::text)
        FROM driver WHERE driver.id = $3::int8 AND \(LaneParameters.condition("driver"))
        """)

    static let begin = PostgresStatement(
        "recorded_begin",
        """
        SELECT driver.floor_at_ms, \(JourneyColumns.head.split(separator: ",").map {
            "journey_base." + $0.drop { $0.isWhitespace } }.joined(separator: ", "))
        FROM driver JOIN journey_base ON journey_base.driver = driver.id
        WHERE driver.id = $3::int8 AND driver.floor_at_ms IS NOT NULL
            AND \(LaneParameters.condition("driver")) AND \(LaneParameters.condition("journey_base"))
        """)

    /// A driver's events in the reverse order of the fold. Parameters: `LaneParameters`, `driver.id`, the highest
    /// corrected time, the number of rows, the number of rows to skip.
    static let events = PostgresStatement(
        "recorded_events",
        """
        SELECT event.seq, coalesce(event.event_id, event.idempotency_key), event.idempotency_key, event.name,
            event.session_id IS NOT NULL, event.spelling, event.session_id, event.origin, \(SentMembers.columns),
            event.previous_state, event.occurred_at, event.occurred_at_ms, event.corrected_at_ms, event.sent_at_ms,
            event.timestamp_ms, event.received_at_ms, event.skew_ms, event.clock_rule, event.metadata,
            settings_version.version, CASE WHEN event.fold_settings IS NOT NULL THEN event.settings_version END,
            settings_version.grace_period_seconds, settings_version.hard_timeout_seconds,
            event.transition, event.reason, event.implied, \(JourneyColumns.after)
        FROM event
        JOIN settings_version ON settings_version.version = coalesce(event.fold_settings, event.settings_version)
        WHERE event.driver = $3::int8 AND event.corrected_at_ms <= $4::int8 AND \(LaneParameters.condition("event"))
        ORDER BY \(EventStatements.descending) LIMIT $5::int8 OFFSET $6::int8
        """)
}
