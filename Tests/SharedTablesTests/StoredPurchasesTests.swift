// Tests of purchases on both databases. The newest fact about a purchase is kept, whatever the order of arrival. A
// purchase has one owner.

import Engine
import Identity
import JourneyModel
import Purchases
import TestSupport
import Testing

@testable import SharedTables

struct StoredPurchasesTests: PurchaseSamples {
    private let ownedByAda = PurchaseOutcome.ownedByAnother(owner: DriverID("ada"))

    @Test(arguments: TestedDatabase.allCases)
    func `a shown purchase is stored with the signature of Apple, and is there after a restart`(
        _ database: TestedDatabase
    ) async throws {
        let opened = try await database.open()
        let purchases = try Self.purchases(opened)
        let fact = try Self.transaction()
        let shown = ShownPurchase(transaction: fact, renewal: try Self.renewal(signed: 0))
        let outcome = try await purchases.add(shown, of: Self.caller("ada"), at: Self.start)
        guard case .stored(let facts) = outcome else { throw Unexpected() }
        #expect(facts.entitlements(at: Self.at(1)).map(\.status) == [.active])
        #expect(facts.entitlements(at: Self.at(1)).map(\.autoRenews) == [true])
        // Adding the same purchase again changes nothing.
        #expect(try await purchases.add(shown, of: Self.caller("ada"), at: Self.start) == outcome)
        try await opened.closeAndOpen()
        let stored = try await Self.purchases(opened).facts(of: DriverID("ada"))
        #expect(stored == facts)
        #expect(stored.transactions.values.first?.proof == fact.proof)
        #expect(try await opened.store.count("purchase_signer") == 1)
        await opened.close()
    }

    /// After a process has recorded a revocation, Apple's OCSP responder may give another process an older response.
    /// According to the older response, the certificate is good.
    @Test(arguments: TestedDatabase.allCases)
    func `a recorded revocation stays, also if a later check finds the certificate good`(
        _ database: TestedDatabase
    ) async throws {
        let opened = try await database.open()
        let purchases = try Self.purchases(opened)
        let shown = ShownPurchase(transaction: try Self.transaction())
        _ = try await purchases.add(shown, of: Self.caller("ada"), at: Self.start)
        let signer = try #require(try await purchases.signers().first)
        try await purchases.record(signer.id, isRevoked: false, at: Self.at(1))
        #expect(try await purchases.signers().map(\.isRevoked) == [false])
        try await purchases.record(signer.id, isRevoked: true, at: Self.at(2))
        try await purchases.record(signer.id, isRevoked: false, at: Self.at(3))
        let found = try await purchases.signers()
        #expect(found.map(\.isRevoked) == [true] && found.map(\.checkedAt) == [Self.at(3)])
        #expect(try await purchases.facts(of: DriverID("ada")).transactions.isEmpty)
        await opened.close()
    }

    @Test(arguments: TestedDatabase.allCases)
    func `a fact of a revoked signer does not replace a believed one`(_ database: TestedDatabase) async throws {
        let opened = try await database.open()
        let purchases = try Self.purchases(opened)
        let other = ShownPurchase(transaction: try Self.transaction("9"))
        _ = try await purchases.add(other, of: Self.caller("bea"), at: Self.start)
        let signer = try #require(try await purchases.signers().first)
        try await purchases.record(signer.id, isRevoked: true, at: Self.at(1))
        var believed = try Self.transaction()
        believed.proof = SignatureProof(header: "e31", signature: [0])
        _ = try await purchases.add(ShownPurchase(transaction: believed), of: Self.caller("ada"), at: Self.at(1))
        let refund = Self.notification(2, try Self.transaction(signed: 2, revoked: 2), type: "REFUND")
        #expect(try await purchases.take(refund, at: Self.at(2)) == .taken(owner: DriverID("ada")))
        #expect(try await purchases.facts(of: DriverID("ada")).transactions[believed.key] == believed)
        await opened.close()
    }

    @Test(arguments: TestedDatabase.allCases)
    func `the first who shows a purchase owns it, and the other one is told so`(_ database: TestedDatabase) async throws
    {
        let opened = try await database.open()
        let purchases = try Self.purchases(opened)
        let shown = ShownPurchase(transaction: try Self.transaction())
        _ = try await purchases.add(shown, of: Self.caller("ada"), at: Self.start)
        #expect(try await purchases.add(shown, of: Self.caller("eve"), at: Self.start) == ownedByAda)
        // The next period of the subscription belongs to the same owner, even if another driver shows its transaction.
        let next = ShownPurchase(transaction: try Self.transaction("2", original: "1", from: 30, to: 60, signed: 30))
        #expect(try await purchases.add(next, of: Self.caller("eve"), at: Self.at(30)) == ownedByAda)
        #expect(try await purchases.facts(of: DriverID("eve")) == PurchaseFacts())
        #expect(try await purchases.facts(of: DriverID("ada")).transactions.count == 2)
        // Ids of the sandbox are separate from ids of production.
        let sandbox = ShownPurchase(transaction: try Self.transaction(environment: "Sandbox"))
        guard case .stored = try await purchases.add(sandbox, of: Self.caller("eve"), at: Self.start) else {
            throw Unexpected()
        }
        await opened.close()
    }

    @Test(arguments: TestedDatabase.allCases)
    func `the token that Apple signed says whose it is, whoever shows it first`(_ database: TestedDatabase) async throws
    {
        let opened = try await database.open()
        let purchases = try Self.purchases(opened)
        let token = "a1b2c3d4-0000-4000-8000-00000000000a"
        let given = try await purchases.appAccountToken(of: Self.caller("ada"), new: token, at: Self.start)
        #expect(given == token)
        // The driver already has an account token, so the new token is ignored.
        let other = "a1b2c3d4-0000-4000-8000-00000000000b"
        #expect(try await purchases.appAccountToken(of: Self.caller("ada"), new: other, at: Self.start) == token)
        let shown = ShownPurchase(transaction: try Self.transaction(token: token.uppercased()))
        #expect(try await purchases.add(shown, of: Self.caller("eve"), at: Self.start) == ownedByAda)
        #expect(try await purchases.facts(of: DriverID("ada")).transactions.count == 1)
        // No driver has this account token. The driver who shows the purchase therefore becomes its owner.
        let unknown = ShownPurchase(transaction: try Self.transaction("9", token: other))
        guard case .stored = try await purchases.add(unknown, of: Self.caller("eve"), at: Self.start) else {
            throw Unexpected()
        }
        await opened.close()
    }

    @Test(arguments: TestedDatabase.allCases)
    func `the last bought transaction with a token decides, not the last signed one`(
        _ database: TestedDatabase
    ) async throws {
        let opened = try await database.open()
        let purchases = try Self.purchases(opened)
        let tokens = ["ada": "a1b2c3d4-0000-4000-8000-00000000000a", "bea": "b1b2c3d4-0000-4000-8000-00000000000b"]
        for (name, token) in tokens {
            _ = try await purchases.appAccountToken(of: Self.caller(name), new: token, at: Self.start)
        }
        let old = try Self.transaction(token: tokens["ada"])
        #expect(try await purchases.take(Self.notification(1, old), at: Self.start) == .taken(owner: DriverID("ada")))
        // Ada's subscription lapses. Bea then subscribes with the same Apple Account.
        let new = try Self.transaction("2", original: "1", token: tokens["bea"], from: 40, to: 70, signed: 40)
        #expect(try await purchases.take(Self.notification(2, new), at: Self.at(40)) == .taken(owner: DriverID("bea")))
        // The customer asks for a refund of Ada's period. Apple signs the transaction of this period again.
        let again = try Self.transaction(token: tokens["ada"], signed: 50)
        let requested = Self.notification(3, again, type: "CONSUMPTION_REQUEST")
        #expect(try await purchases.take(requested, at: Self.at(50)) == .taken(owner: DriverID("bea")))
        let refunded = try Self.transaction(token: tokens["ada"], signed: 52, revoked: 52)
        #expect(
            try await purchases.take(Self.notification(4, refunded, type: "REFUND"), at: Self.at(52))
                == .taken(owner: DriverID("bea")))
        #expect(
            try await purchases.add(ShownPurchase(transaction: old), of: Self.caller("ada"), at: Self.at(53))
                == .ownedByAnother(owner: DriverID("bea")))
        #expect(try await purchases.facts(of: DriverID("bea")).transactions.count == 2)
        // Two transactions have the same purchase date but different account tokens. The transaction with the higher id
        // decides who is the owner.
        let twin = try Self.transaction("3", original: "1", token: tokens["ada"], from: 40, to: 70, signed: 40)
        #expect(try await purchases.take(Self.notification(5, twin), at: Self.at(54)) == .taken(owner: DriverID("ada")))
        await opened.close()
    }

    @Test(arguments: TestedDatabase.allCases)
    func `an operator's move beats the account token, and is audited for both`(_ database: TestedDatabase) async throws
    {
        let opened = try await database.open()
        let purchases = try Self.purchases(opened)
        let token = "a1b2c3d4-0000-4000-8000-00000000000a"
        let (ada, bea) = (Self.caller("ada"), Self.caller("bea"))
        _ = try await purchases.appAccountToken(of: ada, new: token, at: Self.start)
        let fact = try Self.transaction(token: token)
        _ = try await purchases.add(ShownPurchase(transaction: fact), of: ada, at: Self.start)
        #expect(try await !purchases.move(fact.subscription, to: DriverID("nobody"), at: Self.at(1)))
        _ = try await purchases.appAccountToken(
            of: bea, new: "b1b2c3d4-0000-4000-8000-00000000000b", at: Self.start)
        var unknown = fact.subscription
        unknown.environment = .sandbox
        #expect(try await !purchases.move(unknown, to: DriverID("bea"), at: Self.at(1)))
        #expect(try await purchases.move(fact.subscription, to: DriverID("bea"), at: Self.at(1)))
        let renewed = try Self.transaction("2", original: "1", token: token, from: 30, to: 60, signed: 30)
        #expect(
            try await purchases.take(Self.notification(1, renewed), at: Self.at(30)) == .taken(owner: DriverID("bea")))
        #expect(
            try await purchases.add(ShownPurchase(transaction: fact), of: ada, at: Self.at(31))
                == .ownedByAnother(owner: DriverID("bea")))
        #expect(try await purchases.facts(of: DriverID("bea")).transactions.count == 2)
        let found = try await purchases.purchases(of: DriverID("bea"))
        #expect(found?.records.map(\.movedAt) == [Self.at(1)])
        #expect(found?.records.map { $0.notifications.count } == [1])
        #expect(try await purchases.purchases(original: "1").map(\.driver) == [DriverID("bea")])
        #expect(try await purchases.purchases(of: DriverID("ada"))?.records == [])
        #expect(try await purchases.purchases(of: DriverID("nobody")) == nil)
        #expect(try await opened.store.count("audit WHERE action = 'operator_purchase_move'") == 2)
        await opened.close()
    }
}
