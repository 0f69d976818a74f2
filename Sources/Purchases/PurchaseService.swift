// The service behind the routes of purchases: verifies what was sent, stores it, and returns the entitlements that
// follow. Does not know HTTP.

package import Identity
package import JourneyModel

package enum PurchaseFailure: Error, Hashable, Sendable {
    /// Not what Apple signed for one of our apps.
    case refused(PurchaseRefusal)
    /// Another driver's.
    case ownedByAnother
    case store(AccountFailure)
}

package protocol PurchaseService: Sendable {
    /// POST /native/purchases: what the driver is entitled to, with this purchase, once it is on disk.
    func add(
        signedTransaction: String, signedRenewal: String?, of caller: Caller, at now: Moment
    ) async throws(PurchaseFailure) -> [Entitlement]

    /// GET /native/entitlements.
    func entitlements(of driver: DriverID, at now: Moment) async throws(AccountFailure) -> [Entitlement]

    /// POST /apple/store-notifications: stores the notification with its effect, once.
    func take(signedPayload: String, at now: Moment) async throws(PurchaseFailure) -> TakenNotification

    /// `app_account_token` of GET /auth/me: what the app passes to StoreKit with a purchase.
    func appAccountToken(of caller: Caller, at now: Moment) async throws(AccountFailure) -> String
}

package struct TakenNotification: Hashable, Sendable {
    package var notification: StoreNotification
    package var outcome: NotificationOutcome

    package init(notification: StoreNotification, outcome: NotificationOutcome) {
        self.notification = notification
        self.outcome = outcome
    }
}

package struct AppStorePurchases: PurchaseService {
    private let verifier: AppStoreVerifier
    private let store: any PurchaseStore
    private let newToken: @Sendable () -> String

    /// `newToken`: a random UUID in lower case.
    package init(
        verifier: AppStoreVerifier, store: any PurchaseStore, newToken: @escaping @Sendable () -> String
    ) {
        self.verifier = verifier
        self.store = store
        self.newToken = newToken
    }

    package func add(
        signedTransaction: String, signedRenewal: String?, of caller: Caller, at now: Moment
    ) async throws(PurchaseFailure) -> [Entitlement] {
        let purchase: ShownPurchase
        do throws(PurchaseRefusal) {
            let transaction = try await verifier.transaction(signedTransaction, now: now)
            var renewal: RenewalFact?
            if let signedRenewal {
                renewal = try await verifier.renewal(signedRenewal, beside: transaction, now: now)
            }
            purchase = ShownPurchase(transaction: transaction, renewal: renewal)
        } catch { throw .refused(error) }
        do throws(AccountFailure) {
            switch try await store.add(purchase, of: caller, at: now) {
            case .stored(let facts): return facts.entitlements(at: now)
            case .ownedByAnother: break
            }
        } catch { throw .store(error) }
        throw .ownedByAnother
    }

    package func entitlements(of driver: DriverID, at now: Moment) async throws(AccountFailure) -> [Entitlement] {
        try await store.facts(of: driver).entitlements(at: now)
    }

    package func take(
        signedPayload: String, at now: Moment
    ) async throws(PurchaseFailure) -> TakenNotification {
        let notification: StoreNotification
        do throws(PurchaseRefusal) {
            notification = try await verifier.notification(signedPayload, now: now)
        } catch { throw .refused(error) }
        do throws(AccountFailure) {
            return TakenNotification(
                notification: notification, outcome: try await store.take(notification, at: now))
        } catch { throw .store(error) }
    }

    package func appAccountToken(of caller: Caller, at now: Moment) async throws(AccountFailure) -> String {
        try await store.appAccountToken(of: caller, new: newToken(), at: now)
    }
}
