// All facts signed by Apple about one driver's purchases, as a set that keeps the newest fact about each thing.
// Adding is commutative, associative and idempotent, so that the order, repetition and delay of arrival cannot
// matter.

/// The transaction that a fact is about. Apple's numbers are unique within an environment only.
package struct TransactionKey: Hashable, Sendable, Comparable {
    package var environment: AppStoreEnvironment
    package var transactionID: String

    package static func < (one: Self, other: Self) -> Bool {
        (one.environment.rawValue, one.transactionID) < (other.environment.rawValue, other.transactionID)
    }
}

/// A subscription of one buyer, in one group, through all renewals, upgrades and downgrades.
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

    /// Whether this replaces `other`, a fact with the same key. Two different facts of one millisecond are ordered by
    /// their bytes: which one wins is arbitrary, that it is always the same one is not.
    package func isNewer(than other: TransactionFact) -> Bool {
        if signedDate != other.signedDate { return signedDate > other.signedDate }
        if payload != other.payload { return other.payload.lexicographicallyPrecedes(payload) }
        return SignatureProof.isBefore(other.proof, proof)
    }
}

extension RenewalFact {
    package var key: SubscriptionKey {
        SubscriptionKey(environment: environment, originalTransactionID: originalTransactionID)
    }

    /// As `TransactionFact.isNewer`.
    package func isNewer(than other: RenewalFact) -> Bool {
        if signedDate != other.signedDate { return signedDate > other.signedDate }
        if payload != other.payload { return other.payload.lexicographicallyPrecedes(payload) }
        return SignatureProof.isBefore(other.proof, proof)
    }
}

package struct PurchaseFacts: Hashable, Sendable {
    package private(set) var transactions: [TransactionKey: TransactionFact] = [:]
    package private(set) var renewals: [SubscriptionKey: RenewalFact] = [:]

    package init() {}

    /// Returns whether the set changed: false for a repeat, and for a fact that a newer one has replaced.
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
