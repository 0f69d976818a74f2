// Finds a driver in a database file by id, phone number or email address. Each call reads one snapshot.

import GRDB
package import Identity
package import JourneyModel
package import SharedTables

package struct DriverRecords: RecordsReader {
    private let queue: DatabaseQueue

    /// Opens the file read-only.
    package init(path: String) throws(RecordsUnreadable) {
        queue = try RecordsFile.open(path)
    }

    package func close() {
        try? queue.close()
    }

    /// Returns all matching drivers in the order in which they were first seen.
    package func find(_ question: DriverQuery) throws(RecordsUnreadable) -> [DriverRecord] {
        try RecordsFile.read(queue) { db in
            try Row.fetchAll(db, sql: Self.sql(question), arguments: [Self.argument(question)])
                .map { row in try Self.record(row, db) }
        }
    }

    /// Returns the time of the driver's latest deletion; nil if none is recorded. A deletion is recorded under a keyed
    /// hash of the driver's id, which `digests` computes.
    package func erasedAt(
        _ driver: DriverID, _ digests: KeyedHashes
    ) throws(RecordsUnreadable) -> Moment? {
        try RecordsFile.read(queue) { db in try DriverRows.erasedAt(driver, digests, SQLiteTransaction(db)) }
    }

    /// Returns whether a deletion of this driver has begun but is not complete yet.
    package func isErasureUnderWay(
        _ driver: DriverID, _ digests: KeyedHashes
    ) throws(RecordsUnreadable) -> Bool {
        try RecordsFile.read(queue) { db in
            // A backup made by an older version has no table `erasure`.
            try db.tableExists("erasure") && !ErasureProgress.unfinished(digests.driver(driver), db).isEmpty
        }
    }

    private static func argument(_ question: DriverQuery) -> String {
        switch question {
        case .id(let driver): driver.rawValue
        case .phone(let number): number.e164
        case .email(let email): email
        }
    }

    private static func sql(_ question: DriverQuery) -> String {
        let condition =
            switch question {
            case .id: "driver.driver_id = ?1"
            case .phone: "phone_identity.phone = ?1"
            case .email: "account.email = ?1 COLLATE NOCASE OR apple_identity.email = ?1 COLLATE NOCASE"
            }
        return """
            SELECT driver_id, driver.created_at_ms, name, account.email, apple_identity.email, phone, role,
                (SELECT count(*) FROM sign_in_session WHERE sign_in_session.driver = driver.id),
                (SELECT max(last_used_at_ms) FROM sign_in_session WHERE sign_in_session.driver = driver.id),
                (SELECT count(*) FROM device WHERE device.driver = driver.id), state, driver.id
            FROM driver
            LEFT JOIN account ON account.driver = driver.id
            LEFT JOIN apple_identity ON apple_identity.driver = driver.id
            LEFT JOIN phone_identity ON phone_identity.driver = driver.id
            WHERE \(condition) ORDER BY driver.id
            """
    }

    private static func record(_ row: Row, _ db: Database) throws -> DriverRecord {
        var record = DriverRecord(
            id: DriverID(row[0]), createdAt: Moment(millisecondsSinceEpoch: row[1]), name: row[2], email: row[3],
            appleEmail: row[4], phone: row[5], role: row[6], signInSessions: row[7],
            lastUsedAt: StoredEvents.moment(row[8]), devices: row[9], state: try StoredEvents.state(row, 10),
            events: 0, lastReceivedAt: nil)
        var events = try DriverEvents(of: row[11], .forward, db)
        let newest = try db.cachedStatement(sql: "SELECT max(received_at_ms) FROM \(DriverEvents.listedSQL())")
        while case let ids = try events.next(10_000), !ids.isEmpty {
            record.events += ids.count
            let received = try Int64.fetchOne(newest, arguments: [DriverEvents.list(ids)])
            if let received = StoredEvents.moment(received) {
                record.lastReceivedAt = max(record.lastReceivedAt ?? received, received)
            }
        }
        return record
    }
}
