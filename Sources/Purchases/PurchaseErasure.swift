// When a driver is deleted, the stored payloads keep only the members that determine an entitlement or a refund.
// `appAccountToken` and `appTransactionId` are removed, because they identify a person to Apple and to the app.
//
// If Apple signs another payload about the purchase later, the server stores only the members that determine an
// entitlement or a refund. If another driver owns the purchase by then, it stores the whole payload.

import JourneyModel

package enum PurchaseErasure {
    private static let kept: Set<String> = [
        // Members of a transaction.
        "transactionId", "originalTransactionId", "bundleId", "productId", "subscriptionGroupIdentifier",
        "purchaseDate", "expiresDate", "quantity", "type", "inAppOwnershipType", "isUpgraded", "revocationDate",
        "revocationReason", "revocationType", "offerType", "price", "currency", "storefront", "signedDate",
        "environment",
        // Members of a renewal.
        "autoRenewProductId", "autoRenewStatus", "isInBillingRetryPeriod", "gracePeriodExpiresDate", "expirationIntent",
    ]

    /// Returns the payload as JSON with only the members in `kept`, or `{}` if the payload is not a JSON object.
    package static func anonymous(_ payload: [UInt8]) -> [UInt8] {
        guard let json = try? JSONValue.parse(payload), case .object(let members) = json else {
            return Array("{}".utf8)
        }
        return Array(JSONValue.object(members.filter { kept.contains($0.name) }).compact.utf8)
    }

    /// Returns `appTransactionId` of a transaction, a renewal or an app transaction: the customer's id at Apple for
    /// this app. Returns nil if the member is absent or invalid.
    package static func appTransactionID(in payload: [UInt8]) -> String? {
        guard let claims = try? PayloadReader(payload: payload) else { return nil }
        return try? claims.optionalText("appTransactionId")
    }
}

extension TransactionFact {
    /// Returns the fact with only the members that determine an entitlement or a refund, and without a signature.
    package func anonymous() throws(PurchaseRefusal) -> TransactionFact {
        try TransactionFact(payload: PurchaseErasure.anonymous(payload), proof: nil)
    }
}

extension RenewalFact {
    /// Returns the fact with only the members that determine an entitlement or a refund, and without a signature.
    package func anonymous() throws(PurchaseRefusal) -> RenewalFact {
        try RenewalFact(payload: PurchaseErasure.anonymous(payload), proof: nil)
    }
}
