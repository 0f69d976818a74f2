// The storage port of purchases. Each method that changes data is one transaction and returns once it is on disk.

package import Identity
package import JourneyModel

/// A purchase sent by a driver's app: a signed transaction and, for a subscription, its renewal information.
package struct ShownPurchase: Hashable, Sendable {
    package var transaction: TransactionFact
    package var renewal: RenewalFact?

    package init(transaction: TransactionFact, renewal: RenewalFact? = nil) {
        self.transaction = transaction
        self.renewal = renewal
    }
}

package enum PurchaseOutcome: Hashable, Sendable {
    /// Stored now or before. Contains all facts about the driver's purchases.
    case stored(PurchaseFacts)
    /// The purchase belongs to another driver: it has that driver's `appAccountToken`, or that driver's app sent it
    /// first. Its facts are stored for the owner.
    case ownedByAnother
}

package enum NotificationOutcome: Hashable, Sendable {
    /// Received for the first time. `owner` is nil if the purchase has no owner yet, or if there is no purchase in it.
    case taken(owner: DriverID?)
    /// This `notificationUUID` is already stored: nothing changed.
    case repeated
}

package protocol PurchaseStore: Sendable {
    /// The driver's UUID for StoreKit's `appAccountToken`; `new` is stored if the driver has none yet.
    func appAccountToken(of caller: Caller, new: String, at now: Moment) async throws(AccountFailure) -> String

    /// A purchase belongs to the driver whose `appAccountToken` is in its newest transaction that has one issued by this
    /// server. Without such a token it belongs to the first driver whose app sends it.
    func add(_ purchase: ShownPurchase, of caller: Caller, at now: Moment) async throws(AccountFailure)
        -> PurchaseOutcome

    /// Stores the notification's id and its facts in one transaction.
    func take(
        _ notification: StoreNotification, at now: Moment
    ) async throws(AccountFailure) -> NotificationOutcome

    /// The moment changes only with the answer.
    func setConsumptionConsent(
        _ isGiven: Bool, of caller: Caller, at now: Moment
    ) async throws(AccountFailure) -> ConsumptionConsent

    /// Empty for a driver without purchases.
    func facts(of driver: DriverID) async throws(AccountFailure) -> PurchaseFacts
}
