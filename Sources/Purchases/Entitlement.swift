// What a driver may use, and why: the result of `PurchaseFacts.entitlements(at:)`.

package import JourneyModel

package struct Entitlement: Hashable, Sendable {
    package enum Status: String, Hashable, Sendable, CaseIterable {
        /// Paid for. Access.
        case active
        /// The renewal could not be charged, and Apple grants a billing grace period. Access.
        case grace
        /// The renewal could not be charged, and Apple keeps trying for up to 60 days. No access.
        case billingRetry = "billing_retry"
        /// Over, or replaced by another product of the group. No access.
        case expired
        /// No longer shared by the family member who pays. No access.
        case revoked
        /// Refunded by Apple. No access.
        case refunded

        package var givesAccess: Bool { self == .active || self == .grace }

        /// Decides between two subscriptions to the same product: the one worth more to the driver counts.
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
    /// When access ends, or ended, by the known facts. Nil: never (lifetime products and consumables), or, for a
    /// non-renewing subscription, when the app says so, because Apple does not.
    package var accessEnds: Moment?
    /// When the current, or last, period began.
    package var purchaseDate: Moment
    /// Nil when unknown, and for products that do not renew.
    package var autoRenews: Bool?
    /// The product that it renews to, when that is another one (a downgrade); nil otherwise.
    package var renewsToProductID: String?
    package var ownership: TransactionFact.Ownership
    package var offer: TransactionFact.Offer?
    /// For a consumable: how many were bought and not refunded. 1 for everything else.
    package var quantity: Int64
    /// The transaction that decided, for support.
    package var transactionID: String
    package var originalTransactionID: String
}
