// Notifications of the App Store. Each notification takes effect once, in the transaction that stores its id.

import Identity
import JourneyModel
import Purchases

enum StoreNotificationRows {
    /// Number of days for which a notification's id is kept. Apple repeats a notification for at most three days, and
    /// Apple's notification history reaches back 180 days. After 200 days, the notification can therefore not be
    /// received again.
    static let keptDays = 200
    /// Maximum number of old rows deleted with each insert. It is greater than one, so that the number of old rows
    /// decreases. It is small, so that no insert is slow.
    private static let deletedPerInsert = 4

    static func take(
        _ notification: StoreNotification, at now: Moment, _ db: any SQLTransaction
    ) throws -> NotificationOutcome {
        let isKnown = try Bool.fetchOne(
            db, sql: "SELECT EXISTS (SELECT 1 FROM store_notification WHERE uuid = ?)",
            arguments: [notification.notificationUUID])
        if isKnown == true { return .repeated }

        var purchase: Int64?
        var owner: Int64?
        if let transaction = notification.transaction {
            let row = try PurchaseRows.put(transaction, notification.renewal, db)
            owner = try PurchaseRows.owner(of: row, firstShownBy: nil, db)
            purchase = row
        }
        let isDocumented = NotificationTypes.row(type: notification.type, subtype: notification.subtype) != nil
        try db.execute(
            sql: """
                INSERT INTO store_notification
                    (uuid, type, subtype, environment, purchase, signed_at_ms, received_at_ms, payload)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?)
                """,
            arguments: [
                notification.notificationUUID, notification.type, notification.subtype,
                notification.environment.rawValue, purchase, notification.signedDate, now,
                isDocumented ? nil : notification.payload,
            ])
        if notification.type == ConsumptionRows.notificationType, let transaction = notification.transaction,
            let purchase
        {
            try ConsumptionRows.add(notification, transaction, of: purchase, at: now, db)
        }
        try removeOld(at: now, db)
        let name = try owner.flatMap { driver in
            try String.fetchOne(db, sql: "SELECT driver_id FROM driver WHERE id = ?", arguments: [driver])
        }
        return .taken(owner: name.map { DriverID($0) })
    }

    private static func removeOld(at now: Moment, _ db: any SQLTransaction) throws {
        let oldest = now.advanced(bySeconds: -keptDays * 86_400)
        try db.execute(
            sql: """
                DELETE FROM store_notification WHERE uuid IN (
                    SELECT uuid FROM store_notification WHERE received_at_ms < ? ORDER BY received_at_ms LIMIT ?)
                """,
            arguments: [oldest, deletedPerInsert])
    }
}
