// The statements on the table of events: reads for the fold, the insert of new events, the update of refolded events.

import Engine
import JourneyModel
import Postgres

/// An event of a batch, with its driver's id.
struct EventOfDriver: Sendable {
    var driver: Int64
    var folded: FoldedEvent
    /// Set only for `addPlaced`.
    var position: Int64?

    private static let keys: [ArrayColumn<EventOfDriver>] = [
        .int8("driver") { $0.driver }, .int8("seq") { $0.folded.seq },
    ]

    /// The columns of a stored event that a refold may change.
    private static let folded: [ArrayColumn<EventOfDriver>] =
        Verdict.columns { $0.folded.verdict } + JourneyColumns.columns("after_") { $0.folded.after } + [
            .int8("second_place") { $0.folded.secondPlace },
            .text("closed_session_id") { $0.folded.closedSessionID },
        ]

    private static let sent: [ArrayColumn<EventOfDriver>] = [
        .text("idempotency_key") { $0.folded.event.idempotencyKey },
        .text("event_id") { $0.submission?.eventIDUnlessKey },
        .bytea("digest") { $0.folded.unsaved?.append.digest },
        .text("name") { $0.folded.event.name.canonical },
        .text("spelling") { $0.submission?.spelling },
        .text("schema_version") { $0.submission?.schemaVersion },
        .text("source") { $0.submission?.source },
        .text("app_state") { $0.submission?.appState },
        .int2("lifecycle_rank") { Int16($0.folded.event.name.lifecycleRank) },
        .int2("origin") { Int16($0.folded.event.origin.rawValue) },
        .int2("sender") { Int16($0.folded.event.sender.rawValue) },
        .text("session_id") { $0.folded.event.sessionID },
        .text("charger") { $0.folded.event.chargerID },
        .text("merchant") { $0.submission?.merchantID },
        .text("settings_version") { $0.folded.unsaved?.settingsVersion },
        .text("occurred_at") { $0.submission?.occurredAtText },
        .int8("occurred_at_ms") { $0.submission?.occurredAt.millisecondsSinceEpoch },
        .int8("corrected_at_ms") { $0.folded.event.occurredAt.millisecondsSinceEpoch },
        .int8("skew_ms") { $0.folded.unsaved?.clock.skewMilliseconds },
        .int2("clock_rule") { event in
            event.folded.event.origin == .client ? event.folded.unsaved.map { Int16($0.clock.rule.code) } : nil
        },
        .int8("sent_at_ms") { $0.submission?.sendTime?.millisecondsSinceEpoch },
        .int8("timestamp_ms") { event in
            event.submission?.sentAt == nil ? nil : event.submission?.timestamp?.millisecondsSinceEpoch
        },
        .int8("received_at_ms") { $0.folded.unsaved?.append.request.receivedAt.millisecondsSinceEpoch },
        .int8("sequence") { $0.folded.event.sequence },
        .int2("previous_state") { $0.folded.event.previousState.map { Int16($0.code) } },
        .text("metadata") { $0.submission?.metadata },
        .text("details") { $0.submission?.details },
    ]

    private var submission: EventSubmission? { folded.unsaved?.append.request.submission }

    private var lane: Int16 { Lane.of(driver: driver) }

    // MARK: Writing

    /// Inserts the events of those drivers that this transaction has updated.
    static let add = PostgresStatement(
        "events_added",
        """
        INSERT INTO event (lane, position, batch, \(ArrayColumn.names(keys + sent + folded)))
        SELECT driver.lane, \(EventPosition.ofTransaction) + least(given.place, \(EventPosition.placeMax)), $3::int8,
            \(ArrayColumn.names(keys + sent + folded, of: "given"))
        FROM \(ArrayColumn.unnest(keys + sent + folded, from: 4, as: "given", numbered: "place")),
            \(RowByKey.movedDriver("given.driver"))
        """)

    static func addQuery(_ events: [EventOfDriver], batch: Int64) -> PostgresQuery {
        PostgresQuery(
            add, LaneParameters.any + [.int8(batch)] + (keys + sent + folded).map { $0.values(events) })
    }

    /// Like `add`, for Citus. The worker that inserts the events cannot read the coordinator's transaction number, so
    /// the position of each event is a parameter.
    static let addPlaced = PostgresStatement(
        "events_added_placed",
        """
        INSERT INTO event (lane, position, batch, \(ArrayColumn.names(keys + sent + folded)))
        SELECT driver.lane, given.position, $3::int8, \(ArrayColumn.names(keys + sent + folded, of: "given"))
        FROM \(ArrayColumn.unnest(keys + sent + folded + [placed], from: 4, as: "given")),
            \(RowByKey.movedDriver("given.driver"))
        """)

    private static let placed: ArrayColumn<EventOfDriver> = .int8("position") { $0.position }

    static func addPlacedQueries(
        _ events: [EventOfDriver], batch: Int64, after position: Int64, _ shards: Shards
    ) -> [PostgresQuery] {
        let placed = events.enumerated().map { index, event in
            var event = event
            event.position = position + min(Int64(index) + 1, EventPosition.placeMax)
            return event
        }
        return shards.queries(addPlaced, placed, lane: \.lane) { events in
            [.int8(batch)] + (keys + sent + folded + [Self.placed]).map { $0.values(events) }
        }
    }

    /// Writes the fold's new results into stored events. Skips events of drivers whom this transaction has not updated.
    static let update = PostgresStatement(
        "events_refolded",
        """
        UPDATE event SET \(folded.map { "\($0.name) = given.\($0.name)" }.joined(separator: ", "))
        FROM \(ArrayColumn.unnest(keys + folded, from: 4, as: "given")),
            \(RowByKey.movedDriver("given.driver"))
        WHERE \(LaneParameters.condition("event")) AND event.driver = given.driver AND event.seq = given.seq
        """)

    static func updateQueries(_ events: [EventOfDriver], batch: Int64, _ shards: Shards) -> [PostgresQuery] {
        shards.queries(update, events, lane: \.lane) { events in
            [.int8(batch)] + (keys + folded).map { $0.values(events) }
        }
    }

    private static let corrected: ArrayColumn<EventOfDriver> = .text("fold_settings") { event in
        let (stored, used) = (event.folded.storedVersion, event.folded.settingsVersion)
        return stored.map(TextKey.init) == used.map(TextKey.init) ? nil : used
    }

    /// Stores the version of the settings with which a corrected event is folded. Skips events of drivers whom this
    /// transaction has not updated.
    static let correct = PostgresStatement(
        "events_corrected",
        """
        UPDATE event SET fold_settings = given.fold_settings
        FROM \(ArrayColumn.unnest(keys + [corrected], from: 4, as: "given")),
            \(RowByKey.movedDriver("given.driver"))
        WHERE \(LaneParameters.condition("event")) AND event.driver = given.driver AND event.seq = given.seq
        """)

    static func correctQueries(_ events: [EventOfDriver], batch: Int64, _ shards: Shards) -> [PostgresQuery] {
        shards.queries(correct, events, lane: \.lane) { events in
            [.int8(batch)] + (keys + [corrected]).map { $0.values(events) }
        }
    }
}

/// The stored event with a given idempotency key.
struct StoredKey: Sendable {
    var eventID: String
    var digest: [UInt8]
    var verdict: Verdict
    var appState: String?
    var schemaVersion: String
    var hasDetails: Bool
    /// The number of the batch that stored the event; nil for an event that was transferred from SQLite.
    var batch: Int64?
    /// The version of the driver when the event was read.
    var driverVersion: Int64

    /// Reads the columns of `EventStatements.keys` from `first` on.
    init(_ row: PostgresRow, at first: Int) throws(PostgresError) {
        eventID = try row.text(first)
        digest = try row.bytea(first + 1)
        verdict = try Verdict(row, at: first + 2)
        appState = try row.optionalText(first + 5)
        schemaVersion = try row.text(first + 6)
        hasDetails = try row.bool(first + 7)
        batch = try row.optionalInt8(first + 8)
        driverVersion = try row.int8(first + 9)
    }

    /// Returns whether the submission repeats the stored event. For an event that was transferred from SQLite, only the
    /// first half of the digest is stored, so only this half is compared.
    func isRepeated(by submission: EventSubmission, digest: [UInt8]) -> Bool {
        digest.starts(with: self.digest)
            || submission.isRepeat(
                withStoredAppState: appState, schemaVersion: schemaVersion, hasDetails: hasDetails
            ) { $0.starts(with: self.digest) }
    }
}

enum EventStatements {
    /// Returns the stored events that have one of the given pairs of driver and key. Parameters: `LaneParameters`, the
    /// `driver_id` of drivers, idempotency keys.
    static let keys = PostgresStatement(
        "keys",
        """
        SELECT driver.driver_id, event.idempotency_key, coalesce(event.event_id, event.idempotency_key), event.digest,
            \(Verdict.columnNames), event.app_state, event.schema_version, event.details IS NOT NULL,
            event.batch, driver.version
        FROM unnest($3::text[], $4::text[]) asked(driver_id, idempotency_key), \(RowByKey.askedDriver),
            \(RowByKey.askedEvent)
        """)

    /// For each driver, the position of the event with the highest `seq`. Parameters: `LaneParameters`, the `driver_id`
    /// of drivers.
    static let lastPositions = PostgresStatement(
        "last_positions",
        """
        SELECT event.position FROM unnest($3::text[]) asked(driver_id), \(RowByKey.askedDriver), \(RowByKey.lastEvent)
        """)

    /// The `driver.id`, then the columns that `FoldedEvent` reads.
    static let foldedColumns = """
        event.driver, event.seq, event.name, event.session_id, event.charger, event.corrected_at_ms, event.sequence,
        coalesce(event.event_id, event.idempotency_key), event.idempotency_key, event.origin, event.sender,
        event.previous_state, settings_version.grace_period_seconds, settings_version.hard_timeout_seconds,
        event.second_place, event.closed_session_id, event.transition, event.reason, event.implied,
        \(JourneyColumns.after), settings_version.version, event.settings_version, event.received_at_ms
        """
    /// The number of `foldedColumns`, and the index of `settings_version.version` among them.
    static let foldedColumnCount = 30
    static let foldedVersionColumn = 27

    /// For each driver, the events with times from `asked.from_ms` to `last.at_ms`, unsorted. The subquery `last` skips
    /// the first `asked.events_max` events after `asked.from_ms`, and returns the time of the following event.
    ///
    /// The last column contains `last.at_ms`. If `last` finds no event, the column is NULL, and all events from
    /// `asked.from_ms` on are read.
    ///
    /// Without OFFSET 0, PostgreSQL could compute `last.at_ms` once per event.
    ///
    /// Parameters: `LaneParameters`, and for each driver the `driver.id`, `from_ms` and `events_max`.
    static let tails = PostgresStatement("event_tails", tailsSQL("JOIN"))

    /// Like `tails`, but sorted by PostgreSQL, because the check of stored journeys must not rely on the code of the
    /// fold. Also returns events without settings, which `FoldedEvent` cannot read.
    static let sortedTails = PostgresStatement("event_tails_sorted", "\(tailsSQL("LEFT JOIN")) ORDER BY \(ascending)")

    private static func tailsSQL(_ join: String) -> String {
        """
        SELECT \(foldedColumns), nullif(last.at_ms, \(Int64.max))
        FROM unnest($3::int8[], $4::int8[], $5::int8[]) asked(driver, from_ms, events_max), LATERAL (
            SELECT coalesce((
                SELECT event.corrected_at_ms FROM event
                WHERE event.driver = asked.driver AND \(LaneParameters.condition("event"))
                    AND event.corrected_at_ms > asked.from_ms
                ORDER BY event.corrected_at_ms LIMIT 1 OFFSET asked.events_max), \(Int64.max)) AS at_ms OFFSET 0) last, LATERAL (
            SELECT * FROM event WHERE event.driver = asked.driver AND \(LaneParameters.condition("event"))
                AND event.corrected_at_ms >= asked.from_ms AND event.corrected_at_ms <= last.at_ms
            OFFSET 0) event
        \(join) settings_version ON settings_version.version = coalesce(event.fold_settings, event.settings_version)
        """
    }

    /// For each driver, the journey after the last event before a given time. Ignores events below the driver's floor.
    ///
    /// The subquery `latest` finds the millisecond of this last event by the index. The subquery `last` sorts only the
    /// events of this millisecond.
    ///
    /// Parameters: `LaneParameters`, the `driver.id` of drivers, times, floors.
    static let starts = PostgresStatement(
        "journey_starts",
        """
        SELECT asked.driver, \(JourneyColumns.after)
        FROM unnest($3::int8[], $4::int8[], $5::int8[]) asked(driver, before_ms, floor_ms), LATERAL (
            SELECT event.corrected_at_ms FROM event
            WHERE event.driver = asked.driver AND \(LaneParameters.condition("event"))
                AND event.corrected_at_ms < asked.before_ms AND event.corrected_at_ms >= asked.floor_ms
            ORDER BY event.corrected_at_ms DESC LIMIT 1) latest, LATERAL (
            SELECT * FROM event WHERE event.driver = asked.driver AND \(LaneParameters.condition("event"))
                AND event.corrected_at_ms = latest.corrected_at_ms
            ORDER BY \(descending) LIMIT 1) last
        """)

    /// The journeys at drivers' floors (the times at which the fold begins). Parameters: `LaneParameters`, the
    /// `driver.id` of drivers.
    static let bases = PostgresStatement(
        "journey_bases",
        """
        SELECT journey_base.driver, \(JourneyColumns.head) FROM unnest($3::int8[]) asked(driver)
        JOIN journey_base ON journey_base.driver = asked.driver WHERE \(LaneParameters.condition("journey_base"))
        """)

    /// The order of the fold, written as the terms of ORDER BY. NULL comes before integers, and texts are compared by
    /// their bytes.
    static let ascending = """
        event.corrected_at_ms, event.origin, event.sequence NULLS FIRST, event.second_place NULLS FIRST,
        event.lifecycle_rank, coalesce(event.event_id, event.idempotency_key), event.idempotency_key
        """
    static let descending = """
        event.corrected_at_ms DESC, event.origin DESC, event.sequence DESC NULLS LAST,
        event.second_place DESC NULLS LAST, event.lifecycle_rank DESC,
        coalesce(event.event_id, event.idempotency_key) DESC, event.idempotency_key DESC
        """
}

extension FoldedEvent {
    /// Reads an event from a row that begins with `EventStatements.foldedColumns`. Skips the first column, the driver.
    init(_ row: PostgresRow) throws(PostgresError) {
        let sessionID = try row.optionalText(3)
        guard let name = EventName(canonical: try row.text(2), hasSession: sessionID != nil),
            let origin = UInt8(exactly: try row.int2(9)).flatMap(OrderedEvent.Origin.init(rawValue:)),
            let sender = UInt8(exactly: try row.int2(10)).flatMap(OrderedEvent.Sender.init(rawValue:))
        else { throw PostgresError(.unreadable, "an event has an unknown name, origin or sender") }
        let secondPlace = try row.optionalInt8(14)
        let event = OrderedEvent(
            name: name, sessionID: sessionID, chargerID: try row.optionalText(4), occurredAt: try row.moment(5),
            sequence: try row.optionalInt8(6), eventID: try row.text(7), idempotencyKey: try row.text(8),
            origin: origin, sender: sender,
            previousState: try row.optionalInt2(11).flatMap { JourneyState(code: Int64($0)) },
            isWholeSecond: secondPlace != nil, gracePeriodSeconds: Int(try row.int8(12)),
            hardTimeoutSeconds: Int(try row.int8(13)))
        self.init(
            seq: try row.int8(1), event: event, verdict: try Verdict(row, at: 16), after: try Journey(row, at: 19),
            secondPlace: secondPlace, closedSessionID: try row.optionalText(15), settingsVersion: try row.text(27),
            storedVersion: try row.text(28), receivedAt: try row.moment(29))
    }

    /// Returns whether `one` comes before `other` in the stored order. If two events share a second, the places that
    /// the fold gave them (`secondPlace`) decide. FoldOrder in SQLite's store has the same order.
    static func isStored(_ one: FoldedEvent, before other: FoldedEvent) -> Bool {
        if one.event.sharesSecond(with: other.event), let place = one.secondPlace, let otherPlace = other.secondPlace,
            place != otherPlace
        {
            return place < otherPlace
        }
        return one.event < other.event
    }
}
