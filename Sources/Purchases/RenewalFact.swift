// Apple's signed data about the next renewal of a subscription (JWSRenewalInfoDecodedPayload). The data has no bundle
// id, so it must be accepted only together with a transaction of the same subscription.

package import JourneyModel

package struct RenewalFact: Hashable, Sendable {
    package var environment: AppStoreEnvironment
    package var originalTransactionID: String
    /// The product of the current period, or of the last one.
    package var productID: String
    /// The product of the next period. Differs from `productID` after a downgrade.
    package var autoRenewProductID: String
    package var autoRenews: Bool
    /// Whether the payment failed and Apple is still retrying it, for up to 60 days.
    package var isInBillingRetry: Bool
    /// The end of the billing grace period. Access continues until then although the renewal failed.
    package var gracePeriodExpiresDate: Moment?
    /// The reason why the subscription expired: 1 cancelled, 2 billing error, 3 price increase not accepted, 4 product
    /// not for sale, 5 other.
    package var expirationIntent: Int64?
    package var signedDate: Moment
    /// The JSON that Apple signed.
    package var payload: [UInt8]
    /// The proof of Apple's signature. Nil after the driver was deleted, as in `TransactionFact.proof`.
    package var proof: SignatureProof?
}

extension RenewalFact {
    /// Reads a verified payload. Throws `wrongEnvironment` for an unknown environment, and `wrongClaims` for any other
    /// invalid member.
    package init(_ signed: SignedPayload) throws(PurchaseRefusal) {
        // A signed transaction may have all members that a renewal needs. If it counted as a renewal, it would replace
        // the subscription's real renewal. Two members tell them apart: every transaction has `transactionId`, and
        // every renewal has `autoRenewStatus`.
        guard try signed.claims.optionalText("transactionId") == nil,
            try signed.claims.optionalInteger("autoRenewStatus") != nil
        else { throw .wrongClaims }
        try self.init(signed.claims, payload: signed.payload, proof: SignatureProof(signed.jws))
    }

    /// Reads a stored fact. It was verified before it was stored.
    package init(payload: [UInt8], proof: SignatureProof?) throws(PurchaseRefusal) {
        try self.init(try PayloadReader(payload: payload), payload: payload, proof: proof)
    }

    private init(_ claims: PayloadReader, payload: [UInt8], proof: SignatureProof?) throws(PurchaseRefusal) {
        environment = try claims.environment()
        originalTransactionID = try claims.text("originalTransactionId")
        productID = try claims.text("productId")
        autoRenewProductID = try claims.optionalText("autoRenewProductId") ?? productID
        let status = try claims.optionalInteger("autoRenewStatus") ?? 0
        guard (0...1).contains(status) else { throw .wrongClaims }
        autoRenews = status == 1
        isInBillingRetry = try claims.flag("isInBillingRetryPeriod")
        gracePeriodExpiresDate = try claims.optionalMoment("gracePeriodExpiresDate")
        expirationIntent = try claims.optionalInteger("expirationIntent")
        signedDate = try claims.moment("signedDate")
        self.payload = payload
        self.proof = proof
    }
}
