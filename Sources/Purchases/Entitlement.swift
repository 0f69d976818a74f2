// What a driver may use, and why; computed by `PurchaseFacts.entitlements(at:)`.

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

        /// Preference among subscriptions to the same product: the status with the lowest rank, the best for the
        /// driver, counts.
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
    /// When access ends, or ended, according to the known facts. Nil for consumables and non-consumables, whose access
    /// does not end, and for a non-renewing subscription without an end signed by Apple: the app decides when that
    /// ends.
    package var accessEnds: Moment?
    /// Start of the current, or last, period.
    package var purchaseDate: Moment
    /// Whether the subscription renews automatically. Nil when unknown, and for products that do not renew.
    package var autoRenews: Bool?
    /// The product of the next period if that differs from `productID` (a downgrade); nil otherwise.
    package var renewsToProductID: String?
    package var ownership: TransactionFact.Ownership
    package var offer: TransactionFact.Offer?
    /// For a consumable, the number bought and not refunded; 1 for all other products.
    package var quantity: Int64
    /// The transaction that determines this entitlement, for support.
    package var transactionID: String
    package var originalTransactionID: String
}
