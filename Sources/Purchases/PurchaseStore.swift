// The store's port of purchases. Each method that changes something is one transaction and returns once it is on disk.

package import Identity
package import JourneyModel

/// What a driver's app showed: a transaction that Apple signed and, of a subscription, the renewal beside it.
package struct ShownPurchase: Hashable, Sendable {
    package var transaction: TransactionFact
    package var renewal: RenewalFact?

    package init(transaction: TransactionFact, renewal: RenewalFact? = nil) {
        self.transaction = transaction
        self.renewal = renewal
    }
}

package enum PurchaseOutcome: Hashable, Sendable {
    /// Stored, or known before: all facts about the driver's purchases.
    case stored(PurchaseFacts)
    /// Another driver's, by Apple's signature on that driver's token, or because that driver showed it first. What Apple
    /// signed is stored all the same, for the owner.
    case ownedByAnother
}

package enum NotificationOutcome: Hashable, Sendable {
    /// Taken for the first time; nil when it is nobody's purchase yet, or about none.
    case taken(owner: DriverID?)
    /// The same `notificationUUID` was taken before: nothing was done.
    case repeated
}

package protocol PurchaseStore: Sendable {
    /// The driver's UUID for StoreKit's `appAccountToken`; `new` becomes it when the driver has none yet.
    func appAccountToken(of caller: Caller, new: String, at now: Moment) async throws(AccountFailure) -> String

    /// A purchase belongs to the driver whose token Apple signed into its newest transaction that has one of ours. Without
    /// such a token it belongs to the first who shows it.
    func add(_ purchase: ShownPurchase, of caller: Caller, at now: Moment) async throws(AccountFailure)
        -> PurchaseOutcome

    /// Stores the notification's id and its effect together.
    func take(
        _ notification: StoreNotification, at now: Moment
    ) async throws(AccountFailure) -> NotificationOutcome

    /// Empty for a driver without purchases.
    func facts(of driver: DriverID) async throws(AccountFailure) -> PurchaseFacts
}
