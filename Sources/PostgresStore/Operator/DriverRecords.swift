// `DriverSearch` on PostgreSQL: finds drivers by id, phone number or email address, in one snapshot.

package import Engine
import Identity
import JourneyModel
package import SharedTables

extension PostgresEventStore: DriverSearch {
    package func find(_ question: DriverQuery) async throws(StoreFailure) -> [DriverRecord] {
        try await read { db in
            let drivers = try Int64.fetchAll(
                db, sql: DriverRecordSQL.drivers(question), arguments: [DriverRecordSQL.argument(question)])
            let found = try drivers.compactMap { driver in
                try SQLRow.fetchOne(db, sql: DriverRecordSQL.select, arguments: [driver]).map { row in
                    (number: try row[13] as Int64, record: try DriverRecordSQL.record(row))
                }
            }
            return found.sorted { $0.number < $1.number }.map { $0.record }
        }
    }
}

private enum DriverRecordSQL {
    /// Returns the parameter of the statement `drivers`. The comparison of email addresses ignores the case of ASCII
    /// letters, as on SQLite. The columns have the collation "C", with which `lower` changes only ASCII letters.
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

    /// Returns the SQL that selects the `driver.id` of the matching drivers, without duplicates.
    static func drivers(_ question: DriverQuery) -> String {
        switch question {
        case .id: "SELECT id FROM driver WHERE driver_id = ?1"
        case .phone: "SELECT driver FROM phone_identity WHERE phone = ?1"
        case .email:
            """
            SELECT driver FROM account WHERE lower(email) = ?1
            UNION SELECT driver FROM apple_identity WHERE lower(email) = ?1
            """
        }
    }

    /// Reads one driver. On Citus, most tables of the subqueries are on other servers than the driver. The subqueries
    /// therefore use ?1, and no column of the outer query.
    static let select = """
        SELECT driver_id, driver.created_at_ms, (SELECT account.name FROM account WHERE account.driver = ?1),
            (SELECT account.email FROM account WHERE account.driver = ?1),
            (SELECT apple_identity.email FROM apple_identity WHERE apple_identity.driver = ?1),
            (SELECT phone_identity.phone FROM phone_identity WHERE phone_identity.driver = ?1),
            (SELECT account.role FROM account WHERE account.driver = ?1),
            (SELECT count(*) FROM sign_in_session WHERE sign_in_session.driver = ?1),
            (SELECT max(last_used_at_ms) FROM sign_in_session WHERE sign_in_session.driver = ?1),
            (SELECT count(*) FROM device WHERE device.driver = ?1), state,
            (SELECT count(*) FROM event WHERE event.driver = ?1 AND event.lane = \(Lane.sql(ofDriver: "?1"))),
            (SELECT max(received_at_ms) FROM event
                WHERE event.driver = ?1 AND event.lane = \(Lane.sql(ofDriver: "?1"))), driver.number
        FROM driver WHERE driver.id = ?1 AND driver.lane = \(Lane.sql(ofDriver: "?1"))
        """

    static func record(_ row: SQLRow) throws -> DriverRecord {
        guard let state = JourneyState(code: try row[10]) else { throw UnreadableColumn(name: "driver.state") }
        return DriverRecord(
            id: DriverID(try row[0]), createdAt: try row[1], name: try row[2], email: try row[3],
            appleEmail: try row[4], phone: try row[5], role: try row[6], signInSessions: try row[7],
            lastUsedAt: try row[8], devices: try row[9], state: state, events: try row[11],
            lastReceivedAt: try row[12])
    }
}
