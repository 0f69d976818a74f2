// Tests of the deletion of a driver who has purchases. They cover what the deletion keeps of a purchase, and what is
// stored about it later.

import Engine
import Identity
import JourneyModel
import Purchases
import TestSupport
import Testing

@testable import SharedTables

struct PurchaseErasingTests: PurchaseSamples {
    @Test(arguments: TestedDatabase.allCases)
    func `after a deletion, what Apple signs is stored without a name, until somebody shows the purchase`(
        _ database: TestedDatabase
    ) async throws {
        let opened = try await database.open()
        let purchases = try Self.purchases(opened)
        let token = "a1b2c3d4-0000-4000-8000-00000000000a"
        _ = try await purchases.appAccountToken(of: Self.caller("ada"), new: token, at: Self.start)
        let fact = try Self.transaction(token: token)
        _ = try await purchases.add(
            ShownPurchase(transaction: fact, renewal: try Self.renewal(signed: 0)), of: Self.caller("ada"),
            at: Self.start)
        try await Self.erase("ada", opened.store)
        let renewed = try Self.transaction("2", original: "1", token: token, from: 30, to: 60, signed: 30)
        let renewal = try Self.renewal(signed: 30)
        for (number, type) in [(1, "DID_RENEW"), (2, "FROM_THE_FUTURE")] {
            let notification = Self.notification(number, renewed, renewal, type: type)
            #expect(try await purchases.take(notification, at: Self.at(30)) == .taken(owner: nil))
        }
        for table in ["purchase_transaction", "purchase_renewal"] {
            let rest = try await Self.payloads(table, opened.store)
            #expect(rest.count == (table == "purchase_renewal" ? 1 : 2))
            #expect(rest.allSatisfy { !$0.contains("AccountToken") && !$0.contains(Self.customer) })
            #expect(try await opened.store.count("\(table) WHERE signer IS NOT NULL OR signature IS NOT NULL") == 0)
        }
        #expect(try await opened.store.count("purchase_transaction WHERE account_token IS NOT NULL") == 0)
        #expect(try await opened.store.count("store_notification WHERE payload IS NOT NULL") == 0)
        // The same person shows the purchase with the new account `bea`. The purchase has an owner again, so its facts
        // are stored in full.
        let shown = ShownPurchase(transaction: renewed, renewal: renewal)
        guard case .stored(let facts) = try await purchases.add(shown, of: Self.caller("bea"), at: Self.at(31)) else {
            throw Unexpected()
        }
        #expect(facts.transactions[renewed.key] == renewed && facts.renewals[renewal.key] == renewal)
        #expect(facts.entitlements(at: Self.at(31)).map(\.status) == [.active])
        let next = try Self.transaction("3", original: "1", token: token, from: 60, to: 90, signed: 60)
        #expect(
            try await purchases.take(Self.notification(3, next, type: "FROM_THE_FUTURE"), at: Self.at(60))
                == .taken(owner: DriverID("bea")))
        #expect(try await purchases.facts(of: DriverID("bea")).transactions[next.key] == next)
        #expect(try await opened.store.count("store_notification WHERE payload IS NOT NULL") == 1)
        await opened.close()
    }

    @Test(arguments: TestedDatabase.allCases)
    func `a deleted driver's purchase goes on whole if the token of another driver claims it`(
        _ database: TestedDatabase
    ) async throws {
        let opened = try await database.open()
        let purchases = try Self.purchases(opened)
        _ = try await purchases.add(
            ShownPurchase(transaction: try Self.transaction()), of: Self.caller("ada"), at: Self.start)
        // Apple's signing certificate is revoked before the driver is deleted. The deletion therefore also deletes all
        // facts that this certificate signed.
        let signer = try #require(try await purchases.signers().first)
        try await purchases.record(signer.id, isRevoked: true, at: Self.at(1))
        try await Self.erase("ada", opened.store)
        // Apple signs the later transactions with another certificate.
        var renewed = try Self.transaction("2", original: "1", from: 30, to: 60, signed: 30)
        renewed.proof = SignatureProof(header: "e31", signature: [30])
        #expect(try await purchases.take(Self.notification(1, renewed), at: Self.at(30)) == .taken(owner: nil))
        let rest = try await Self.payloads("purchase_transaction", opened.store)
        #expect(rest.count == 1 && rest.allSatisfy { !$0.contains(Self.customer) })
        let token = "b1b2c3d4-0000-4000-8000-00000000000b"
        _ = try await purchases.appAccountToken(of: Self.caller("bea"), new: token, at: Self.at(50))
        var next = try Self.transaction("3", original: "1", token: token, from: 60, to: 90, signed: 60)
        next.proof = SignatureProof(header: "e31", signature: [60])
        #expect(try await purchases.take(Self.notification(2, next), at: Self.at(60)) == .taken(owner: DriverID("bea")))
        let facts = try await purchases.facts(of: DriverID("bea"))
        #expect(facts.transactions.count == 2 && facts.transactions[next.key] == next)
        await opened.close()
    }

    @Test(arguments: TestedDatabase.allCases)
    func `a deletion removes what Apple said about the driver as a customer`(_ database: TestedDatabase) async throws {
        let opened = try await database.open()
        let purchases = try Self.purchases(opened)
        _ = try await purchases.add(
            ShownPurchase(transaction: try Self.transaction()), of: Self.caller("ada"), at: Self.start)
        for (number, customer) in [(1, Self.customer), (2, "8")] {
            let notification = Self.notification(number, nil, type: "RESCIND_CONSENT", customer: customer)
            _ = try await purchases.take(notification, at: Self.start)
        }
        try await Self.erase("ada", opened.store)
        #expect(try await opened.store.count("store_notification") == 2)
        #expect(
            try await opened.store.count(
                "store_notification WHERE payload IS NOT NULL AND app_transaction_id = '8'") == 1)
        #expect(
            try await opened.store.count(
                "store_notification WHERE payload IS NULL AND app_transaction_id IS NULL") == 1)
        await opened.close()
    }

    /// No stored fact has the customer id of these two notifications. Only one of them has a transaction. The deletion
    /// must remove the id from both.
    @Test(arguments: TestedDatabase.allCases)
    func `a deletion removes the customer's id that only notifications have`(_ database: TestedDatabase) async throws {
        let opened = try await database.open()
        let purchases = try Self.purchases(opened)
        let fact = try Self.transaction()
        _ = try await purchases.add(ShownPurchase(transaction: fact), of: Self.caller("ada"), at: Self.start)
        let about: [TransactionFact?] = [fact, nil]
        for (index, transaction) in about.enumerated() {
            let notification = Self.notification(index + 1, transaction, type: "FROM_THE_FUTURE", customer: "8")
            _ = try await purchases.take(notification, at: Self.start)
        }
        #expect(try await opened.store.count("store_notification WHERE app_transaction_id = '8'") == 2)
        try await Self.erase("ada", opened.store)
        #expect(
            try await opened.store.count(
                "store_notification WHERE payload IS NULL AND app_transaction_id IS NULL") == 2)
        await opened.close()
    }

    @Test(arguments: TestedDatabase.allCases)
    func `a deletion leaves facts without a name, and none of a revoked signer`(_ database: TestedDatabase) async throws
    {
        let opened = try await database.open()
        let purchases = try Self.purchases(opened)
        let token = "a1b2c3d4-0000-4000-8000-00000000000a"
        let ada = Self.caller("ada")
        _ = try await purchases.appAccountToken(of: ada, new: token, at: Self.start)
        let shown = ShownPurchase(transaction: try Self.transaction(token: token), renewal: try Self.renewal(signed: 0))
        _ = try await purchases.add(shown, of: ada, at: Self.start)
        _ = try await purchases.add(
            ShownPurchase(transaction: try Self.transaction("2")), of: Self.caller("bea"), at: Self.start)
        try await Self.erase("ada", opened.store)
        #expect(try await purchases.facts(of: DriverID("ada")) == PurchaseFacts())
        let rest = try await opened.store.read { db in
            try [UInt8].fetchAll(db, sql: "SELECT payload FROM purchase_transaction WHERE signature IS NULL")
        }.map { String(decoding: $0, as: UTF8.self) }
        #expect(rest.count == 1)
        #expect(rest.allSatisfy { !$0.contains("AccountToken") && !$0.contains("appTransactionId") })
        let signer = try #require(try await purchases.signers().first)
        #expect(signer.checkedAt == nil && !signer.isRevoked)
        try await purchases.record(signer.id, isRevoked: true, at: Self.at(1))
        #expect(try await purchases.signers().map(\.isRevoked) == [true])
        #expect(try await purchases.facts(of: DriverID("bea")) == PurchaseFacts())
        try await Self.erase("bea", opened.store)
        #expect(try await opened.store.count("purchase_transaction") == 1)
        #expect(try await opened.store.count("purchase WHERE driver IS NOT NULL") == 0)
        await opened.close()
    }
}
