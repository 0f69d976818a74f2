// Notifications of the App Store. Each notification takes effect only once, in the transaction that stores its id.

import Identity
import JourneyModel
import Purchases

enum StoreNotificationRows {
    /// Number of days for which a notification's id is kept. Apple repeats a notification for 157 hours, and Apple's
    /// notification history reaches back 180 days. After 200 days, the notification can therefore not arrive again.
    static let keptDays = 200
    /// Maximum number of old rows deleted with each insert. It is greater than one, so that the number of old rows
    /// falls. It is small, so that each insert is quick.
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
        var isAnonymous = false
        if let transaction = notification.transaction {
            let put = try PurchaseRows.put(transaction, notification.renewal, isShown: false, db)
            owner = try PurchaseRows.owner(of: put.purchase, firstShownBy: nil, db)
            purchase = put.purchase
            isAnonymous = put.isAnonymous
        }
        let keepsPayload = !isAnonymous && keepsPayload(of: notification)
        try db.execute(
            sql: """
                INSERT INTO store_notification
                    (uuid, type, subtype, environment, purchase, signed_at_ms, received_at_ms, payload,
                    app_transaction_id)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
                """,
            arguments: [
                notification.notificationUUID, notification.type, notification.subtype,
                notification.environment?.rawValue ?? "", purchase, notification.signedDate, now,
                keepsPayload ? notification.payload : nil, keepsPayload ? notification.appTransactionID : nil,
            ])
        if notification.type == ConsumptionRows.notificationType, let transaction = notification.transaction,
            let purchase
        {
            try ConsumptionRows.add(notification, transaction, of: purchase, at: now, db)
        }
        try removeOld(at: now, db)
        return .taken(owner: try PurchaseRows.driverID(ofOwner: owner, db))
    }

    /// Returns whether the payload is kept. If the type is unknown or there is no transaction, the payload contains
    /// more than the stored transaction, and is kept. The payload of a test notification is not kept.
    private static func keepsPayload(of notification: StoreNotification) -> Bool {
        let isDocumented = NotificationTypes.row(type: notification.type, subtype: notification.subtype) != nil
        return !isDocumented || notification.transaction == nil && notification.type != "TEST"
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
