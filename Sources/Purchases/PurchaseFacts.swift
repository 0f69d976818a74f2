// The newest signed facts about one driver's purchases: one about each transaction, and one about the next renewal of
// each subscription.
//
// Adding facts is commutative, associative and idempotent. The result is the same in whatever order, and however often,
// the facts arrive.

/// The identity of a transaction. Apple's transaction ids are unique only within an environment.
package struct TransactionKey: Hashable, Sendable, Comparable {
    package var environment: AppStoreEnvironment
    package var transactionID: String

    package static func < (one: Self, other: Self) -> Bool {
        (one.environment.rawValue, one.transactionID) < (other.environment.rawValue, other.transactionID)
    }
}

/// The identity of one customer's subscription in one group. It stays the same through all renewals, upgrades and
/// downgrades.
package struct SubscriptionKey: Hashable, Sendable {
    package var environment: AppStoreEnvironment
    package var originalTransactionID: String

    package init(environment: AppStoreEnvironment, originalTransactionID: String) {
        self.environment = environment
        self.originalTransactionID = originalTransactionID
    }
}

extension TransactionFact {
    package var key: TransactionKey { TransactionKey(environment: environment, transactionID: transactionID) }

    package var subscription: SubscriptionKey {
        SubscriptionKey(environment: environment, originalTransactionID: originalTransactionID)
    }

    /// Returns whether this fact replaces `other`, a fact with the same key. The fact with the later `signedDate` wins.
    ///
    /// If the dates are equal, a fact with a signature wins. When a driver is deleted, the driver's facts lose their
    /// signatures and some members.
    ///
    /// If both facts have a signature, or neither has one, their bytes are compared. The resulting order has no
    /// meaning, but is the same in every process.
    package func isNewer(than other: TransactionFact) -> Bool {
        if signedDate != other.signedDate { return signedDate > other.signedDate }
        if (proof == nil) != (other.proof == nil) { return proof != nil }
        if payload != other.payload { return other.payload.lexicographicallyPrecedes(payload) }
        return SignatureProof.isBefore(other.proof, proof)
    }
}

extension RenewalFact {
    package var key: SubscriptionKey {
        SubscriptionKey(environment: environment, originalTransactionID: originalTransactionID)
    }

    /// Returns whether this fact replaces `other`, by the rule of `TransactionFact.isNewer`.
    package func isNewer(than other: RenewalFact) -> Bool {
        if signedDate != other.signedDate { return signedDate > other.signedDate }
        if (proof == nil) != (other.proof == nil) { return proof != nil }
        if payload != other.payload { return other.payload.lexicographicallyPrecedes(payload) }
        return SignatureProof.isBefore(other.proof, proof)
    }
}

package struct PurchaseFacts: Hashable, Sendable {
    package private(set) var transactions: [TransactionKey: TransactionFact] = [:]
    package private(set) var renewals: [SubscriptionKey: RenewalFact] = [:]

    package init() {}

    /// Adds a fact. Returns false if the stored fact about the same transaction is equal or newer.
    @discardableResult
    package mutating func add(_ fact: TransactionFact) -> Bool {
        if let known = transactions[fact.key], !fact.isNewer(than: known) { return false }
        transactions[fact.key] = fact
        return true
    }

    @discardableResult
    package mutating func add(_ fact: RenewalFact) -> Bool {
        if let known = renewals[fact.key], !fact.isNewer(than: known) { return false }
        renewals[fact.key] = fact
        return true
    }
}
