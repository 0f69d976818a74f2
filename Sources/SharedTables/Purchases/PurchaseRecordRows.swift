// The purchases of a driver, as `dwell purchases` shows them to an operator. One snapshot provides all rows.

package import JourneyModel
package import Purchases

/// A purchase with its owner. A subscription and its renewals are one purchase.
package struct PurchaseRecord: Hashable, Sendable {
    package var key: SubscriptionKey
    /// The owner; nil if no owner is known or the owner was deleted.
    package var driver: DriverID?
    /// The time at which an operator assigned the purchase to its owner; nil if no operator did.
    package var movedAt: Moment?
    /// Whether one of the purchase's transactions contains the owner's account token. Apple's signature covers this
    /// token.
    package var isNamed: Bool
    /// The notifications about the purchase, newest first.
    package var notifications: [Notification]

    package struct Notification: Hashable, Sendable {
        package var uuid: String
        package var type: String
        package var subtype: String?
        package var signedAt: Moment
        package var receivedAt: Moment
        /// The outcome of a CONSUMPTION_REQUEST; nil if there is none yet, and for notifications of other types.
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

package enum PurchaseRecordRows {
    /// Maximum number of notifications listed for one purchase.
    package static let notificationsMax = 50

    /// Returns the driver's purchases; nil for an unknown driver.
    package static func purchases(of driver: DriverID, _ db: any SQLTransaction) throws -> DriverPurchases? {
        guard let row = try DriverRows.row(of: driver, db) else { return nil }
        return DriverPurchases(
            records: try records("purchase.driver = ?", [row], db), facts: try PurchaseRows.facts(of: row, db),
            consent: try ConsumptionRows.consent(of: row, db))
    }

    /// Returns the purchases with this original transaction id, at most one per environment.
    package static func purchases(original id: String, _ db: any SQLTransaction) throws -> [PurchaseRecord] {
        try records("original_transaction_id = ?", [id], db)
    }

    private static func records(
        _ condition: String, _ arguments: SQLArguments, _ db: any SQLTransaction
    ) throws -> [PurchaseRecord] {
        let rows = try SQLRow.fetchAll(
            db,
            sql: """
                WITH found AS MATERIALIZED (
                    SELECT purchase.*, EXISTS (
                        SELECT 1 FROM purchase_transaction JOIN app_account_token ON token = account_token
                        WHERE purchase_transaction.purchase = purchase.id
                            AND app_account_token.driver = purchase.driver) AS is_by_token
                    FROM purchase WHERE \(condition))
                SELECT found.id, environment, original_transaction_id, driver_id, moved_at_ms, is_by_token
                FROM found LEFT JOIN driver ON driver.id = found.driver ORDER BY found.id
                """,
            arguments: arguments)
        return try rows.map { row in
            guard let environment = try AppStoreEnvironment(rawValue: row[1]) else {
                throw UnreadableColumn(name: "purchase.environment")
            }
            return PurchaseRecord(
                key: SubscriptionKey(environment: environment, originalTransactionID: try row[2]),
                driver: try (row[3] as String?).map { DriverID($0) }, movedAt: try row[4], isNamed: try row[5],
                notifications: try notifications(of: row[0], db))
        }
    }

    private static func consumption(_ row: SQLRow) throws -> PurchaseRecord.Notification.Consumption? {
        guard let outcome = try (row[5] as String?).flatMap(ConsumptionOutcome.init), let at: Moment = try row[6] else {
            return nil
        }
        return PurchaseRecord.Notification.Consumption(outcome: outcome, at: at)
    }

    private static func notifications(of purchase: Int64, _ db: any SQLTransaction) throws -> [PurchaseRecord
        .Notification]
    {
        try SQLRow.fetchAll(
            db,
            sql: """
                SELECT uuid, type, subtype, signed_at_ms, received_at_ms, outcome, finished_at_ms
                FROM store_notification LEFT JOIN consumption_request ON notification = uuid
                WHERE store_notification.purchase = ? ORDER BY signed_at_ms DESC, uuid LIMIT ?
                """,
            arguments: [purchase, notificationsMax]
        ).map { row in
            try PurchaseRecord.Notification(
                uuid: row[0], type: row[1], subtype: row[2], signedAt: row[3], receivedAt: row[4],
                consumption: consumption(row))
        }
    }
}
