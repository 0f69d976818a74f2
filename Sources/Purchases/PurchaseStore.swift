// The storage port of purchases. Each method that changes data uses one transaction, and returns once the change is on
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
    /// The purchase was stored, now or earlier. The associated value contains all facts about the driver's purchases.
    case stored(PurchaseFacts)
    /// By the rules of `PurchaseStore.add`, the purchase belongs to another driver. It is stored for that driver, whose
    /// entitlements may change.
    case ownedByAnother(owner: DriverID?)
}

package enum NotificationOutcome: Hashable, Sendable {
    /// The notification was received for the first time. `owner` is the owner of the purchase that the notification is
    /// about. It is nil if the purchase has no owner, or if the notification is not about a purchase.
    case taken(owner: DriverID?)
    /// A notification with this `notificationUUID` was already stored. Nothing changed.
    case repeated
}

package protocol PurchaseStore: Sendable {
    /// Returns the driver's UUID for StoreKit's `appAccountToken`. If the driver has none yet, stores and returns
    /// `new`.
    func appAccountToken(of caller: Caller, new: String, at now: Moment) async throws(AccountFailure) -> String

    /// Stores a purchase for its owner. The owner is determined by the first of these rules that applies:
    /// - If an operator moved the purchase to a driver, that driver remains the owner.
    /// - If a transaction of the purchase has an `appAccountToken` that this server issued, the driver with this token
    ///   is the owner. If several transactions have such a token, the one with the latest purchase date counts.
    /// - If neither rule applies, the first driver whose app sends the purchase becomes the owner.
    func add(_ purchase: ShownPurchase, of caller: Caller, at now: Moment) async throws(AccountFailure)
        -> PurchaseOutcome

    /// Stores the notification's id and facts in one database transaction. If the purchase's owner was deleted and the
    /// purchase has no new owner, stores only the members that `PurchaseErasure` keeps.
    func take(
        _ notification: StoreNotification, at now: Moment
    ) async throws(AccountFailure) -> NotificationOutcome

    /// Stores the driver's consent or refusal. `changedAt` changes only when `isGiven` changes.
    func setConsumptionConsent(
        _ isGiven: Bool, of caller: Caller, at now: Moment
    ) async throws(AccountFailure) -> ConsumptionConsent

    /// Returns the driver's facts, which are empty for a driver without purchases.
    func facts(of driver: DriverID) async throws(AccountFailure) -> PurchaseFacts
}
