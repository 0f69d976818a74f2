// What a driver may use, and why: the result of `PurchaseFacts.entitlements(at:)`.

package import JourneyModel

package struct Entitlement: Hashable, Sendable {
    package enum Status: String, Hashable, Sendable, CaseIterable {
        /// Paid. Access.
        case active
        /// The renewal failed, and Apple grants a billing grace period. Access.
        case grace
        /// The renewal failed, and Apple retries billing for up to 60 days. No access.
        case billingRetry = "billing_retry"
        /// Expired, or replaced by another product of the subscription group. No access.
        case expired
        /// No longer available through Family Sharing. No access.
        case revoked
        /// Refunded by Apple. No access.
        case refunded

        package var givesAccess: Bool { self == .active || self == .grace }

        /// Of two subscriptions to the same product, the one with the lower rank counts: it is better for the driver.
        var rank: Int {
            switch self {
            case .active: 0
            case .grace: 1
            case .billingRetry: 2
            case .expired: 3
            case .revoked: 4
            case .refunded: 5
            }
        }
    }

    package var environment: AppStoreEnvironment
    package var bundleID: String
    /// Nil for anything but an auto-renewable subscription.
    package var subscriptionGroupID: String?
    package var productID: String
    package var kind: TransactionFact.Kind
    package var status: Status
    /// When access ends, or ended, by the known facts. Nil: never (non-consumables and consumables), or, for a
    /// non-renewing subscription, when the app decides, because Apple does not sign an end.
    package var accessEnds: Moment?
    /// Start of the current, or last, period.
    package var purchaseDate: Moment
    /// Nil when unknown, and for products that do not renew.
    package var autoRenews: Bool?
    /// The product of the next period, if it is another one (a downgrade); nil otherwise.
    package var renewsToProductID: String?
    package var ownership: TransactionFact.Ownership
    package var offer: TransactionFact.Offer?
    /// For a consumable: how many were bought and not refunded. 1 for everything else.
    package var quantity: Int64
    /// The transaction that determines this entitlement, for support.
    package var transactionID: String
    package var originalTransactionID: String
}
