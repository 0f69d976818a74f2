// The service behind the routes of purchases: verifies what was sent, stores it, and says what follows. It does not know HTTP.

package import Identity
package import JourneyModel

package enum PurchaseFailure: Error, Hashable, Sendable {
    /// Not what Apple signed for one of our apps.
    case refused(PurchaseRefusal)
    /// Another driver's.
    case ownedByAnother
    case store(AccountFailure)
}

package struct PurchaseService: Sendable {
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

    /// POST /native/purchases: what the driver is entitled to, with this purchase, once it is on disk.
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

    /// GET /native/entitlements.
    package func entitlements(of driver: DriverID, at now: Moment) async throws(AccountFailure) -> [Entitlement] {
        try await store.facts(of: driver).entitlements(at: now)
    }

    /// POST /apple/store-notifications: the notification, and whether it was news, once it is on disk.
    package func take(
        signedPayload: String, at now: Moment
    ) async throws(PurchaseFailure) -> (notification: StoreNotification, outcome: NotificationOutcome) {
        let notification: StoreNotification
        do throws(PurchaseRefusal) {
            notification = try await verifier.notification(signedPayload, now: now)
        } catch { throw .refused(error) }
        do throws(AccountFailure) {
            return (notification, try await store.take(notification, at: now))
        } catch { throw .store(error) }
    }

    /// `app_account_token` of GET /auth/me: what the app passes to StoreKit with a purchase.
    package func appAccountToken(of caller: Caller, at now: Moment) async throws(AccountFailure) -> String {
        try await store.appAccountToken(of: caller, new: newToken(), at: now)
    }
}
