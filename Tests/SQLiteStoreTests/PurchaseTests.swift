// Tests of purchases in a real file. The newest fact about a purchase is kept, in whatever order the facts arrive. A
// notification takes effect once, and a purchase has one owner. When a driver is deleted, the facts remain but no
// longer name the driver.

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

struct PurchaseTests {
    private static let day = 86_400
    private static let start = AccountFixture.start

    private static func at(_ days: Int) -> Moment { start.advanced(bySeconds: days * day) }

    private static func transaction(
        _ id: String = "1", original: String? = nil, token: String? = nil, from begin: Int = 0, to end: Int = 30,
        signed: Int = 0, revoked: Int? = nil, environment: String = "Production"
    ) throws -> TransactionFact {
        var members = [
            "transactionId": id, "originalTransactionId": original ?? id, "bundleId": "com.example.dwell",
            "productId": "monthly", "subscriptionGroupIdentifier": "group", "type": "Auto-Renewable Subscription",
            "environment": environment, "appTransactionId": "70000000000000001",
        ].map { #""\#($0)":"\#($1)""# }
        if let token { members.append(#""appAccountToken":"\#(token)""#) }
        members += [("purchaseDate", begin), ("expiresDate", end), ("signedDate", signed)].map {
            #""\#($0)":\#(at($1).millisecondsSinceEpoch)"#
        }
        if let revoked { members.append(#""revocationDate":\#(at(revoked).millisecondsSinceEpoch)"#) }
        let payload = Array("{\(members.sorted().joined(separator: ","))}".utf8)
        return try TransactionFact(payload: payload, proof: SignatureProof(header: "e30", signature: [UInt8(signed)]))
    }

    private static func renewal(of original: String = "1", signed: Int, autoRenews: Bool = true) throws -> RenewalFact {
        let payload = """
            {"autoRenewStatus":\(autoRenews ? 1 : 0),"environment":"Production","originalTransactionId":"\(original)",\
            "productId":"monthly","signedDate":\(at(signed).millisecondsSinceEpoch)}
            """
        return try RenewalFact(payload: Array(payload.utf8), proof: nil)
    }

    private static func notification(
        _ number: Int, _ transaction: TransactionFact?, _ renewal: RenewalFact? = nil, type: String = "DID_RENEW"
    ) -> StoreNotification {
        let digits = String(number)
        let uuid = "00000000-0000-4000-8000-" + String(repeating: "0", count: 12 - digits.count) + digits
        return StoreNotification(
            notificationUUID: uuid, type: type, subtype: nil, environment: .production, bundleID: "com.example.dwell",
            transaction: transaction, renewal: renewal, signedDate: at(number), payload: Array("{}".utf8))
    }

    private static func caller(_ name: String) -> Caller { Caller(driver: DriverID(name)) }

    @Test func `a shown purchase is stored with the signature of Apple, and is there after a restart`() async throws {
        let first = try await AccountFixture()
        let purchases = SQLitePurchases(accounts: first.accounts)
        let fact = try Self.transaction()
        let shown = ShownPurchase(transaction: fact, renewal: try Self.renewal(signed: 0))
        let outcome = try await purchases.add(shown, of: Self.caller("ada"), at: Self.start)
        guard case .stored(let facts) = outcome else { throw Unexpected() }
        #expect(facts.entitlements(at: Self.at(1)).map(\.status) == [.active])
        #expect(facts.entitlements(at: Self.at(1)).map(\.autoRenews) == [true])
        // Adding the same purchase again changes nothing.
        #expect(try await purchases.add(shown, of: Self.caller("ada"), at: Self.start) == outcome)
        await first.close()
        let second = try await AccountFixture(in: first.folder)
        let stored = try await SQLitePurchases(accounts: second.accounts).facts(of: DriverID("ada"))
        #expect(stored == facts)
        #expect(stored.transactions.values.first?.proof == fact.proof)
        #expect(try await second.count("purchase_signer") == 1)
        await second.close()
    }

    @Test func `the first who shows a purchase owns it, and the other one is told so`() async throws {
        let fixture = try await AccountFixture()
        let purchases = SQLitePurchases(accounts: fixture.accounts)
        let shown = ShownPurchase(transaction: try Self.transaction())
        _ = try await purchases.add(shown, of: Self.caller("ada"), at: Self.start)
        #expect(try await purchases.add(shown, of: Self.caller("eve"), at: Self.start) == .ownedByAnother)
        // The next period of a subscription also belongs to the owner. It is added to the owner's facts even if another
        // driver presents it.
        let next = ShownPurchase(transaction: try Self.transaction("2", original: "1", from: 30, to: 60, signed: 30))
        #expect(try await purchases.add(next, of: Self.caller("eve"), at: Self.at(30)) == .ownedByAnother)
        #expect(try await purchases.facts(of: DriverID("eve")) == PurchaseFacts())
        #expect(try await purchases.facts(of: DriverID("ada")).transactions.count == 2)
        // Ids of the sandbox are separate from ids of production.
        let sandbox = ShownPurchase(transaction: try Self.transaction(environment: "Sandbox"))
        guard case .stored = try await purchases.add(sandbox, of: Self.caller("eve"), at: Self.start) else {
            throw Unexpected()
        }
        await fixture.close()
    }

    @Test func `the token that Apple signed says whose it is, whoever shows it first`() async throws {
        let fixture = try await AccountFixture()
        let purchases = SQLitePurchases(accounts: fixture.accounts)
        let token = "a1b2c3d4-0000-4000-8000-00000000000a"
        let given = try await purchases.appAccountToken(of: Self.caller("ada"), new: token, at: Self.start)
        #expect(given == token)
        // The driver's first account token stays. A token that is proposed later is ignored.
        let other = "a1b2c3d4-0000-4000-8000-00000000000b"
        #expect(try await purchases.appAccountToken(of: Self.caller("ada"), new: other, at: Self.start) == token)
        let shown = ShownPurchase(transaction: try Self.transaction(token: token.uppercased()))
        #expect(try await purchases.add(shown, of: Self.caller("eve"), at: Self.start) == .ownedByAnother)
        #expect(try await purchases.facts(of: DriverID("ada")).transactions.count == 1)
        // An account token that no driver has names no owner. The driver who shows the purchase then owns it.
        let unknown = ShownPurchase(transaction: try Self.transaction("9", token: other))
        guard case .stored = try await purchases.add(unknown, of: Self.caller("eve"), at: Self.start) else {
            throw Unexpected()
        }
        await fixture.close()
    }

    @Test func `a notification takes effect once, also across a restart, and finds the owner by the token`()
        async throws
    {
        let first = try await AccountFixture()
        let token = "a1b2c3d4-0000-4000-8000-00000000000a"
        var purchases = SQLitePurchases(accounts: first.accounts)
        _ = try await purchases.appAccountToken(of: Self.caller("ada"), new: token, at: Self.start)
        let notification = Self.notification(1, try Self.transaction(token: token), try Self.renewal(signed: 0))
        let outcomes = await withTaskGroup(of: NotificationOutcome?.self) { [purchases] group in
            for _ in 1...20 { group.addTask { try? await purchases.take(notification, at: Self.start) } }
            return await group.reduce(into: [NotificationOutcome?]()) { $0.append($1) }
        }
        #expect(outcomes.filter { $0 == .taken(owner: DriverID("ada")) }.count == 1)
        #expect(outcomes.filter { $0 == .repeated }.count == 19)
        await first.close()
        let second = try await AccountFixture(in: first.folder)
        purchases = SQLitePurchases(accounts: second.accounts)
        #expect(try await purchases.take(notification, at: Self.at(1)) == .repeated)
        #expect(try await purchases.facts(of: DriverID("ada")).entitlements(at: Self.at(1)).map(\.status) == [.active])
        await second.close()
    }

    @Test func `a notification that comes before the app shows the purchase is kept for its owner`() async throws {
        let fixture = try await AccountFixture()
        let purchases = SQLitePurchases(accounts: fixture.accounts)
        let refunded = Self.notification(3, try Self.transaction(signed: 3, revoked: 3), type: "REFUND")
        #expect(try await purchases.take(refunded, at: Self.at(3)) == .taken(owner: nil))
        let shown = ShownPurchase(transaction: try Self.transaction())
        guard case .stored(let facts) = try await purchases.add(shown, of: Self.caller("ada"), at: Self.at(4)) else {
            throw Unexpected()
        }
        #expect(facts.entitlements(at: Self.at(4)).map(\.status) == [.refunded])
        await fixture.close()
    }

    @Test func `unknown types are kept with their payload, and ids for 200 days`() async throws {
        let fixture = try await AccountFixture()
        let purchases = SQLitePurchases(accounts: fixture.accounts)
        _ = try await purchases.take(Self.notification(1, nil, type: "FROM_THE_FUTURE"), at: Self.start)
        _ = try await purchases.take(Self.notification(2, nil, type: "TEST"), at: Self.at(1))
        let payloads = try await fixture.store.read { db in
            try String?.fetchAll(db, sql: "SELECT CAST(payload AS TEXT) FROM store_notification ORDER BY uuid")
        }
        #expect(payloads == ["{}", nil])
        _ = try await purchases.take(Self.notification(3, nil), at: Self.at(200))
        #expect(try await fixture.count("store_notification") == 3)
        _ = try await purchases.take(Self.notification(4, nil), at: Self.at(202))
        #expect(try await fixture.count("store_notification") == 2)
        await fixture.close()
    }

    @Test func `a deletion leaves facts without a name, and the purchase to the next who shows it`() async throws {
        let fixture = try await AccountFixture()
        let purchases = SQLitePurchases(accounts: fixture.accounts)
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
        // A refund that arrives after the deletion is stored without an owner.
        let refund = Self.notification(5, try Self.transaction(token: token, signed: 5, revoked: 5), type: "REFUND")
        #expect(try await purchases.take(refund, at: Self.at(5)) == .taken(owner: nil))
        let again = ShownPurchase(transaction: fact)
        guard case .stored(let facts) = try await purchases.add(again, of: Self.caller("bea"), at: Self.at(6)) else {
            throw Unexpected()
        }
        #expect(facts.entitlements(at: Self.at(6)).map(\.status) == [.refunded])
        await fixture.close()
    }

    /// If the row of a signer were missing, the signer's facts would be believed again. The next owner would then get
    /// entitlements that were signed with a stolen key.
    @Test func `a deletion keeps no fact of a revoked signer`() async throws {
        let fixture = try await AccountFixture()
        let purchases = SQLitePurchases(accounts: fixture.accounts)
        let caller = Self.caller("ada")
        _ = try await purchases.add(ShownPurchase(transaction: try Self.transaction()), of: caller, at: Self.start)
        let signer = try #require(try await purchases.signers().first)
        try await purchases.record(signer.id, isRevoked: true, at: Self.start)
        _ = try await fixture.own.erase(caller, from: .at(Self.at(1)))
        #expect(try await fixture.count("purchase_transaction") == 0)
        await fixture.close()
    }

    @Test func `an operator's move beats the account token, is audited for both, and ends with the driver`()
        async throws
    {
        let fixture = try await AccountFixture()
        let purchases = SQLitePurchases(accounts: fixture.accounts)
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
        #expect(try await purchases.add(ShownPurchase(transaction: fact), of: ada, at: Self.at(31)) == .ownedByAnother)
        #expect(try await purchases.facts(of: DriverID("bea")).transactions.count == 2)
        let records = try PurchaseRecords(path: fixture.folder.file("db"))
        let found = try records.purchases(of: DriverID("bea"))
        #expect(found?.records.map(\.movedAt) == [Self.at(1)])
        #expect(try records.purchases(of: DriverID("ada"))?.records == [])
        #expect(try records.purchases(of: DriverID("nobody")) == nil)
        records.close()
        #expect(try await fixture.audit().count { $0.hasPrefix("operator_purchase_move") } == 2)
        _ = try await fixture.own.erase(bea, from: .at(Self.at(32)))
        // The purchase has no owner again. Its account token determines the next owner, as before the move.
        #expect(try await fixture.count("purchase WHERE moved_at_ms IS NOT NULL OR driver IS NOT NULL") == 0)
        await fixture.close()
    }

    @Test func `the export has what Apple signed about the driver's purchases`() async throws {
        let fixture = try await AccountFixture()
        let purchases = SQLitePurchases(accounts: fixture.accounts)
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

    private struct Unexpected: Error {}
}
