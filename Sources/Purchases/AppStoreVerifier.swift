// Verifies App Store data signed by Apple. The order of the checks is: form, algorithm, certificates, signature, date,
// claims, app and environment. The checks depend neither on HTTP nor on the driver who made the purchase.

package import JourneyModel

package struct AppStoreVerifier: Sendable {
    /// Maximum number of seconds by which `signedDate` may be ahead of this server's clock. The data about a
    /// transaction with the latest `signedDate` replaces all other data about it. Without this limit, data dated far in
    /// the future would stay in effect until that date, even if Apple signs newer data.
    package static let clockSkewSecondsMax = 600

    private let apps: [AppStoreApp]
    private let environments: Set<AppStoreEnvironment>
    private let chain: CertificateChain
    private let headers = AcceptedHeaders()

    /// Creates the verifier. If `apps` is empty, all data is rejected.
    ///
    /// If `environments` contains `.xcode` or `.localTesting`, purchases from StoreKit testing in Xcode are accepted.
    /// **The signature of such a purchase proves nothing**, so these two environments must be used only for
    /// development.
    package init(
        apps: [AppStoreApp], environments: Set<AppStoreEnvironment> = [.production, .sandbox],
        chain: CertificateChain = CertificateChain()
    ) {
        self.apps = apps
        self.environments = environments
        self.chain = chain
    }

    /// Verifies `signedTransactionInfo`, or the `jwsRepresentation` of a StoreKit 2 transaction.
    package func transaction(_ text: String, now: Moment) async throws(PurchaseRefusal) -> TransactionFact {
        let signed = try SignedPayload(text, headers: headers)
        try await verify(signed, now: now, allowsXcode: true)
        let fact = try TransactionFact(signed)
        try check(fact)
        return fact
    }

    /// Verifies `signedRenewalInfo`, which has no bundle id. It is accepted only if it is about the subscription of
    /// `transaction`.
    package func renewal(
        _ text: String, beside transaction: TransactionFact, now: Moment
    ) async throws(PurchaseRefusal) -> RenewalFact {
        let signed = try SignedPayload(text, headers: headers)
        try await verify(signed, now: now, allowsXcode: true)
        let fact = try RenewalFact(signed)
        guard fact.environment == transaction.environment else { throw .wrongEnvironment }
        guard fact.originalTransactionID == transaction.originalTransactionID else { throw .otherSubscription }
        return fact
    }

    /// Verifies the `signedPayload` of a notification. Also verifies the transaction and the renewal information in the
    /// payload, which have signatures of their own.
    package func notification(_ text: String, now: Moment) async throws(PurchaseRefusal) -> StoreNotification {
        let signed = try SignedPayload(text, headers: headers)
        // Xcode sends no notifications.
        try await verify(signed, now: now, allowsXcode: false)
        let envelope = try NotificationEnvelope(signed.claims)
        for app in envelope.apps { try check(app) }

        var transaction: TransactionFact?
        if let text = envelope.signedTransaction {
            let fact = try await self.transaction(text, now: now)
            guard fact.environment == envelope.environment else { throw .wrongEnvironment }
            guard fact.bundleID == envelope.bundleID else { throw .wrongBundle }
            transaction = fact
        }
        var renewal: RenewalFact?
        if let text = envelope.signedRenewal {
            // Renewal information has no bundle id. Without a transaction, its app is unknown.
            guard let transaction else { throw .wrongClaims }
            renewal = try await self.renewal(text, beside: transaction, now: now)
        }
        return StoreNotification(
            notificationUUID: envelope.notificationUUID, type: envelope.type, subtype: envelope.subtype,
            environment: envelope.environment, bundleID: envelope.bundleID, transaction: transaction, renewal: renewal,
            appTransactionID: envelope.appTransactionID, signedDate: signed.signedDate, payload: signed.payload)
    }

    /// Verifies the certificates, the signature and the date of a payload. If `allowsXcode` is true, accepts a payload
    /// from `.xcode` or `.localTesting` without these checks, provided that `environments` contains the payload's
    /// environment.
    private func verify(_ signed: SignedPayload, now: Moment, allowsXcode: Bool) async throws(PurchaseRefusal) {
        if allowsXcode, let environment = try? signed.claims.environment(), !environment.isSignedByApple,
            environments.contains(environment)
        {
            return
        }
        let certificates = try signed.certificates()
        let key = try await chain.leafKey(of: certificates, at: signed.signedDate)
        guard signed.isSigned(by: key) else { throw .wrongSignature }
        if !signed.hasKnownHeader { headers.add(signed, certificates) }
        guard signed.signedDate <= now.advanced(bySeconds: Self.clockSkewSecondsMax) else { throw .signedInFuture }
    }

    private func check(_ app: NotificationEnvelope.App) throws(PurchaseRefusal) {
        if let environment = app.environment {
            guard environment.isSignedByApple, environments.contains(environment) else { throw .wrongEnvironment }
        }
        let ours = apps.filter { app.bundleID == nil || $0.bundleID == app.bundleID }
        guard !ours.isEmpty else { throw .wrongBundle }
        // Two kinds of notifications need no check of the Apple ID: those of the sandbox, and those without an Apple ID
        // that need none (`needsAppleID` is false).
        guard app.environment != .sandbox, app.needsAppleID || app.appleID != nil else { return }
        guard let appleID = app.appleID, ours.contains(where: { $0.appleID == appleID }) else { throw .wrongApp }
    }

    private func check(_ fact: TransactionFact) throws(PurchaseRefusal) {
        guard apps.contains(where: { $0.bundleID == fact.bundleID }) else { throw .wrongBundle }
        guard environments.contains(fact.environment) else { throw .wrongEnvironment }
    }
}
