// Everything held about a driver as one JSON document, for GET /auth/me/export. Tokens and digests are not in it: they
// are nobody's data, only keys to it.

import Engine
import GRDB
import Identity
import JourneyModel

enum AccountExport {
    static func json(of caller: Caller, at now: Moment, _ db: Database) throws -> [UInt8] {
        let driver = try DriverRows.row(of: caller.driver, db)
        let user = try driver.flatMap { try DriverRows.user($0, db) } ?? User(id: caller.driver, role: caller.role)
        var json = JSONWriter()
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
        // Row numbers begin at 1: a driver of whom nothing is stored has empty lists.
        for list in lists { try list.write(driver ?? 0, to: &json, db) }
        json.endObject()
        return json.bytes
    }

    /// A query whose columns are named like the members; a name that ends in `_ms` is a time, one that begins with
    /// `is_` or `has_` or `forwards_` is true or false.
    private struct List {
        var name: String
        var sql: String

        func write(_ driver: Int64, to json: inout JSONWriter, _ db: Database) throws {
            json.name(name)
            json.beginArray()
            let rows = try Row.fetchCursor(db, sql: sql, arguments: [driver])
            while let row = try rows.next() {
                json.beginObject()
                for (column, value) in row { json.member(column, value) }
                json.endObject()
            }
            json.endArray()
        }
    }

    private static let lists = [
        List(
            name: "apple_identities",
            sql: """
                SELECT subject, client_id, email, is_private_email, forwards_email,
                    (SELECT count(*) FROM apple_refresh_token AS token WHERE token.driver = apple_identity.driver)
                        > 0 AS has_refresh_token, linked_at_ms
                FROM apple_identity WHERE driver = ?
                """),
        List(
            name: "sign_in_sessions",
            sql: """
                SELECT sid AS id, method, client_name, created_at_ms, last_used_at_ms, expires_at_ms
                FROM sign_in_session WHERE driver = ? ORDER BY id
                """),
        List(
            name: "devices",
            sql: """
                SELECT push_token, platform, environment, app_version, updated_at_ms FROM device
                WHERE driver = ? ORDER BY id
                """),
        List(
            name: "sessions",
            sql: """
                SELECT session_id, opened_at_ms, registered_at_ms,
                    (SELECT place_id FROM place WHERE place.id = charger) AS charger_id,
                    (SELECT place_id FROM place WHERE place.id = merchant) AS merchant_id
                FROM session WHERE driver = ? ORDER BY id
                """),
        List(
            name: "events",
            sql: """
                SELECT coalesce(event_id, idempotency_key) AS event_id, idempotency_key, name AS event, spelling,
                    schema_version, source, app_state,
                    (SELECT session_id FROM session WHERE session.id = event.session) AS session_id,
                    (SELECT place_id FROM place WHERE place.id = event.charger) AS charger_id,
                    (SELECT place_id FROM place WHERE place.id = event.merchant) AS merchant_id,
                    occurred_at, corrected_at_ms, sent_at_ms, received_at_ms, sequence, metadata
                FROM event CROSS JOIN event_kind ON event_kind.id = event.kind
                WHERE driver = ? ORDER BY event.id
                """),
        List(
            name: "audit",
            sql: """
                SELECT at_ms, action, outcome, reason, sid AS sign_in_session, address, request_id FROM audit
                WHERE driver = ? ORDER BY id
                """),
    ]
}

extension JSONWriter {
    fileprivate mutating func member(_ name: String, _ text: String?) {
        self.name(name)
        if let text { string(text) } else { null() }
    }

    fileprivate mutating func member(_ column: String, _ value: DatabaseValue) {
        switch value.storage {
        case .int64(let number) where column.hasSuffix("_ms"):
            member(String(column.dropLast(3)), RFC3339.text(of: Moment(millisecondsSinceEpoch: number)))
        case .int64(let number):
            name(column)
            if column.isTruth { bool(number != 0) } else { integer(number) }
        case .string(let text) where column == "metadata":
            // Compact JSON since it came in.
            name(column)
            raw(text)
        case .string(let text): member(column, text)
        case .null where column.hasSuffix("_ms"): member(String(column.dropLast(3)), nil as String?)
        case .null, .double, .blob: member(column, nil as String?)
        }
    }
}

extension String {
    fileprivate var isTruth: Bool { ["is_", "has_", "forwards_"].contains(where: hasPrefix) }
}
