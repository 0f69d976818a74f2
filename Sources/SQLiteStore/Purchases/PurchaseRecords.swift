// The purchases of a driver in a database file, for `dwell purchases`. Each call reads one snapshot.

import GRDB
package import JourneyModel
package import Purchases
import SharedTables

/// A purchase with its owner. A subscription and its renewals are one purchase.
package struct PurchaseRecord: Hashable, Sendable {
    package var key: SubscriptionKey
    /// The owner. Nil if no owner is known yet, or if the owner was deleted.
    package var driver: DriverID?
    /// The time when an operator assigned the purchase to its driver; nil if no operator has done so.
    package var movedAt: Moment?
    /// Whether one of the purchase's transactions, as signed by Apple, contains the driver's account token.
    package var isNamed: Bool
    /// The notifications about the purchase, newest first.
    package var notifications: [Notification]

    package struct Notification: Hashable, Sendable {
        package var uuid: String
        package var type: String
        package var subtype: String?
        package var signedAt: Moment
        package var receivedAt: Moment
        /// The outcome of a CONSUMPTION_REQUEST. Nil for other notifications, and while there is no outcome yet.
        package var consumption: Consumption?

        package struct Consumption: Hashable, Sendable {
            package var outcome: ConsumptionOutcome
            package var at: Moment
        }
    }
}

/// The purchases, facts and consent of one driver, from one snapshot.
package struct DriverPurchases: Hashable, Sendable {
    package var records: [PurchaseRecord]
    package var facts: PurchaseFacts
    /// The driver's answer; nil if the driver has never answered.
    package var consent: ConsumptionConsent?
}

package struct PurchaseRecords: RecordsReader {
    /// Maximum number of notifications listed for one purchase.
    package static let notificationsMax = 50

    private let queue: DatabaseQueue

    /// Opens the file read-only.
    package init(path: String) throws(RecordsUnreadable) {
        queue = try RecordsFile.open(path)
    }

    package func close() {
        try? queue.close()
    }

    /// Returns the driver's purchases; nil for an unknown driver.
    package func purchases(
        of driver: DriverID
    ) throws(RecordsUnreadable) -> DriverPurchases? {
        try RecordsFile.read(queue) { db in
            guard let row = try DriverRows.row(of: driver, db) else { return nil }
            return DriverPurchases(
                records: try Self.records("purchase.driver = ?", [row], db), facts: try PurchaseRows.facts(of: row, db),
                consent: try ConsumptionRows.consent(of: row, db))
        }
    }

    /// Returns every purchase with this original transaction id, at most one per environment.
    package func purchases(original id: String) throws(RecordsUnreadable) -> [PurchaseRecord] {
        try RecordsFile.read(queue) { db in try Self.records("original_transaction_id = ?", [id], db) }
    }

    private static func records(
        _ condition: String, _ arguments: StatementArguments, _ db: Database
    ) throws -> [PurchaseRecord] {
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT purchase.id, environment, original_transaction_id, driver_id, moved_at_ms, EXISTS (
                    SELECT 1 FROM purchase_transaction JOIN app_account_token ON token = account_token
                    WHERE purchase = purchase.id AND app_account_token.driver = purchase.driver)
                FROM purchase LEFT JOIN driver ON driver.id = purchase.driver
                WHERE \(condition) ORDER BY purchase.id
                """,
            arguments: arguments)
        return try rows.map { row in
            guard let environment = AppStoreEnvironment(rawValue: row[1]) else {
                throw SQLiteError.unreadable("purchase.environment")
            }
            return PurchaseRecord(
                key: SubscriptionKey(environment: environment, originalTransactionID: row[2]),
                driver: (row[3] as String?).map { DriverID($0) },
                movedAt: (row[4] as Int64?).map(Moment.init(millisecondsSinceEpoch:)), isNamed: row[5],
                notifications: try notifications(of: row[0], db))
        }
    }

    private static func consumption(_ row: Row) -> PurchaseRecord.Notification.Consumption? {
        guard let outcome = (row[5] as String?).flatMap(ConsumptionOutcome.init), let at = row[6] as Int64? else {
            return nil
        }
        return PurchaseRecord.Notification.Consumption(outcome: outcome, at: Moment(millisecondsSinceEpoch: at))
    }

    private static func notifications(of purchase: Int64, _ db: Database) throws -> [PurchaseRecord.Notification] {
        try Row.fetchAll(
            db,
            sql: """
                SELECT uuid, type, subtype, signed_at_ms, received_at_ms, outcome, finished_at_ms
                FROM store_notification LEFT JOIN consumption_request ON notification = uuid
                WHERE store_notification.purchase = ? ORDER BY signed_at_ms DESC, uuid LIMIT ?
                """,
            arguments: [purchase, notificationsMax]
        ).map { row in
            PurchaseRecord.Notification(
                uuid: row[0], type: row[1], subtype: row[2], signedAt: Moment(millisecondsSinceEpoch: row[3]),
                receivedAt: Moment(millisecondsSinceEpoch: row[4]), consumption: consumption(row))
        }
    }
}
