// All data held about a driver as one JSON document, for GET /auth/me/export. Tokens and digests are left out, because
// they contain nothing about a person. They only give access to such data.
//
// A driver may have a gigabyte of events. The document is therefore made in pieces, and between two pieces only the
// position in the document is kept in memory.

import Engine
import GRDB
import Identity
import JourneyModel

/// A document in progress. Each piece may be read in a separate snapshot. Rows that were stored after the first piece
/// was read may therefore be in the document. Rows that retention has deleted since then may be missing.
struct AccountExport: Sendable {
    /// Minimum number of bytes of every piece except the last. A piece ends after the row with which its length reaches
    /// this minimum.
    static let pieceBytesMin = 256 << 10
    /// Maximum number of row numbers read ahead. They take 128 KiB. Each query for row numbers of events first sorts
    /// all of the driver's events, so a large maximum keeps the number of these queries small.
    private static let rowsAheadMax = 16 << 10

    private(set) var isWhole = false

    private let caller: Caller
    /// The time of the export. Deadlines before this time have passed.
    private let now: Moment
    /// Row number in `driver`. Nil if nothing is stored about the driver; all lists are then empty.
    private let driver: Int64?
    private var json = JSONWriter()
    /// The index in `lists` of the current list.
    private var list = 0
    /// The next row numbers of the current list.
    private var ahead: ArraySlice<Int64> = []
    /// The last row number that was taken from the current list.
    private var lastRow: Int64 = 0

    /// Writes the beginning of the document, up to the first list.
    init(of caller: Caller, at now: Moment, _ db: Database) throws {
        self.caller = caller
        self.now = now
        driver = try DriverRows.row(of: caller.driver, db)
        let user = try driver.flatMap { try DriverRows.user($0, db) } ?? User(id: caller.driver, role: caller.role)
        json.beginObject()
        json.member("exported_at", RFC3339.text(of: now))
        json.name("user")
        json.beginObject()
        json.member("id", user.id.rawValue)
        json.member("name", user.name)
        json.member("email", user.email)
        json.member("phone", user.phone)
        json.member("role", user.role)
        json.endObject()
        try writeJourney(at: now, db)
        json.beginArray(of: Self.lists[0])
    }

    /// Writes the driver's current journey, as in GET /native/session. The journey remains stored when its events are
    /// deleted after EVENT_RETENTION_DAYS.
    private mutating func writeJourney(at now: Moment, _ db: Database) throws {
        let journey = (try StoredChanges.storedHead(of: caller.driver, db)?.journey ?? Journey()).advanced(to: now)
        json.name("journey")
        json.beginObject()
        json.member("state", journey.state.rawValue)
        json.member("ended_by", journey.endedBy?.rawValue)
        json.member("session_id", journey.sessionID)
        json.member("target_charger_id", journey.targetChargerID)
        json.member("next_target_charger_id", journey.nextTargetChargerID)
        json.member("grace_deadline", journey.graceDeadline.map(RFC3339.text(of:)))
        json.member("hard_deadline", journey.hardDeadline.map(RFC3339.text(of:)))
        let row = try Row.fetchOne(
            db, sql: "SELECT floor_at_ms AS events_deleted_before_ms, last_correction_ms FROM driver WHERE id = ?",
            arguments: [driver])
        for (column, value) in row ?? ["events_deleted_before_ms": nil, "last_correction_ms": nil] {
            json.member(column, value)
        }
        json.endObject()
    }

    /// Returns the next bytes of the document. Returns nil if the driver was deleted since the last piece: the document
    /// cannot be completed then, and another driver may have the row number by now.
    mutating func piece(_ db: Database) throws -> [UInt8]? {
        if let driver, try DriverRows.row(of: caller.driver, db) != driver { return nil }
        while json.bytes.count < Self.pieceBytesMin {
            if let driver, let row = try nextRow(of: driver, db) {
                try Self.lists[list].write(row, of: driver, at: now, to: &json, db)
                continue
            }
            json.endArray()
            list += 1
            lastRow = 0
            if list == Self.lists.count {
                json.endObject()
                isWhole = true
                break
            }
            json.beginArray(of: Self.lists[list])
        }
        return json.takeBytes()
    }

    /// Returns the next row number of the current list. Row numbers begin at 1.
    private mutating func nextRow(of driver: Int64, _ db: Database) throws -> Int64? {
        if ahead.isEmpty {
            ahead = try Self.lists[list].rows(of: driver, after: lastRow, limit: Self.rowsAheadMax, db)[...]
        }
        guard let row = ahead.popFirst() else { return nil }
        lastRow = row
        return row
    }
}

// MARK: Contents

/// One list of the document: the rows of a table that belong to one driver. `sql` selects the row with a given row
/// number and driver. Each column has the name of its JSON member, except that the suffix `_ms` is left out of the
/// member's name. This suffix marks a time; only columns for a difference of two times keep it. The prefixes `is_`,
/// `has_` and `forwards_` mark a Boolean. A code is written as the contract's word for it.
private struct List: Sendable {
    var name: String
    var table: String
    var sql: String
    /// Writes the members that `sql` does not select. The first argument is the row number.
    var more: (@Sendable (Int64, Moment, inout JSONWriter, Database) throws -> Void)?

    /// Returns row numbers in ascending order.
    func rows(of driver: Int64, after row: Int64, limit: Int, _ db: Database) throws -> [Int64] {
        // Without the unary plus, SQLite would scan the rows of all drivers in the order of the row numbers, to avoid
        // sorting. With the plus, SQLite finds the driver's rows in the index by driver.
        try Int64.fetchAll(
            db.cachedStatement(
                sql: "SELECT rowid FROM \(table) WHERE driver = ? AND +rowid > ? ORDER BY +rowid LIMIT ?"),
            arguments: [driver, row, limit])
    }

    /// Writes a row. Writes nothing if the row was deleted since its number was read, even if another driver's row has
    /// the number now.
    func write(
        _ number: Int64, of driver: Int64, at now: Moment, to json: inout JSONWriter, _ db: Database
    ) throws {
        guard let row = try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [number, driver]) else { return }
        json.beginObject()
        for (column, value) in row { json.member(column, value) }
        try more?(number, now, &json, db)
        json.endObject()
    }
}

extension AccountExport {
    /// Returns a subquery for a table whose rows belong to a purchase. A row belongs to the driver who owns that
    /// purchase.
    private static func owned(_ table: String) -> String {
        "(SELECT \(table).rowid AS rowid, driver FROM \(table) JOIN purchase ON purchase.id = purchase)"
    }

    private static let lists = [
        List(
            name: "apple_identities", table: "apple_identity",
            sql: """
                SELECT subject, client_id, email, is_private_email, forwards_email,
                    (SELECT count(*) FROM apple_refresh_token AS token WHERE token.driver = apple_identity.driver)
                        > 0 AS has_refresh_token, linked_at_ms
                FROM apple_identity WHERE rowid = ? AND driver = ?
                """),
        List(
            name: "sign_in_sessions", table: "sign_in_session",
            sql: """
                SELECT sid AS id, method, client_name, created_at_ms, last_used_at_ms, expires_at_ms
                FROM sign_in_session WHERE id = ? AND driver = ?
                """),
        List(
            name: "devices", table: "device",
            sql: """
                SELECT push_token, platform, environment, app_version, locale, notifications, live_activity_token,
                    woken_at_ms, updated_at_ms FROM device
                WHERE id = ? AND driver = ?
                """),
        List(
            name: "waiting_notifications", table: "push_outbox",
            sql: """
                SELECT kind, (SELECT session_id FROM session WHERE session.id = push_outbox.session) AS session_id,
                    state, ended_by, deadline_ms, due_at_ms, expires_at_ms, attempt_count
                FROM push_outbox WHERE id = ? AND driver = ?
                """),
        List(
            name: "sessions", table: "session",
            sql: """
                SELECT session_id, opened_at_ms, registered_at_ms,
                    coalesce(registered_charger, (SELECT place_id FROM place WHERE place.id = charger)) AS charger_id,
                    coalesce(registered_merchant, (SELECT place_id FROM place WHERE place.id = merchant))
                        AS merchant_id
                FROM session WHERE id = ? AND driver = ?
                """,
            more: { session, now, json, db in
                let journey = try StoredSessions.journey(in: session, db)?.advanced(to: now)
                json.member("state", journey?.state.rawValue)
                json.member("ended_by", journey?.endedBy?.rawValue)
            }),
        List(
            name: "session_codes", table: "session_code",
            sql: """
                SELECT (SELECT session_id FROM session WHERE session.id = session_code.session) AS session_id,
                    issued_at_ms, expires_at_ms, wrong_count, accepted_at_ms
                FROM session_code WHERE rowid = ? AND driver = ?
                """),
        List(
            name: "events", table: "event",
            sql: """
                SELECT coalesce(event_id, idempotency_key) AS event_id, idempotency_key, name AS event, spelling,
                    schema_version, \(SentMemberColumns.sql()),
                    (SELECT session_id FROM session WHERE session.id = event.session) AS session_id,
                    occurred_at, corrected_at_ms, sent_at_ms, timestamp_ms, received_at_ms, skew_ms, clock_rule,
                    transition, reason, \(ImpliedSteps.jsonSQL) AS implied,
                    after_state AS state, after_ended_by AS ended_by,
                    (SELECT version FROM settings_version WHERE settings_version.id = event.settings_version)
                        AS settings_version,
                    metadata
                FROM event CROSS JOIN event_kind ON event_kind.id = event.kind
                WHERE event.id = ? AND driver = ?
                """),
        List(
            name: "app_account_tokens", table: "app_account_token",
            sql: "SELECT token AS app_account_token FROM app_account_token WHERE rowid = ? AND driver = ?"),
        List(
            name: "purchase_transactions", table: owned("purchase_transaction"),
            sql: """
                SELECT signed_at_ms, CAST(payload AS TEXT) AS payload FROM purchase_transaction
                WHERE rowid = ? AND purchase IN (SELECT id FROM purchase WHERE driver = ?)
                """),
        List(
            name: "purchase_renewals", table: owned("purchase_renewal"),
            sql: """
                SELECT signed_at_ms, CAST(payload AS TEXT) AS payload FROM purchase_renewal
                WHERE rowid = ? AND purchase IN (SELECT id FROM purchase WHERE driver = ?)
                """),
        List(
            name: "consumption_consents", table: "consumption_consent",
            sql: "SELECT is_given, changed_at_ms FROM consumption_consent WHERE rowid = ? AND driver = ?"),
        List(
            name: "consumption_requests", table: owned("consumption_request"),
            sql: """
                SELECT transaction_id, requested_at_ms, outcome, finished_at_ms FROM consumption_request
                WHERE rowid = ? AND purchase IN (SELECT id FROM purchase WHERE driver = ?)
                """),
        List(
            name: "audit", table: "audit",
            sql: """
                SELECT at_ms, action, outcome, reason, sid AS sign_in_session, address, request_id FROM audit
                WHERE id = ? AND driver = ?
                """),
    ]
}

extension JSONWriter {
    fileprivate mutating func beginArray(of list: List) {
        name(list.name)
        beginArray()
    }

    fileprivate mutating func member(_ name: String, _ text: String?) {
        self.name(name)
        if let text { string(text) } else { null() }
    }

    fileprivate mutating func member(_ column: String, _ value: DatabaseValue) {
        switch value.storage {
        case .int64(let number) where column.isDifference: integer(number, named: column)
        case .int64(let code) where column.isCode: member(column, column.word(for: code))
        case .int64(let number) where column.hasSuffix("_ms"):
            member(String(column.dropLast(3)), RFC3339.text(of: Moment(millisecondsSinceEpoch: number)))
        case .int64(let number):
            name(column)
            if column.isBoolean { bool(number != 0) } else { integer(number) }
        case .string(let text) where column == "details": members(ofObject: text)
        case .null where column == "details": break
        case .string(let text) where ["metadata", "implied", "payload", "notifications"].contains(column):
            // The column is already JSON, either as stored or as the query selects it.
            name(column)
            raw(text)
        case .string(let text): member(column, text)
        case .null where column.hasSuffix("_ms") && !column.isDifference:
            member(String(column.dropLast(3)), nil as String?)
        case .null, .double, .blob: member(column, nil as String?)
        }
    }
}

extension JSONWriter {
    fileprivate mutating func integer(_ number: Int64, named name: String) {
        self.name(name)
        integer(number)
    }
}

extension String {
    fileprivate var isDifference: Bool { self == "skew_ms" || self == "last_correction_ms" }

    /// Whether the column stores a word of the contract as a number.
    fileprivate var isCode: Bool { ["transition", "reason", "state", "ended_by", "clock_rule"].contains(self) }

    fileprivate func word(for code: Int64) -> String? {
        switch self {
        case "transition": Verdict.Transition(code: code)?.rawValue
        case "reason": Verdict.Reason(code: code)?.rawValue
        case "state": JourneyState(code: code)?.rawValue
        case "ended_by": Journey.Ending(code: code)?.rawValue
        default: ClockRule(code: code)?.rawValue
        }
    }

    fileprivate var isBoolean: Bool { ["is_", "has_", "forwards_"].contains(where: hasPrefix) }
}
