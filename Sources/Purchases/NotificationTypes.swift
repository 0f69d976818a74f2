// Every type and subtype of App Store Server Notifications V2 that Apple documents
// (https://developer.apple.com/documentation/appstoreservernotifications/notificationtype, read in November 2026).
// The table decides nothing about access: the signed facts in a notification do. It says what else a type requires,
// and what to tell an operator; an unknown one is stored like the others.

package struct NotificationTypes: Sendable {
    /// The object of the payload that carries the details.
    package enum Object: String, Hashable, Sendable {
        case data, summary, externalPurchaseToken, appData
    }

    package struct Row: Hashable, Sendable {
        package var type: String
        package var subtype: String?
        package var object: Object
        /// What happened, for a page or a log.
        package var meaning: String
    }

    /// The row, or nil when Apple did not document the pair when this was written.
    package static func row(type: String, subtype: String?) -> Row? {
        rows.first { $0.type == type && $0.subtype == subtype }
    }

    package static let rows: [Row] = [
        row("CONSUMPTION_REQUEST", "Someone asked Apple for a refund, and Apple asks what was used."),
        row("DID_CHANGE_RENEWAL_PREF", "A planned downgrade was called off: it renews to the same product."),
        row("DID_CHANGE_RENEWAL_PREF", "DOWNGRADE", "It renews to a cheaper product, from the next period on."),
        row("DID_CHANGE_RENEWAL_PREF", "UPGRADE", "A dearer product of the group replaced it at once."),
        row("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED", "It was cancelled: access ends with the period."),
        row("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_ENABLED", "The cancellation was taken back."),
        row("DID_FAIL_TO_RENEW", "The charge failed; Apple keeps trying, without access."),
        row("DID_FAIL_TO_RENEW", "GRACE_PERIOD", "The charge failed; access goes on for the grace period."),
        row("DID_RENEW", "A new period is paid."),
        row("DID_RENEW", "BILLING_RECOVERY", "A charge that had failed went through: a new period is paid."),
        row("EXPIRED", "It ended for another reason than the four below."),
        row("EXPIRED", "BILLING_RETRY", "It ended: Apple gave up charging."),
        row("EXPIRED", "PRICE_INCREASE", "It ended: a higher price was not accepted."),
        row("EXPIRED", "PRODUCT_NOT_FOR_SALE", "It ended: the product is no longer sold."),
        row("EXPIRED", "VOLUNTARY", "It ended: it had been cancelled."),
        row(
            "EXTERNAL_PURCHASE_TOKEN", "ACTIVE_TOKEN_REMINDER", .externalPurchaseToken, "A link token is still active."),
        row("EXTERNAL_PURCHASE_TOKEN", "CREATED", .externalPurchaseToken, "Apple made a link token."),
        row("EXTERNAL_PURCHASE_TOKEN", "UNREPORTED", .externalPurchaseToken, "A token was not reported to Apple."),
        row("GRACE_PERIOD_EXPIRED", "The grace period ended without payment: access ends, Apple keeps trying."),
        row("METADATA_UPDATE", "The texts of an Advanced Commerce subscription changed."),
        row("MIGRATION", "The subscription moved to the Advanced Commerce API."),
        row("OFFER_REDEEMED", "An offer was redeemed for the current product."),
        row("OFFER_REDEEMED", "DOWNGRADE", "An offer for a cheaper product, from the next period on."),
        row("OFFER_REDEEMED", "INITIAL_BUY", "An offer was redeemed with the first purchase (until 2023)."),
        row("OFFER_REDEEMED", "RESUBSCRIBE", "An offer was redeemed by subscribing again (until 2023)."),
        row("OFFER_REDEEMED", "UPGRADE", "An offer for a dearer product, at once."),
        row("ONE_TIME_CHARGE", "A consumable, lifetime product or non-renewing subscription was bought."),
        row("PRICE_CHANGE", "The price of an Advanced Commerce subscription changed."),
        row("PRICE_INCREASE", "ACCEPTED", "A higher price was accepted, or needs no consent."),
        row("PRICE_INCREASE", "PENDING", "A higher price waits for consent."),
        row("REFUND", "Apple gave the money for a transaction back: access by it ends."),
        row("REFUND_DECLINED", "Apple did not give the money back."),
        row("REFUND_REVERSED", "Apple took a refund back: access by the transaction returns."),
        row("RENEWAL_EXTENDED", "The period was extended."),
        row("RENEWAL_EXTENSION", "FAILURE", "The period of one subscription could not be extended."),
        row("RENEWAL_EXTENSION", "SUMMARY", .summary, "The periods of many subscriptions were extended."),
        row("RESCIND_CONSENT", .appData, "A parent took back the consent to a child's use of the app."),
        row("REVOKE", "The family member who pays no longer shares it: access by it ends."),
        row("SUBSCRIBED", "INITIAL_BUY", "The first subscription in the group, or the first by family sharing."),
        row("SUBSCRIBED", "RESUBSCRIBE", "Subscribed again, or shared again."),
        row("TEST", "Sent on request, from App Store Connect or the API."),
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
