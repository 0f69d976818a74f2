// `DriverSearch` on PostgreSQL: finds drivers by id, phone number or email address, in one snapshot.

package import Engine
import Identity
import JourneyModel
package import SharedTables

extension PostgresEventStore: DriverSearch {
    package func find(_ question: DriverQuery) async throws(StoreFailure) -> [DriverRecord] {
        try await read { db in
            try SQLRow.fetchAll(
                db, sql: DriverRecordSQL.select(question), arguments: [DriverRecordSQL.argument(question)]
            ).map(DriverRecordSQL.record)
        }
    }
}

private enum DriverRecordSQL {
    /// Email addresses are compared without regard to the case of ASCII letters, as on SQLite. The columns have the
    /// collation "C", by which `lower` changes only these.
    static func argument(_ question: DriverQuery) -> String {
        switch question {
        case .id(let driver): driver.rawValue
        case .phone(let number): number.e164
        case .email(let email): String(decoding: email.utf8.map(asciiLowercase), as: UTF8.self)
        }
    }

    private static func asciiLowercase(_ byte: UInt8) -> UInt8 {
        (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) ? byte | 0x20 : byte
    }

    static func select(_ question: DriverQuery) -> String {
        let condition =
            switch question {
            case .id: "driver.driver_id = ?1"
            case .phone: "phone_identity.phone = ?1"
            case .email: "lower(account.email) = ?1 OR lower(apple_identity.email) = ?1"
            }
        return """
            SELECT driver_id, driver.created_at_ms, name, account.email, apple_identity.email, phone, role,
                (SELECT count(*) FROM sign_in_session WHERE sign_in_session.driver = driver.id),
                (SELECT max(last_used_at_ms) FROM sign_in_session WHERE sign_in_session.driver = driver.id),
                (SELECT count(*) FROM device WHERE device.driver = driver.id), state,
                (SELECT count(*) FROM event WHERE event.driver = driver.id),
                (SELECT max(received_at_ms) FROM event WHERE event.driver = driver.id)
            FROM driver
            LEFT JOIN account ON account.driver = driver.id
            LEFT JOIN apple_identity ON apple_identity.driver = driver.id
            LEFT JOIN phone_identity ON phone_identity.driver = driver.id
            WHERE \(condition) ORDER BY driver.number
            """
    }

    static func record(_ row: SQLRow) throws -> DriverRecord {
        guard let state = JourneyState(code: try row[10]) else { throw UnreadableColumn(name: "driver.state") }
        return DriverRecord(
            id: DriverID(try row[0]), createdAt: try row[1], name: try row[2], email: try row[3],
            appleEmail: try row[4], phone: try row[5], role: try row[6], signInSessions: try row[7],
            lastUsedAt: try row[8], devices: try row[9], state: state, events: try row[11],
            lastReceivedAt: try row[12])
    }
}
