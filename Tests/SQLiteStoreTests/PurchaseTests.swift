// Tests of purchases in a real file: deletion of the driver, export, and records. Tests/SharedTablesTests has the tests
// for both databases.

import Engine
import Foundation
import GRDB
import Identity
import JourneyModel
import Purchases
import SharedTables
import TestSupport
import Testing

@testable import SQLiteStore

struct PurchaseTests: PurchaseSamples {
    @Test func `a deletion leaves facts without a name, and the purchase to the next who shows it`() async throws {
        let fixture = try await AccountFixture()
        let purchases = StoredPurchases(accounts: fixture.accounts)
        let token = "a1b2c3d4-0000-4000-8000-00000000000a"
        let caller = Self.caller("ada")
        _ = try await purchases.appAccountToken(of: caller, new: token, at: Self.start)
        let fact = try Self.transaction(token: token)
        _ = try await purchases.add(
            ShownPurchase(transaction: fact, renewal: try Self.renewal(signed: 0)), of: caller, at: Self.start)
        _ = try await purchases.take(Self.notification(1, fact, type: "FROM_THE_FUTURE"), at: Self.start)
        let receipt = try await fixture.own.erase(caller, from: .at(Self.at(1)))
        #expect(try await purchases.facts(of: DriverID("ada")) == PurchaseFacts())
        #expect(try await fixture.count("app_account_token") == 0)
        let rest = try await fixture.store.read { db in
            try String.fetchAll(
                db, sql: "SELECT CAST(payload AS TEXT) FROM purchase_transaction WHERE signature IS NULL")
        }
        #expect(rest.count == 1)
        #expect(rest.allSatisfy { !$0.contains("AccountToken") && !$0.contains("appTransactionId") })
        #expect(rest.allSatisfy { $0.contains(#""transactionId":"1""#) })
        let scan = ErasureScan(path: fixture.folder.file("db"))
        #expect(try scan.find([token, "70000000000000001"]).isEmpty)
        #expect(try scan.leftovers(ofReceipt: receipt.id) == [])
        // After the deletion, a refund is stored without an owner.
        let refund = Self.notification(5, try Self.transaction(token: token, signed: 5, revoked: 5), type: "REFUND")
        #expect(try await purchases.take(refund, at: Self.at(5)) == .taken(owner: nil))
        let again = ShownPurchase(transaction: fact)
        guard case .stored(let facts) = try await purchases.add(again, of: Self.caller("bea"), at: Self.at(6)) else {
            throw Unexpected()
        }
        #expect(facts.entitlements(at: Self.at(6)).map(\.status) == [.refunded])
        await fixture.close()
    }

    /// The row of a signer (a certificate) says whether the certificate is revoked. If a deletion removed only this
    /// row, the server would trust the signer's facts again. A stolen key would then give entitlements.
    @Test func `a deletion keeps no fact of a revoked signer`() async throws {
        let fixture = try await AccountFixture()
        let purchases = StoredPurchases(accounts: fixture.accounts)
        let caller = Self.caller("ada")
        _ = try await purchases.add(ShownPurchase(transaction: try Self.transaction()), of: caller, at: Self.start)
        let signer = try #require(try await purchases.signers().first)
        try await purchases.record(signer.id, isRevoked: true, at: Self.start)
        _ = try await fixture.own.erase(caller, from: .at(Self.at(1)))
        #expect(try await fixture.count("purchase_transaction") == 0)
        await fixture.close()
    }

    @Test func `the export has what Apple signed about the driver's purchases`() async throws {
        let fixture = try await AccountFixture()
        let purchases = StoredPurchases(accounts: fixture.accounts)
        let caller = Self.caller("ada")
        let token = "a1b2c3d4-0000-4000-8000-00000000000a"
        _ = try await purchases.appAccountToken(of: caller, new: token, at: Self.start)
        let shown = ShownPurchase(transaction: try Self.transaction(), renewal: try Self.renewal(signed: 0))
        _ = try await purchases.add(shown, of: caller, at: Self.start)
        _ = try await purchases.add(
            ShownPurchase(transaction: try Self.transaction("8")), of: Self.caller("eve"), at: Self.start)
        let piece = try await fixture.accounts.export(of: caller, from: .at(Self.start))
        let json = try JSONValue.parse(piece.json)
        guard case .array(let transactions) = json["purchase_transactions"],
            case .array(let renewals) = json["purchase_renewals"]
        else { throw Unexpected() }
        #expect(transactions.count == 1)
        #expect(transactions.first?["payload"]?["transactionId"] == .string("1"))
        #expect(renewals.count == 1)
        #expect(renewals.first?["payload"]?["autoRenewStatus"] == .number("1"))
        #expect(json["app_account_tokens"] == .array([.object([JSONMember("app_account_token", .string(token))])]))
        await fixture.close()
    }

    @Test func `an operator's move is in the records, and ends with a deletion`() async throws {
        let fixture = try await AccountFixture()
        let purchases = StoredPurchases(accounts: fixture.accounts)
        let bea = Self.caller("bea")
        let fact = try Self.transaction()
        _ = try await purchases.add(ShownPurchase(transaction: fact), of: Self.caller("ada"), at: Self.start)
        _ = try await purchases.appAccountToken(
            of: bea, new: "b1b2c3d4-0000-4000-8000-00000000000b", at: Self.start)
        #expect(try await purchases.move(fact.subscription, to: DriverID("bea"), at: Self.at(1)))
        let records = try PurchaseRecords(path: fixture.folder.file("db"))
        #expect(try records.purchases(of: DriverID("bea"))?.records.map(\.movedAt) == [Self.at(1)])
        #expect(try records.purchases(of: DriverID("ada"))?.records == [])
        #expect(try records.purchases(of: DriverID("nobody")) == nil)
        records.close()
        _ = try await fixture.own.erase(bea, from: .at(Self.at(32)))
        #expect(try await fixture.count("purchase WHERE moved_at_ms IS NOT NULL OR driver IS NOT NULL") == 0)
        await fixture.close()
    }

    private struct Unexpected: Error {}
}
