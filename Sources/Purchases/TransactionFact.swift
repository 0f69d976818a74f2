// A fact is Apple's signed data about one transaction (JWSTransactionDecodedPayload). A fact never changes. A fact with
// a later `signedDate` about the same transaction replaces it.

package import JourneyModel

package struct TransactionFact: Hashable, Sendable {
    package enum Kind: String, Hashable, Sendable, CaseIterable {
        case autoRenewable = "Auto-Renewable Subscription"
        case nonRenewing = "Non-Renewing Subscription"
        case nonConsumable = "Non-Consumable"
        case consumable = "Consumable"
    }

    package enum Ownership: Hashable, Sendable {
        case purchased
        case familyShared
        /// A value that this release does not know, as Apple sent it. The transaction gives access, because Apple signs
        /// transactions only for customers who may use the product.
        case other(String)

        init(_ text: String) {
            switch text {
            case "PURCHASED": self = .purchased
            case "FAMILY_SHARED": self = .familyShared
            default: self = .other(text)
            }
        }
    }

    package struct Revocation: Hashable, Sendable {
        package enum Kind: Hashable, Sendable {
            /// Apple refunded the purchase, fully or partly.
            case refund
            /// The product is no longer available through Family Sharing.
            case familySharing
            /// Access ended for an unknown reason that is not a refund. For example, an organization took the product
            /// back.
            case other
        }

        package var date: Moment
        package var kind: Kind
    }

    /// The offer that determined the price of this transaction.
    package struct Offer: Hashable, Sendable {
        /// The kind of offer: 1 introductory, 2 promotional, 3 offer code, 4 win-back. Apple may add others.
        package var type: Int64
        package var identifier: String?
    }

    package var environment: AppStoreEnvironment
    package var bundleID: String
    package var transactionID: String
    /// The id that all transactions of one subscription share. A restored purchase has the id of the original purchase.
    package var originalTransactionID: String
    package var productID: String
    /// Nil for a type that this release does not know. The fact is then stored, but gives no entitlement.
    package var kind: Kind?
    /// The group of an auto-renewable subscription, which always has one. Nil for other kinds.
    package var subscriptionGroupID: String?
    package var purchaseDate: Moment
    /// The end of the period. Never nil for auto-renewable subscriptions.
    package var expiresDate: Moment?
    /// The number of units, at least 1.
    package var quantity: Int64
    package var ownership: Ownership
    /// Whether the customer upgraded to another product of the group before this period ended.
    package var isUpgraded: Bool
    package var revocation: Revocation?
    package var offer: Offer?
    /// A UUID in lower case that identifies the customer. Nil if the app did not set it.
    package var appAccountToken: String?
    package var signedDate: Moment
    /// The JSON that Apple signed.
    package var payload: [UInt8]
    /// The proof of Apple's signature. Nil after the driver was deleted: the payload then has fewer members, so the
    /// signature no longer matches it.
    package var proof: SignatureProof?
}

extension TransactionFact {
    /// Reads a verified payload. Throws `wrongEnvironment` for an unknown environment, and `wrongClaims` for any other
    /// invalid member.
    package init(_ signed: SignedPayload) throws(PurchaseRefusal) {
        try self.init(signed.claims, payload: signed.payload, proof: SignatureProof(signed.jws))
    }

    /// Reads a stored fact. It was verified before it was stored.
    package init(payload: [UInt8], proof: SignatureProof?) throws(PurchaseRefusal) {
        try self.init(try PayloadReader(payload: payload), payload: payload, proof: proof)
    }

    private init(_ claims: PayloadReader, payload: [UInt8], proof: SignatureProof?) throws(PurchaseRefusal) {
        environment = try claims.environment()
        bundleID = try claims.text("bundleId")
        transactionID = try claims.text("transactionId")
        originalTransactionID = try claims.text("originalTransactionId")
        productID = try claims.text("productId")
        kind = Kind(rawValue: try claims.phrase("type"))
        subscriptionGroupID = try claims.optionalText("subscriptionGroupIdentifier")
        purchaseDate = try claims.moment("purchaseDate")
        expiresDate = try claims.optionalMoment("expiresDate")
        quantity = try claims.optionalInteger("quantity") ?? 1
        // Transactions from the time before Family Sharing have no `inAppOwnershipType`.
        ownership = try claims.optionalToken("inAppOwnershipType").map(Ownership.init) ?? .purchased
        guard (1...1_000_000).contains(quantity) else { throw .wrongClaims }
        isUpgraded = try claims.flag("isUpgraded")
        revocation = try Self.revocation(in: claims, ownership: ownership)
        offer =
            if let type = try claims.optionalInteger("offerType") {
                Offer(type: type, identifier: try claims.optionalIdentifier("offerIdentifier"))
            } else { nil }
        appAccountToken = try claims.optionalUUID("appAccountToken")
        signedDate = try claims.moment("signedDate")
        self.payload = payload
        self.proof = proof
        if kind == .autoRenewable {
            guard subscriptionGroupID != nil, expiresDate != nil else { throw .wrongClaims }
        }
    }

    private static func revocation(
        in claims: PayloadReader, ownership: Ownership
    ) throws(PurchaseRefusal) -> Revocation? {
        let type = try claims.optionalToken("revocationType")
        guard let date = try claims.optionalMoment("revocationDate") else { return nil }
        let kind: Revocation.Kind =
            switch type {
            // Apple added `revocationType` in 2025. In older data, the revocation of a shared product means that Family
            // Sharing ended. Every other revocation in older data is a refund.
            case nil: ownership == .familyShared ? .familySharing : .refund
            case "FAMILY_REVOKE"?: .familySharing
            case let type? where type.hasPrefix("REFUND_"): .refund
            default: .other
            }
        return Revocation(date: date, kind: kind)
    }
}

extension PayloadReader {
    /// Returns the identifier of an offer. Its text is not checked, because developers choose it freely. Returns nil if
    /// the identifier is absent, empty, or longer than 255 bytes.
    func optionalIdentifier(_ name: String) throws(PurchaseRefusal) -> String? {
        guard let text = try optionalToken(name), (1...Self.textBytesMax).contains(text.utf8.count) else { return nil }
        return text
    }
}
