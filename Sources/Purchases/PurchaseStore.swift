// The storage port of purchases. Each method that changes data is one transaction and returns once the change is on
// disk.

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
    /// The purchase is stored, now or earlier. The value contains all facts about the driver's purchases.
    case stored(PurchaseFacts)
    /// The purchase belongs to another driver: it has the `appAccountToken` of that driver, or the app of that driver
    /// sent it first. Its facts are stored for the owner.
    case ownedByAnother
}

package enum NotificationOutcome: Hashable, Sendable {
    /// Received for the first time. `owner` is nil if the purchase has no owner yet, or the notification has no
    /// purchase.
    case taken(owner: DriverID?)
    /// This `notificationUUID` is already stored: nothing changed.
    case repeated
}

package protocol PurchaseStore: Sendable {
    /// Returns the driver's UUID for StoreKit's `appAccountToken`. Stores `new` first if the driver has none yet.
    func appAccountToken(of caller: Caller, new: String, at now: Moment) async throws(AccountFailure) -> String

    /// Stores a purchase for its owner. Of the purchase's transactions with an `appAccountToken` issued by this server,
    /// the newest determines the owner. Without such a token, the owner is the first driver whose app sends the
    /// purchase.
    func add(_ purchase: ShownPurchase, of caller: Caller, at now: Moment) async throws(AccountFailure)
        -> PurchaseOutcome

    /// Stores the notification's id and its facts in one transaction.
    func take(
        _ notification: StoreNotification, at now: Moment
    ) async throws(AccountFailure) -> NotificationOutcome

    /// Stores the driver's consent. `changedAt` changes only if `isGiven` does.
    func setConsumptionConsent(
        _ isGiven: Bool, of caller: Caller, at now: Moment
    ) async throws(AccountFailure) -> ConsumptionConsent

    /// Returns the driver's facts; none for a driver without purchases.
    func facts(of driver: DriverID) async throws(AccountFailure) -> PurchaseFacts
}
