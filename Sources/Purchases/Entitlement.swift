// An entitlement: whether a driver may use a product, and why.

package import JourneyModel

/// A driver's entitlements, and the number of facts from which they were computed.
package struct DriverEntitlements: Hashable, Sendable {
    package var entitlements: [Entitlement]
    /// The number of transactions and renewals. The time to compute the entitlements grows with this number, because
    /// all facts are parsed.
    package var factCount: Int

    package init(_ entitlements: [Entitlement], factCount: Int) {
        self.entitlements = entitlements
        self.factCount = factCount
    }
}

package struct Entitlement: Hashable, Sendable {
    package enum Status: String, Hashable, Sendable, CaseIterable {
        /// The product is paid for. It gives access.
        case active
        /// The renewal failed, and Apple grants a billing grace period. The product gives access.
        case grace
        /// The renewal failed, and Apple retries the payment for up to 60 days. The product gives no access.
        case billingRetry = "billing_retry"
        /// The product expired, or another product of the subscription group replaced it. The product gives no access.
        case expired
        /// The product is no longer available through Family Sharing, or Apple revoked it for a reason other than a
        /// refund. The product gives no access.
        case revoked
        /// Apple refunded the product. It gives no access.
        case refunded

        package var givesAccess: Bool { self == .active || self == .grace }

        /// If a driver has several subscriptions to the same product, the one with the lowest rank counts.
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
    /// The group of an auto-renewable subscription; nil for all other products.
    package var subscriptionGroupID: String?
    package var productID: String
    package var kind: TransactionFact.Kind
    package var status: Status
    /// The time when access ends or ended.
    ///
    /// Nil if Apple signed no end of access and the product is neither revoked nor refunded. Apple signs no end for
    /// consumables and non-consumables. For a non-renewing subscription without an end, the app decides when access
    /// ends.
    package var accessEnds: Moment?
    /// For a subscription: the start of the current period. If no period is current: the start of the latest period.
    /// For all other products: the time of the purchase.
    package var purchaseDate: Moment
    /// Whether the subscription renews automatically; nil if that is unknown. Also nil for an expired, revoked or
    /// refunded subscription, and for a product that is not an auto-renewable subscription.
    package var autoRenews: Bool?
    /// The id of the next period's product, for example after a downgrade. Nil if the next period has the same product,
    /// or if the subscription does not renew.
    package var renewsToProductID: String?
    package var ownership: TransactionFact.Ownership
    package var offer: TransactionFact.Offer?
    /// For a consumable: the number of units that were bought and not refunded. For all other products: 1.
    package var quantity: Int64
    /// The id of the transaction that determines this entitlement, for support.
    package var transactionID: String
    package var originalTransactionID: String
}
