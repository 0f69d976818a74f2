// All stored data about a driver as one JSON document, for GET /auth/me/export. Includes the push tokens of devices and
// the account token for the App Store. Leaves out sign-in tokens and digests, because they say nothing about a person.
//
// A driver may have a gigabyte of events. The document is therefore made in pieces. Between two pieces, only the
// position in the document and the keys of the next rows are kept in memory.

import Engine
import Identity
package import JourneyModel

/// A document in progress. Each piece may be read in a separate snapshot. The document may therefore contain rows
/// stored after its first piece, and may lack rows that retention has deleted since that piece.
struct AccountExport: Sendable {
    /// Minimum number of bytes of every piece except the last. A piece ends with the row that reaches this number.
    static let pieceBytesMin = 256 << 10
    /// Maximum number of row keys that one query reads ahead. These keys take 384 KiB, or more if they are texts. The
    /// number is large, because each such query on a shared table sorts all of the driver's rows.
    private static let rowsAheadMax = 16 << 10

    private(set) var isWhole = false

    private let caller: Caller
    /// The time of the export. Deadlines before this time have passed.
    private let now: Moment
    /// Row number in `driver`. Nil if nothing is stored about the driver; all lists are then empty.
    private let driver: Int64?
    private var json = JSONWriter()
    private let lists: [ExportList]
    /// The index in `lists` of the current list.
    private var list = 0
    /// The keys of the next rows of the current list.
    private var ahead: ArraySlice<SQLValue> = []
    /// The last key that was taken from the current list.
    private var lastKey: SQLValue?

    /// Writes the beginning of the document, up to the first list.
    init(of caller: Caller, at now: Moment, _ events: any EventExport, _ db: any SQLTransaction) throws {
        self.caller = caller
        lists = Self.lists(events)
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
        try writeJourney(at: now, events, db)
        json.beginArray(of: lists[0])
    }

    /// Writes the driver's current journey, as in GET /native/session. The journey stays stored even if its events are
    /// deleted after EVENT_RETENTION_DAYS.
    private mutating func writeJourney(
        at now: Moment, _ events: any EventExport, _ db: any SQLTransaction
    ) throws {
        let journey = try events.exportedJourney(of: caller.driver, db).advanced(to: now)
        json.name("journey")
        json.beginObject()
        json.member("state", journey.state.rawValue)
        json.member("ended_by", journey.endedBy?.rawValue)
        json.member("session_id", journey.sessionID)
        json.member("target_charger_id", journey.targetChargerID)
        json.member("next_target_charger_id", journey.nextTargetChargerID)
        json.member("grace_deadline", journey.graceDeadline.map(RFC3339.text(of:)))
        json.member("hard_deadline", journey.hardDeadline.map(RFC3339.text(of:)))
        let row = try SQLRow.fetchOne(
            db, sql: "SELECT floor_at_ms, last_correction_ms FROM driver WHERE id = ?", arguments: [driver])
        json.member(ExportColumn("events_deleted_before_ms"), row?.values[0] ?? .null)
        json.member(ExportColumn("last_correction_ms"), row?.values[1] ?? .null)
        json.endObject()
    }

    /// Returns the next bytes of the document. Returns nil if the driver was deleted since the preceding piece. The
    /// document cannot be completed then, because another driver may now have the row number.
    mutating func piece(_ db: any SQLTransaction) throws -> [UInt8]? {
        if let driver, try DriverRows.row(of: caller.driver, db) != driver { return nil }
        while json.bytes.count < Self.pieceBytesMin {
            if let driver, try readAhead(of: driver, db) {
                let count = try lists[list].write(ahead, driver, now, Self.pieceBytesMin, &json, db)
                lastKey = ahead.prefix(count).last
                ahead = ahead.dropFirst(count)
                continue
            }
            json.endArray()
            list += 1
            lastKey = nil
            if list == lists.count {
                json.endObject()
                isWhole = true
                break
            }
            json.beginArray(of: lists[list])
        }
        return json.takeBytes()
    }

    /// Returns whether the current list has a next row.
    private mutating func readAhead(of driver: Int64, _ db: any SQLTransaction) throws -> Bool {
        if ahead.isEmpty { ahead = try lists[list].keys(driver, lastKey, Self.rowsAheadMax, db)[...] }
        return !ahead.isEmpty
    }
}

// MARK: Contents

private struct Member: ExpressibleByStringLiteral, Sendable {
    var column: ExportColumn
    var sql: @Sendable (any SQLTransaction) -> String

    init(_ name: String, _ sql: @escaping @Sendable (any SQLTransaction) -> String) {
        (column, self.sql) = (ExportColumn(name), sql)
    }

    init(_ name: String, _ sql: String) { self.init(name) { _ in sql } }

    /// A member whose value is the column of this name.
    init(stringLiteral name: String) { self.init(name, name) }

    static func sessionID(_ column: String) -> Member { Member("session_id") { $0.sessionIDSQL(column) } }
}

extension ExportList {
    /// A list of the driver's rows in a shared table. If `ofPurchase` is true, the rows belong to the driver's
    /// purchases.
    ///
    /// - Parameters:
    ///   - key: the column of the key.
    ///   - order: the expression by which the keys are ordered. If nil, it is the key with a unary plus. Without the
    ///     plus, SQLite might read the rows of all drivers in the order of the key, to avoid a sort.
    fileprivate init(
        _ name: String, table: String, key: String = "id", order: String? = nil, ofPurchase: Bool = false,
        _ members: [Member]
    ) {
        let order = order ?? "+\(key)"
        let isOwn = ofPurchase ? "purchase IN (SELECT id FROM purchase WHERE driver = ?1)" : "driver = ?1"
        self.init(name: name) { driver, last, limit, db in
            if let last {
                return try db.fetchAll(
                    sql: "SELECT \(key) FROM \(table) WHERE \(isOwn) AND \(order) > ?2 ORDER BY \(order) LIMIT ?3",
                    arguments: SQLArguments([.integer(driver), last, .integer(Int64(limit))])
                ).map { $0.values[0] }
            }
            return try db.fetchAll(
                sql: "SELECT \(key) FROM \(table) WHERE \(isOwn) ORDER BY \(order) LIMIT ?2",
                arguments: [driver, limit]
            ).map { $0.values[0] }
        } writeRow: { value, driver, _, json, db in
            let columns = members.map { $0.sql(db) }.joined(separator: ", ")
            let row = try db.fetchAll(
                sql: "SELECT \(columns) FROM \(table) WHERE \(isOwn) AND \(key) = ?2",
                arguments: SQLArguments([.integer(driver), value])
            ).first
            guard let row else { return }
            json.beginObject()
            json.members(members.map(\.column), row.values)
            json.endObject()
        }
    }
}

extension AccountExport {
    private static func lists(_ events: any EventExport) -> [ExportList] {
        [
            ExportList(
                "apple_identities", table: "apple_identity", key: "driver",
                [
                    "subject", "client_id", "email", "is_private_email", "forwards_email",
                    Member(
                        "has_refresh_token",
                        """
                        EXISTS (SELECT 1 FROM apple_refresh_token AS token WHERE token.driver = apple_identity.driver)
                        """),
                    "linked_at_ms",
                ]),
            ExportList(
                "sign_in_sessions", table: "sign_in_session",
                [Member("id", "sid"), "method", "client_name", "created_at_ms", "last_used_at_ms", "expires_at_ms"]),
            ExportList(
                "devices", table: "device",
                [
                    "push_token", "platform", "environment", "app_version", "locale", "notifications",
                    "live_activity_token", "woken_at_ms", "updated_at_ms",
                ]),
            ExportList(
                "waiting_notifications", table: "push_outbox",
                [
                    "kind", .sessionID("push_outbox.session"), "state", "ended_by", "deadline_ms", "due_at_ms",
                    "expires_at_ms", "attempt_count",
                ]),
            events.exportedSessions,
            ExportList(
                "session_codes", table: "session_code", key: "session", order: "session",
                [
                    .sessionID("session_code.session"), "issued_at_ms", "expires_at_ms", "wrong_count",
                    "accepted_at_ms",
                ]),
            events.exportedEvents,
            ExportList(
                "app_account_tokens", table: "app_account_token", key: "driver",
                [Member("app_account_token", "token")]),
            ExportList(
                "purchase_transactions", table: "purchase_transaction", ofPurchase: true, ["signed_at_ms", "payload"]),
            ExportList(
                "purchase_renewals", table: "purchase_renewal", key: "purchase", ofPurchase: true,
                ["signed_at_ms", "payload"]),
            .storeNotifications,
            ExportList(
                "consumption_consents", table: "consumption_consent", key: "driver", ["is_given", "changed_at_ms"]),
            ExportList(
                "consumption_requests", table: "consumption_request", ofPurchase: true,
                ["transaction_id", "requested_at_ms", "outcome", "finished_at_ms"]),
            ExportList(
                "audit", table: "audit",
                [
                    "at_ms", "action", "outcome", "reason", Member("sign_in_session", "sid"), "address",
                    "request_id",
                ]),
        ]
    }
}

extension JSONWriter {
    fileprivate mutating func beginArray(of list: ExportList) {
        name(list.name)
        beginArray()
    }

    package mutating func member(_ name: String, _ text: String?) {
        self.name(name)
        if let text { string(text) } else { null() }
    }
}
