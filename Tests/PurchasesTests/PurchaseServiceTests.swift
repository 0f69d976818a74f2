// Tests of `AppStorePurchases` with a store in memory: from signed data to the stored facts and the returned result.

import Identity
import JourneyModel
import Synchronization
import Testing

@testable import Purchases

@Suite struct PurchaseServiceTests {
    /// A store in memory for one driver, who owns every purchase. If the driver `other` shows a purchase, the store
    /// answers that it has another owner.
    private final class MemoryStore: PurchaseStore {
        private struct Contents {
            var facts = PurchaseFacts()
            var notifications: Set<String> = []
            var token: String?
        }

        private let contents = Mutex(Contents())
        let failure: AccountFailure?

        init(failure: AccountFailure? = nil) {
            self.failure = failure
        }

        func appAccountToken(of caller: Caller, new: String, at now: Moment) async throws(AccountFailure) -> String {
            if let failure { throw failure }
            return contents.withLock { contents in
                let token = contents.token ?? new
                contents.token = token
                return token
            }
        }

        func add(_ purchase: ShownPurchase, of caller: Caller, at now: Moment) async throws(AccountFailure)
            -> PurchaseOutcome
        {
            if let failure { throw failure }
            guard caller.driver.rawValue != "other" else { return .ownedByAnother(owner: DriverID("ada")) }
            return contents.withLock { contents in
                contents.facts.add(purchase.transaction)
                if let renewal = purchase.renewal { contents.facts.add(renewal) }
                return .stored(contents.facts)
            }
        }

        func take(_ notification: StoreNotification, at now: Moment) async throws(AccountFailure) -> NotificationOutcome
        {
            if let failure { throw failure }
            return contents.withLock { contents in
                guard contents.notifications.insert(notification.notificationUUID).inserted else { return .repeated }
                if let fact = notification.transaction { contents.facts.add(fact) }
                if let fact = notification.renewal { contents.facts.add(fact) }
                return .taken(owner: DriverID("ada"))
            }
        }

        func setConsumptionConsent(
            _ isGiven: Bool, of caller: Caller, at now: Moment
        ) async throws(AccountFailure) -> ConsumptionConsent {
            ConsumptionConsent(isGiven: isGiven, changedAt: now)
        }

        func facts(of driver: DriverID) async throws(AccountFailure) -> PurchaseFacts {
            if let failure { throw failure }
            return contents.withLock { $0.facts }
        }
    }

    private let authority: TestAuthority
    private let ada = Caller(driver: DriverID("ada"))

    init() throws {
        authority = try TestAuthority()
    }

    private func service(_ store: MemoryStore) -> AppStorePurchases {
        AppStorePurchases(
            verifier: authority.verifier(), store: store, newToken: { "a1b2c3d4-0000-4000-8000-00000000000a" })
    }

    @Test("A purchase returns the resulting entitlements")
    func shown() async throws {
        let service = service(MemoryStore())
        let entitlements = try await service.add(
            signedTransaction: authority.token(transactionClaims()), signedRenewal: authority.token(renewalClaims()),
            of: ada, at: start)
        #expect(entitlements.entitlements.map(\.status) == [.active])
        #expect(entitlements.entitlements.map(\.autoRenews) == [true])
        #expect(entitlements.factCount == 2)
        #expect(try await service.entitlements(of: ada.driver, at: start) == entitlements)
        #expect(try await service.appAccountToken(of: ada, at: start) == "a1b2c3d4-0000-4000-8000-00000000000a")
    }

    @Test("A purchase or notification is not stored if any part of it is not signed by Apple")
    func refused() async throws {
        let store = MemoryStore()
        let service = service(store)
        let (good, renewal) = (try authority.token(transactionClaims()), try authority.token(renewalClaims()))
        let stranger = try TestAuthority()
        let cases: [(String, String?, PurchaseRefusal)] = [
            ("", nil, .malformed), (try stranger.token(transactionClaims()), nil, .untrustedRoot),
            (good, try stranger.token(renewalClaims()), .untrustedRoot), (renewal, nil, .wrongClaims),
            (good, good, .wrongClaims),
            (good, try authority.token(renewalClaims(["originalTransactionId": "9"])), .otherSubscription),
        ]
        for (transaction, renewal, reason) in cases {
            await #expect(throws: PurchaseFailure.refused(reason)) {
                try await service.add(signedTransaction: transaction, signedRenewal: renewal, of: ada, at: start)
            }
        }
        #expect(try await service.entitlements(of: ada.driver, at: start).entitlements.isEmpty)
    }

    @Test("Another driver's purchase and a failing store throw their own errors")
    func failures() async throws {
        let token = try authority.token(transactionClaims())
        await #expect(throws: PurchaseFailure.ownedByAnother(owner: DriverID("ada"))) {
            try await service(MemoryStore()).add(
                signedTransaction: token, signedRenewal: nil, of: Caller(driver: DriverID("other")), at: start)
        }
        let failing = service(MemoryStore(failure: .unavailable("full")))
        await #expect(throws: PurchaseFailure.store(.unavailable("full"))) {
            try await failing.add(signedTransaction: token, signedRenewal: nil, of: ada, at: start)
        }
        let payload = try authority.token(notificationClaims())
        await #expect(throws: PurchaseFailure.store(.unavailable("full"))) {
            _ = try await failing.take(signedPayload: payload, at: start)
        }
    }

    @Test("A repeated notification has no effect")
    func notification() async throws {
        let service = service(MemoryStore())
        let payload = try authority.token(
            notificationClaims(data: ["signedTransactionInfo": try authority.token(transactionClaims())]))
        let (first, second) = (
            try await service.take(signedPayload: payload, at: start),
            try await service.take(signedPayload: payload, at: start)
        )
        #expect(first.outcome == .taken(owner: DriverID("ada")))
        #expect(second.outcome == .repeated)
        #expect(first.notification == second.notification)
        #expect(try await service.entitlements(of: ada.driver, at: start).entitlements.map(\.status) == [.active])
        await #expect(throws: PurchaseFailure.refused(.malformed)) {
            _ = try await service.take(signedPayload: "x", at: start)
        }
    }
}
