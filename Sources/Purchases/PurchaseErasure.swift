// What of a signed payload stays after its driver was deleted: the members that decide an entitlement or a refund. All others
// go, among them `appAccountToken` and `appTransactionId`, by which Apple and the app know a person.

import JourneyModel

package enum PurchaseErasure {
    private static let kept: Set<String> = [
        // Of a transaction.
        "transactionId", "originalTransactionId", "bundleId", "productId", "subscriptionGroupIdentifier",
        "purchaseDate", "expiresDate", "quantity", "type", "inAppOwnershipType", "isUpgraded", "revocationDate",
        "revocationReason", "revocationType", "offerType", "price", "currency", "storefront", "signedDate",
        "environment",
        // Of a renewal.
        "autoRenewProductId", "autoRenewStatus", "isInBillingRetryPeriod", "gracePeriodExpiresDate", "expirationIntent",
    ]

    /// JSON, without those members. Of what is no JSON object nothing stays.
    package static func anonymous(_ payload: [UInt8]) -> [UInt8] {
        guard let json = try? JSONValue.parse(payload), case .object(let members) = json else {
            return Array("{}".utf8)
        }
        return Array(JSONValue.object(members.filter { kept.contains($0.name) }).compact.utf8)
    }
}
