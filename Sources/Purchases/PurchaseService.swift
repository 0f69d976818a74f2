// The service behind the purchase routes. It verifies signed App Store data, stores it, and returns the resulting
// entitlements. This file does not depend on HTTP.

package import Identity
package import JourneyModel

package enum PurchaseFailure: Error, Hashable, Sendable {
    /// The data was not accepted. For example, its signature is not from Apple, or its app is not configured.
    case refused(PurchaseRefusal)
    /// Too many verifications are waiting.
    case busy
    /// The purchase belongs to another driver, whose entitlements may have changed.
    case ownedByAnother(owner: DriverID?)
    case store(AccountFailure)
    /// The client sent only ids, and the App Store Server API is not configured. Without this API, only signed
    /// transactions are accepted.
    case needsSignedTransaction
    /// Apple has no transaction with the id that the client sent, for any configured app. Or Apple's transaction has
    /// another product id or original transaction id than the client sent.
    case unknownTransaction
    /// The App Store Server API is unavailable. `reason` is one word for the log.
    case appleUnavailable(retryAfterSeconds: Int, reason: String)
}

package protocol PurchaseService: Sendable {
    /// POST /native/purchases: stores the purchase, and returns the driver's entitlements once the purchase is on disk.
    func add(
        signedTransaction: String, signedRenewal: String?, of caller: Caller, at now: Moment
    ) async throws(PurchaseFailure) -> DriverEntitlements

    /// POST /native/purchases from an app that sends only ids: fetches the signed transaction from Apple, stores it,
    /// and returns the driver's entitlements.
    func add(
        _ claim: PurchaseClaim, of caller: Caller, at now: Moment
    ) async throws(PurchaseFailure) -> DriverEntitlements

    /// GET /native/entitlements.
    func entitlements(of driver: DriverID, at now: Moment) async throws(AccountFailure) -> DriverEntitlements

    /// POST /apple/store-notifications: stores the notification and the facts in it. A repeated notification changes
    /// nothing.
    func take(signedPayload: String, at now: Moment) async throws(PurchaseFailure) -> TakenNotification

    /// Returns `app_account_token` of GET /auth/me. The app passes this token to StoreKit with a purchase.
    func appAccountToken(of caller: Caller, at now: Moment) async throws(AccountFailure) -> String

    /// PUT /native/purchases/consent: stores whether the server may tell Apple how the driver's purchases were used.
    func setConsumptionConsent(
        _ isGiven: Bool, of caller: Caller, at now: Moment
    ) async throws(AccountFailure) -> ConsumptionConsent
}

/// The ids of a purchase, from an app without StoreKit 2. The ids are not signed, so they prove nothing.
package struct PurchaseClaim: Hashable, Sendable {
    /// 1 to 64 digits.
    package var transactionID: String
    package var productID: String
    package var originalTransactionID: String

    package init(transactionID: String, productID: String, originalTransactionID: String) {
        self.transactionID = transactionID
        self.productID = productID
        self.originalTransactionID = originalTransactionID
    }
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
    private let verifications: VerificationQueue
    private let store: any PurchaseStore
    /// Nil if the App Store Server API is not configured.
    private let api: (any AppStoreAPI)?
    private let newToken: @Sendable () -> String

    /// `newToken` returns a random UUID in lower case.
    package init(
        verifier: AppStoreVerifier, verifications: VerificationQueue = VerificationQueue(), store: any PurchaseStore,
        api: (any AppStoreAPI)? = nil, newToken: @escaping @Sendable () -> String
    ) {
        self.verifier = verifier
        self.verifications = verifications
        self.store = store
        self.api = api
        self.newToken = newToken
    }

    package func add(
        signedTransaction: String, signedRenewal: String?, of caller: Caller, at now: Moment
    ) async throws(PurchaseFailure) -> DriverEntitlements {
        let purchase = try await verifications.run { [verifier] () async throws(PurchaseRefusal) in
            let transaction = try await verifier.transaction(signedTransaction, now: now)
            var renewal: RenewalFact?
            if let signedRenewal {
                renewal = try await verifier.renewal(signedRenewal, beside: transaction, now: now)
            }
            return ShownPurchase(transaction: transaction, renewal: renewal)
        }
        return try await add(purchase, of: caller, at: now)
    }

    package func add(
        _ claim: PurchaseClaim, of caller: Caller, at now: Moment
    ) async throws(PurchaseFailure) -> DriverEntitlements {
        guard let api else { throw .needsSignedTransaction }
        let signed: String
        do throws(AppStoreAPIFailure) {
            signed = try await api.signedTransaction(claim.transactionID)
        } catch {
            switch error {
            case .notFound: throw .unknownTransaction
            case .unavailable(let seconds, let reason):
                throw .appleUnavailable(retryAfterSeconds: seconds, reason: reason)
            }
        }
        let transaction = try await verifications.run { [verifier] () async throws(PurchaseRefusal) in
            try await verifier.transaction(signed, now: now)
        }
        guard transaction.transactionID == claim.transactionID, transaction.productID == claim.productID,
            transaction.originalTransactionID == claim.originalTransactionID
        else { throw .unknownTransaction }
        return try await add(ShownPurchase(transaction: transaction), of: caller, at: now)
    }

    private func add(
        _ purchase: ShownPurchase, of caller: Caller, at now: Moment
    ) async throws(PurchaseFailure) -> DriverEntitlements {
        let owner: DriverID?
        do throws(AccountFailure) {
            switch try await store.add(purchase, of: caller, at: now) {
            case .stored(let facts): return DriverEntitlements(facts, at: now)
            case .ownedByAnother(let other): owner = other
            }
        } catch { throw .store(error) }
        throw .ownedByAnother(owner: owner)
    }

    package func entitlements(of driver: DriverID, at now: Moment) async throws(AccountFailure) -> DriverEntitlements {
        DriverEntitlements(try await store.facts(of: driver), at: now)
    }

    package func take(
        signedPayload: String, at now: Moment
    ) async throws(PurchaseFailure) -> TakenNotification {
        let notification = try await verifications.run { [verifier] () async throws(PurchaseRefusal) in
            try await verifier.notification(signedPayload, now: now)
        }
        do throws(AccountFailure) {
            return TakenNotification(
                notification: notification, outcome: try await store.take(notification, at: now))
        } catch { throw .store(error) }
    }

    package func appAccountToken(of caller: Caller, at now: Moment) async throws(AccountFailure) -> String {
        try await store.appAccountToken(of: caller, new: newToken(), at: now)
    }

    package func setConsumptionConsent(
        _ isGiven: Bool, of caller: Caller, at now: Moment
    ) async throws(AccountFailure) -> ConsumptionConsent {
        try await store.setConsumptionConsent(isGiven, of: caller, at: now)
    }
}

extension DriverEntitlements {
    fileprivate init(_ facts: PurchaseFacts, at now: Moment) {
        self.init(facts.entitlements(at: now), factCount: facts.transactions.count + facts.renewals.count)
    }
}
