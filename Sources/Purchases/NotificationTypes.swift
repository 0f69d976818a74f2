// The types and subtypes of App Store Server Notifications V2 that Apple documents
// (https://developer.apple.com/documentation/appstoreservernotifications/notificationtype, read in November 2026). The
// subtypes INCREASE_QUANTITY and DECREASE_QUANTITY (seats of a group) are left out.
//
// The table is for operators. Access depends only on the signed transaction and renewal in a notification. A
// notification is stored even if its type has no row.

package struct NotificationTypes: Sendable {
    /// The object of the payload that carries the details.
    package enum Object: String, Hashable, Sendable {
        case data, summary, externalPurchaseToken, appData, unclaimInfo
    }

    package struct Row: Hashable, Sendable {
        package var type: String
        package var subtype: String?
        package var object: Object
        /// What the notification means, as a sentence for operators.
        package var meaning: String
    }

    /// Returns the row of a type and subtype, or nil if the table has none.
    package static func row(type: String, subtype: String?) -> Row? {
        rows.first { $0.type == type && $0.subtype == subtype }
    }

    package static let rows: [Row] = [
        row("CONSUMPTION_REQUEST", "Apple requests consumption information for a refund request."),
        row("DID_CHANGE_RENEWAL_PREF", "A scheduled downgrade was cancelled."),
        row("DID_CHANGE_RENEWAL_PREF", "DOWNGRADE", "A downgrade takes effect at the next renewal."),
        row("DID_CHANGE_RENEWAL_PREF", "UPGRADE", "An upgrade takes effect immediately."),
        row(
            "DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED",
            "Auto-renewal was turned off: access ends with the period."),
        row("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_ENABLED", "Auto-renewal was turned on again."),
        row("DID_FAIL_TO_RENEW", "The renewal failed: billing retry, without access."),
        row("DID_FAIL_TO_RENEW", "GRACE_PERIOD", "The renewal failed: access continues for the grace period."),
        row("DID_RENEW", "The subscription renewed."),
        row("DID_RENEW", "BILLING_RECOVERY", "Billing retry succeeded: the subscription renewed."),
        row("EXPIRED", "Expired for a reason that has no subtype."),
        row("EXPIRED", "BILLING_RETRY", "Expired: billing retry ended without a payment."),
        row("EXPIRED", "PRICE_INCREASE", "Expired: the customer did not consent to a price increase."),
        row("EXPIRED", "PRODUCT_NOT_FOR_SALE", "Expired: the product was not for sale at the renewal."),
        row("EXPIRED", "VOLUNTARY", "Expired: the customer had turned off auto-renewal."),
        row(
            "EXTERNAL_PURCHASE_TOKEN", "ACTIVE_TOKEN_REMINDER", .externalPurchaseToken,
            "An external purchase token is still active."),
        row("EXTERNAL_PURCHASE_TOKEN", "CREATED", .externalPurchaseToken, "Apple created an external purchase token."),
        row(
            "EXTERNAL_PURCHASE_TOKEN", "UNREPORTED", .externalPurchaseToken,
            "Apple received no report for an external purchase token."),
        row("GRACE_PERIOD_EXPIRED", "The grace period ended: access ends, billing retry continues."),
        row("METADATA_UPDATE", "The metadata of an Advanced Commerce subscription changed."),
        row("MIGRATION", "The subscription migrated to the Advanced Commerce API."),
        row("OFFER_REDEEMED", "An offer was redeemed for the active subscription."),
        row("OFFER_REDEEMED", "DOWNGRADE", "An offer for a downgrade, which takes effect at the next renewal."),
        row("OFFER_REDEEMED", "INITIAL_BUY", "An offer was redeemed with the first purchase (until 2023)."),
        row("OFFER_REDEEMED", "RESUBSCRIBE", "An offer was redeemed to resubscribe (until 2023)."),
        row("OFFER_REDEEMED", "UPGRADE", "An offer for an upgrade, which takes effect immediately."),
        row("ONE_TIME_CHARGE", "A consumable, non-consumable or non-renewing subscription was purchased."),
        row("PRICE_CHANGE", "The price of an Advanced Commerce subscription changed."),
        row("PRICE_INCREASE", "ACCEPTED", "The customer consented to a price increase, or no consent is required."),
        row("PRICE_INCREASE", "PENDING", "A price increase awaits the customer's consent."),
        row("REFUND", "Apple refunded the transaction: it no longer gives access."),
        row("REFUND", "SEATS", "Apple refunded some seats of a group: the transaction still gives access."),
        row("REFUND_DECLINED", "Apple declined a refund request."),
        row("REFUND_REVERSED", "Apple reversed a refund: the transaction gives access again."),
        row("RENEWAL_EXTENDED", "The renewal date was extended."),
        row("RENEWAL_EXTENSION", "FAILURE", "The renewal date of one subscription could not be extended."),
        row("RENEWAL_EXTENSION", "SUMMARY", .summary, "The renewal dates of all eligible subscriptions were extended."),
        row("RESCIND_CONSENT", .appData, "A parent or guardian withdrew consent to a child's use of the app."),
        row("REVOKE", "Family Sharing of the purchase ended: it no longer gives access."),
        row("SUBSCRIBED", "INITIAL_BUY", "First subscription in the group, also through Family Sharing."),
        row("SUBSCRIBED", "RESUBSCRIBE", "Resubscribed in the group, also through Family Sharing."),
        row("TEST", "Test notification, sent on request."),
        row("UNCLAIM_SEATS", .unclaimInfo, "Apple took back seats that the app had assigned to members of a group."),
    ]

    private static func row(_ type: String, _ subtype: String, _ meaning: String) -> Row {
        Row(type: type, subtype: subtype, object: .data, meaning: meaning)
    }

    private static func row(_ type: String, _ subtype: String, _ object: Object, _ meaning: String) -> Row {
        Row(type: type, subtype: subtype, object: object, meaning: meaning)
    }

    private static func row(_ type: String, _ meaning: String) -> Row {
        Row(type: type, subtype: nil, object: .data, meaning: meaning)
    }

    private static func row(_ type: String, _ object: Object, _ meaning: String) -> Row {
        Row(type: type, subtype: nil, object: object, meaning: meaning)
    }
}
