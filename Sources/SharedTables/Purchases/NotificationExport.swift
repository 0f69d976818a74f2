// The list of Apple's notifications in a driver's export. It is needed because some payloads contain more than the
// stored transactions (`StoreNotificationRows`).

import JourneyModel

extension ExportList {
    /// The notifications about the driver's purchases, and those about the driver as a customer of the app.
    /// `PurchaseRows.erase` removes the payloads of the same notifications.
    static let storeNotifications = ExportList(name: "store_notifications") { driver, last, limit, db in
        var ids = Set(
            try String.fetchAll(
                db,
                sql: """
                    SELECT uuid FROM store_notification WHERE purchase IN (SELECT id FROM purchase WHERE driver = ?)
                    """,
                arguments: [driver]))
        for customer in try PurchaseRows.customerIDs(of: driver, db) {
            ids.formUnion(
                try String.fetchAll(
                    db, sql: "SELECT uuid FROM store_notification WHERE purchase IS NULL AND app_transaction_id = ?",
                    arguments: [customer]))
        }
        if case .text(let last)? = last { ids = ids.filter { $0 > last } }
        return ids.sorted().prefix(limit).map { .text($0) }
    } writeRow: { id, driver, _, json, db in
        let row = try SQLRow.fetchOne(
            db,
            sql: """
                SELECT \(notificationColumns.joined(separator: ", ")) FROM store_notification WHERE uuid = ?1
                    AND (purchase IS NULL OR purchase IN (SELECT id FROM purchase WHERE driver = ?2))
                """,
            arguments: SQLArguments([id, .integer(driver)]))
        guard let row else { return }
        json.beginObject()
        json.members(notificationMembers, row.values)
        json.endObject()
    }

    private static let notificationColumns = [
        "uuid", "type", "subtype", "environment", "signed_at_ms", "received_at_ms", "payload",
    ]
    private static let notificationMembers = notificationColumns.map(ExportColumn.init)
}
