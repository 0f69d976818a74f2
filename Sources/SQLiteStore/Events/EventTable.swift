// Reads and adds rows of `event`. Updates the row of an event when a refold gives the event another result.

import Engine
import JourneyModel

/// An event to be inserted, with the row numbers of all rows that it references.
struct NewEventRow {
    var driver: Int64
    var append: PreparedAppend
    var placed: OrderedEvent
    var kind: Int64
    var session: Int64?
    var charger: Int64?
    var merchant: Int64?
    var settingsVersion: Int64
    var clock: ClockCorrection
    /// The fold sets this property and the following ones.
    var verdict = Verdict.none
    var after = StoredJourney()
    var secondPlace: Int64?
    var closedSession: Int64?
}

/// A stored event as the fold needs it.
struct FoldedEventRow {
    var id: Int64
    var event: OrderedEvent
    /// Row numbers in `session` and `place`.
    var session: Int64?
    var charger: Int64?
    var verdict: Verdict
    var after: StoredJourney
    /// The event's index among the events that share its second (`sharesSecond`). Nil for an expiry event of the
    /// server, and for an event whose time has a fraction of a second.
    var secondPlace: Int64?
    var closedSession: Int64?
    /// Row numbers in `settings_version`. `settingsVersion` belongs to the settings stored with the event. If an
    /// operator's correction replaces these settings in the fold, `foldSettings` belongs to the replacement; otherwise
    /// it is nil.
    ///
    /// The durations in `event` are those of `foldSettings`, or those of `settingsVersion` if `foldSettings` is nil.
    var settingsVersion: Int64
    var foldSettings: Int64?
    /// Whether `foldSettings` differs from the stored value.
    var hasNewFoldSettings = false
    var receivedAt: Moment
}

/// The stored event with a given idempotency key.
struct StoredKeyRow {
    var eventID: String
    var verdict: Verdict
    /// Whether the new event with this key repeats the stored one.
    var isRepeat: Bool
}

/// The column `event.digest`.
enum EventDigest {
    /// Returns the first 16 bytes of an event's SHA-256 (`PreparedAppend.digest`). Two different events never have the
    /// same 16 bytes by chance. A driver who constructs two such events harms only that driver's own data.
    static func stored(_ digest: [UInt8]) -> ArraySlice<UInt8> { digest.prefix(16) }
}

final class EventTable {
    let keys: EventKeys
    let chain: EventChain
    private let findKey: PreparedStatement
    private let add: PreparedStatement
    private let updateVerdict: PreparedStatement
    private let byID: PreparedStatement
    private let listed: PreparedStatement
    private let findBase: PreparedStatement

    /// - Parameters:
    ///   - newestKeys: the memory for the keys of the newest events. It is filled when a key is first used.
    ///   - derivesEvidence: whether `forEach` computes `previous_state` and `second_place` for rows of old releases,
    ///     which lack these values. A refold that writes passes false, because it first stores the values
    ///     (Refolding.swift).
    init(
        on connection: OpaquePointer, newestKeys: NewestKeys = NewestKeys(), derivesEvidence: Bool = false
    ) throws(SQLiteError) {
        findKey = try PreparedStatement(
            """
            SELECT coalesce(event_id, idempotency_key), digest, transition, reason, implied,
                (SELECT app_state FROM event_kind WHERE event_kind.id = event.kind),
                (SELECT schema_version FROM event_kind WHERE event_kind.id = event.kind), details IS NOT NULL
            FROM event WHERE id = ?1 AND driver = ?2 AND key = ?3
            """, on: connection)
        keys = try EventKeys(on: connection, newest: newestKeys)
        chain = try EventChain(on: connection)
        add = try PreparedStatement(Self.addSQL, on: connection)
        updateVerdict = try PreparedStatement(
            """
            UPDATE event_row SET transition = ?2, reason = ?3, implied = ?4, after_state = ?5, after_session = ?6,
            after_target_charger = ?7, after_next_target_charger = ?8, after_grace_offset_ms = ?9,
            after_hard_offset_ms = ?10, after_ended_by = ?11, after_previous_session = ?12, second_place = ?13,
            closed_session = ?14, fold_settings = ?15 WHERE id = ?1
            """, on: connection)
        byID = try PreparedStatement("\(Self.foldedSQL) WHERE event.id = ?1", on: connection)
        listed = try PreparedStatement(
            """
            \(derivesEvidence ? Self.derivedSQL : Self.foldedSQL) WHERE event.id IN (SELECT value FROM json_each(?1))
            ORDER BY \(FoldOrder.ascending)
            """, on: connection)
        findBase = try PreparedStatement(
            """
            SELECT state, session, (SELECT session_id FROM session WHERE session.id = journey_base.session),
                target_charger, (SELECT place_id FROM place WHERE place.id = target_charger),
                next_target_charger, (SELECT place_id FROM place WHERE place.id = next_target_charger),
                grace_deadline_ms, hard_deadline_ms, ended_by, previous_session,
                (SELECT session_id FROM session WHERE session.id = journey_base.previous_session)
            FROM journey_base WHERE driver = ?1
            """, on: connection)
    }

    private static let addSQL = """
        INSERT INTO event_row (
            driver, corrected_at_ms, kind, session, charger, sequence, settings_version, received_offset_ms,
            previous_state, second_place, transition, reason, implied, after_state, after_session, after_target_charger,
            after_next_target_charger, after_grace_offset_ms, after_hard_offset_ms, after_ended_by,
            after_previous_session, closed_session, key, digest, event_id, occurred_offset_ms, occurred_at_text, skew_ms,
            sent_offset_ms, timestamp_offset_ms, clock_rule, merchant, metadata, details, id, previous, jump)
        VALUES (
            ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23,
            ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36, ?37)
        """

    /// Selects stored events as the fold needs them. Callers append WHERE and, for several rows, ORDER BY. CROSS JOIN
    /// makes SQLite read `event` before the other tables.
    private static let foldedSQL = foldedSQL(previousState: "previous_state", secondPlace: "second_place")

    private static func foldedSQL(previousState: String, secondPlace: String) -> String {
        """
        SELECT event.id, event.session, (SELECT session_id FROM session WHERE session.id = event.session),
            event.charger, (SELECT place_id FROM place WHERE place.id = event.charger),
            name, corrected_at_ms, sequence, coalesce(event_id, idempotency_key), idempotency_key, origin,
            grace_period_seconds, hard_timeout_seconds, transition, reason, implied,
            after_state, after_session, (SELECT session_id FROM session WHERE session.id = after_session),
            after_target_charger, (SELECT place_id FROM place WHERE place.id = after_target_charger),
            after_next_target_charger, (SELECT place_id FROM place WHERE place.id = after_next_target_charger),
            after_grace_deadline_ms, after_hard_deadline_ms, after_ended_by,
            after_previous_session, (SELECT session_id FROM session WHERE session.id = after_previous_session),
            \(previousState), \(secondPlace), closed_session, event.settings_version, received_at_ms, sender,
            fold_settings
        FROM event
        CROSS JOIN event_kind ON event_kind.id = event.kind
        CROSS JOIN settings_version ON settings_version.id = \(foldSettingsSQL)
        """
    }

    /// SQL expression for the row number of the settings that the fold uses for an event.
    static let foldSettingsSQL = "coalesce(event.fold_settings, event.settings_version)"

    /// SQL expression for the state that the phone reported with an event of an old release. These releases stored the
    /// state only in the metadata.
    static var evidenceSQL: String {
        let states = JourneyState.allCases.map { "WHEN '\($0.rawValue)' THEN \($0.code)" }.joined(separator: " ")
        return "CASE json_extract(metadata, '$.previous_state') \(states) END"
    }

    /// Like `foldedSQL`, but computes `previous_state` and `second_place` if an old release left them empty. The alias
    /// `second_place` hides the stored column, so ORDER BY uses the computed value.
    private static let derivedSQL = foldedSQL(
        previousState: """
            coalesce(previous_state, CASE WHEN instr(metadata, '"previous_state"') > 0 THEN \(evidenceSQL) END)
            """,
        secondPlace: """
            coalesce(second_place, CASE WHEN origin = 0 AND instr(occurred_at, '.') = 0 THEN row_number() OVER (
                PARTITION BY corrected_at_ms, sequence, origin = 0 AND instr(occurred_at, '.') = 0
                ORDER BY event.id) - 1 END) AS second_place
            """)

    func stored(underKeyOf append: PreparedAppend, of driver: Int64) throws(SQLiteError) -> StoredKeyRow? {
        let key = StoredKey(append.request.submission.idempotencyKey)
        return try keys.first(key, of: driver) { (event) throws(SQLiteError) in
            try findKey.first { (bindings) throws(SQLiteError) in
                try bindings.set(1, event)
                try bindings.set(2, driver)
                try key.bind(to: bindings, at: 3)
            } read: { (row) throws(SQLiteError) in
                var isRepeat = row.isBlob(1, equalTo: EventDigest.stored(append.digest))
                if !isRepeat {
                    let digest = row.blob(1)
                    isRepeat = append.request.submission.isRepeat(
                        withStoredAppState: row.optionalText(5), schemaVersion: row.text(6),
                        hasDetails: row.integer(7) != 0,
                        hasStoredDigest: { EventDigest.stored($0).elementsEqual(digest) })
                }
                return StoredKeyRow(eventID: row.text(0), verdict: try Verdict(row, at: 2), isRepeat: isRepeat)
            }
        }
    }

    /// Must be called after a rollback, and when other code or another connection may have added events.
    func forget() { keys.forget() }

    /// Adds a row at its position in the driver's chain, and returns the row number. The caller must then write the
    /// driver, because `driver.chain` has changed.
    func add(_ event: NewEventRow, to driver: DriverRow) throws(SQLiteError) -> Int64 {
        let id = try keys.nextNumber()
        let time = event.clock.corrected.millisecondsSinceEpoch
        if let links = driver.append(id, at: time) {
            try add(event, id, previous: links.previous, jump: links.jump)
        } else {
            let insertion = try driver.changeChain { (end) throws(SQLiteError) in
                try chain.insertion(of: id, at: time, into: &end)
            }
            try add(event, id, previous: insertion.previous, jump: insertion.jump)
            try chain.link(insertion, to: id)
        }
        return id
    }

    private func add(_ event: NewEventRow, _ id: Int64, previous: Int64?, jump: Int64?) throws(SQLiteError) {
        let append = event.append
        let corrected = event.clock.corrected
        let key = StoredKey(append.request.submission.idempotencyKey)
        try add.run { (bindings) throws(SQLiteError) in
            try bindings.set(1, event.driver)
            try bindings.set(2, corrected.millisecondsSinceEpoch)
            try bindings.set(3, event.kind)
            try bindings.set(4, event.session)
            try bindings.set(5, event.charger)
            try bindings.set(6, append.request.submission.sequence)
            try bindings.set(7, event.settingsVersion)
            try bindings.set(8, append.request.receivedAt.milliseconds(since: corrected))
            try bindings.set(9, event.placed.previousState?.code)
            try bindings.set(10, event.secondPlace)
            try event.verdict.bind(to: bindings, at: 11)
            try event.after.bind(to: bindings, at: 14, since: corrected)
            try bindings.set(22, event.closedSession)
            try key.bind(to: bindings, at: 23)
            try bindings.set(24, blob: EventDigest.stored(append.digest))
            try bindings.set(25, append.request.submission.eventIDUnlessKey)
            try bindings.set(26, append.request.submission.occurredAt.milliseconds(since: corrected))
            try bindings.set(
                27,
                OccurredAtColumn.text(
                    append.request.submission.occurredAtText, at: append.request.submission.occurredAt))
            try bindings.set(28, event.clock.skewMilliseconds)
            try bindings.set(29, append.request.submission.sendTime?.milliseconds(since: corrected))
            if append.request.submission.sentAt != nil {
                try bindings.set(30, append.request.submission.timestamp?.milliseconds(since: corrected))
            }
            try bindings.set(31, event.placed.origin == .client ? event.clock.rule.code : nil)
            try bindings.set(32, event.merchant)
            try bindings.set(33, append.request.submission.metadata)
            if let details = append.request.submission.details { try bindings.set(34, details) }
            try bindings.set(35, id)
            try bindings.set(36, previous)
            try bindings.set(37, jump)
        }
        try keys.add(id, under: key, of: event.driver)
    }

    /// Updates a row to the fold's new result.
    func update(_ folded: Refolded) throws(SQLiteError) {
        try updateVerdict.run { (bindings) throws(SQLiteError) in
            try bindings.set(1, folded.row.id)
            try folded.verdict.bind(to: bindings, at: 2)
            try folded.after.bind(to: bindings, at: 5, since: folded.row.event.occurredAt)
            try bindings.set(13, folded.secondPlace)
            try bindings.set(14, folded.closedSession)
            try bindings.set(15, folded.row.foldSettings)
        }
    }

    func event(_ id: Int64) throws(SQLiteError) -> FoldedEventRow? {
        try byID.first { (bindings) throws(SQLiteError) in
            try bindings.set(1, id)
        } read: { (row) throws(SQLiteError) in
            try FoldedEventRow(row)
        }
    }

    /// Returns the events with these ids, in the order of the fold.
    func events(_ ids: [Int64]) throws(SQLiteError) -> [FoldedEventRow] {
        var rows: [FoldedEventRow] = []
        try listed.forEach { (bindings) throws(SQLiteError) in
            try bindings.set(1, DriverEvents.list(ids))
        } visit: { (row) throws(SQLiteError) in
            rows.append(try FoldedEventRow(row))
            return true
        }
        return rows
    }

    /// Returns the journey at the driver's floor; nil for a driver without a floor.
    func base(of driver: Int64) throws(SQLiteError) -> StoredJourney? {
        try findBase.first { (bindings) throws(SQLiteError) in
            try bindings.set(1, driver)
        } read: { (row) throws(SQLiteError) in
            try StoredJourney(row, at: 0)
        }
    }
}

extension FoldedEventRow {
    fileprivate init(_ row: borrowing Columns) throws(SQLiteError) {
        id = row.integer(0)
        session = row.optionalInteger(1)
        charger = row.optionalInteger(3)
        guard let name = EventName(canonical: row.text(5), hasSession: session != nil),
            let origin = UInt8(exactly: row.integer(10)).flatMap(OrderedEvent.Origin.init(rawValue:)),
            let sender = UInt8(exactly: row.integer(33)).flatMap(OrderedEvent.Sender.init(rawValue:))
        else { throw SQLiteError.unreadable("name, origin or sender") }
        event = OrderedEvent(
            name: name, sessionID: row.optionalText(2), chargerID: row.optionalText(4),
            occurredAt: Moment(millisecondsSinceEpoch: row.integer(6)), sequence: row.optionalInteger(7),
            eventID: row.text(8), idempotencyKey: row.text(9), origin: origin, sender: sender,
            previousState: row.optionalInteger(28).flatMap(JourneyState.init(code:)),
            isWholeSecond: row.optionalInteger(29) != nil, gracePeriodSeconds: Int(row.integer(11)),
            hardTimeoutSeconds: Int(row.integer(12)))
        verdict = try Verdict(row, at: 13)
        after = try StoredJourney(row, at: 16)
        secondPlace = row.optionalInteger(29)
        closedSession = row.optionalInteger(30)
        settingsVersion = row.integer(31)
        receivedAt = Moment(millisecondsSinceEpoch: row.integer(32))
        foldSettings = row.optionalInteger(34)
    }
}
