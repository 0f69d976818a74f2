// Removes the data about a deleted driver from the driver's purchases. The facts that Apple signed may be needed for a
// refund, a renewal or a tax audit. They are kept without the members that identify the driver.
//
// After the deletion, the purchase has no owner. If the app of another driver sends the purchase, that driver becomes
// the owner. This is normally the same person with a new account.

import JourneyModel
import Purchases

extension PurchaseRows {
    static func erase(_ driver: Int64, _ db: any SQLTransaction) throws {
        try eraseNotificationsAboutCustomer(driver, db)
        for (table, key) in [("purchase_transaction", "id"), ("purchase_renewal", "purchase")] {
            // Facts of revoked signers must be deleted before the statements below remove the signers from the facts.
            // Otherwise they would be believed, because a fact without a signer is believed.
            try db.execute(
                sql: """
                    DELETE FROM \(table) WHERE purchase IN (SELECT id FROM purchase WHERE driver = ?)
                    AND signer IN (SELECT id FROM purchase_signer WHERE NOT \(isBelieved))
                    """,
                arguments: [driver])
            let rows = try SQLRow.fetchAll(
                db,
                sql: """
                    SELECT \(key), payload FROM \(table) WHERE purchase IN (SELECT id FROM purchase WHERE driver = ?)
                    """,
                arguments: [driver])
            for row in rows {
                let payload = try PurchaseErasure.anonymous(row[1] as [UInt8])
                try db.execute(
                    sql: "UPDATE \(table) SET payload = ?, signer = NULL, signature = NULL WHERE \(key) = ?",
                    arguments: [payload, try row[0] as Int64])
            }
        }
        let purchases = "SELECT id FROM purchase WHERE driver = ?"
        try db.execute(
            sql: "UPDATE purchase_transaction SET account_token = NULL WHERE purchase IN (\(purchases))",
            arguments: [driver])
        try db.execute(
            sql: "UPDATE store_notification SET payload = NULL WHERE purchase IN (\(purchases))", arguments: [driver])
        try db.execute(
            sql: "UPDATE purchase SET driver = NULL, moved_at_ms = NULL WHERE driver = ?", arguments: [driver])
        for table in ["app_account_token", "consumption_consent"] {
            try db.execute(sql: "DELETE FROM \(table) WHERE driver = ?", arguments: [driver])
        }
    }

    /// Removes the payloads of notifications about the driver as a customer of the app. Such a notification belongs to
    /// no purchase, but contains the customer id of the driver's facts (`appTransactionId`).
    private static func eraseNotificationsAboutCustomer(_ driver: Int64, _ db: any SQLTransaction) throws {
        for id in try customerIDs(of: driver, db) {
            try db.execute(
                sql: """
                    UPDATE store_notification SET payload = NULL, app_transaction_id = NULL
                    WHERE app_transaction_id = ?
                    """,
                arguments: [id])
        }
    }

    /// Returns the driver's customer ids at Apple (`appTransactionId`), one for each app. A stored fact may lack the
    /// id. Therefore also reads the ids of notifications about the driver's purchases.
    static func customerIDs(of driver: Int64, _ db: any SQLTransaction) throws -> Set<String> {
        var ids = Set(
            try String.fetchAll(
                db,
                sql: """
                    SELECT app_transaction_id FROM store_notification
                    WHERE app_transaction_id IS NOT NULL AND purchase IN (SELECT id FROM purchase WHERE driver = ?)
                    """,
                arguments: [driver]))
        for table in ["purchase_transaction", "purchase_renewal"] {
            let payloads = try [UInt8].fetchAll(
                db, sql: "SELECT payload FROM \(table) WHERE purchase IN (SELECT id FROM purchase WHERE driver = ?)",
                arguments: [driver])
            ids.formUnion(payloads.compactMap(PurchaseErasure.appTransactionID))
        }
        return ids
    }
}
