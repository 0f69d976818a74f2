// Tests of purchases on each database. The newest fact about a purchase is kept, in whatever order the facts arrive. A
// notification takes effect once, and a purchase has one owner.

import Engine
import Identity
import JourneyModel
import Purchases
import TestSupport
import Testing

@testable import SharedTables

struct StoredPurchasesTests {
    private static let day = 86_400
    private static let start = Sample.now

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

    private static func purchases(_ opened: any RestartableStore) throws -> StoredPurchases {
        StoredPurchases(store: opened.store, digests: try Sample.digests())
    }

    private static func caller(_ name: String) -> Caller { Caller(driver: DriverID(name)) }

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

    @Test(arguments: TestedDatabase.allCases)
    func `the first who shows a purchase owns it, and the other one is told so`(_ database: TestedDatabase) async throws
    {
        let opened = try await database.open()
        let purchases = try Self.purchases(opened)
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
        await opened.close()
    }

    @Test(arguments: TestedDatabase.allCases)
    func `a notification takes effect once, also across a restart, and finds the owner by the token`(
        _ database: TestedDatabase
    ) async throws {
        let opened = try await database.open()
        let token = "a1b2c3d4-0000-4000-8000-00000000000a"
        var purchases = try Self.purchases(opened)
        _ = try await purchases.appAccountToken(of: Self.caller("ada"), new: token, at: Self.start)
        let notification = Self.notification(1, try Self.transaction(token: token), try Self.renewal(signed: 0))
        let outcomes = await withTaskGroup(of: NotificationOutcome?.self) { [purchases] group in
            for _ in 1...20 { group.addTask { try? await purchases.take(notification, at: Self.start) } }
            return await group.reduce(into: [NotificationOutcome?]()) { $0.append($1) }
        }
        #expect(outcomes.filter { $0 == .taken(owner: DriverID("ada")) }.count == 1)
        #expect(outcomes.filter { $0 == .repeated }.count == 19)
        try await opened.closeAndOpen()
        purchases = try Self.purchases(opened)
        #expect(try await purchases.take(notification, at: Self.at(1)) == .repeated)
        #expect(try await purchases.facts(of: DriverID("ada")).entitlements(at: Self.at(1)).map(\.status) == [.active])
        await opened.close()
    }

    @Test(arguments: TestedDatabase.allCases)
    func `a notification that comes before the app shows the purchase is kept for its owner`(_ database: TestedDatabase)
        async throws
    {
        let opened = try await database.open()
        let purchases = try Self.purchases(opened)
        let refunded = Self.notification(3, try Self.transaction(signed: 3, revoked: 3), type: "REFUND")
        #expect(try await purchases.take(refunded, at: Self.at(3)) == .taken(owner: nil))
        let shown = ShownPurchase(transaction: try Self.transaction())
        guard case .stored(let facts) = try await purchases.add(shown, of: Self.caller("ada"), at: Self.at(4)) else {
            throw Unexpected()
        }
        #expect(facts.entitlements(at: Self.at(4)).map(\.status) == [.refunded])
        await opened.close()
    }

    @Test(arguments: TestedDatabase.allCases)
    func `unknown types are kept with their payload, and ids for 200 days`(_ database: TestedDatabase) async throws {
        let opened = try await database.open()
        let purchases = try Self.purchases(opened)
        _ = try await purchases.take(Self.notification(1, nil, type: "FROM_THE_FUTURE"), at: Self.start)
        _ = try await purchases.take(Self.notification(2, nil, type: "TEST"), at: Self.at(1))
        let payloads = try await opened.store.read { db in
            try SQLRow.fetchAll(db, sql: "SELECT payload FROM store_notification ORDER BY uuid")
        }
        #expect(payloads == [SQLRow([.blob(Array("{}".utf8))]), SQLRow([.null])])
        _ = try await purchases.take(Self.notification(3, nil), at: Self.at(200))
        #expect(try await opened.store.count("store_notification") == 3)
        _ = try await purchases.take(Self.notification(4, nil), at: Self.at(202))
        #expect(try await opened.store.count("store_notification") == 2)
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
        #expect(try await purchases.add(ShownPurchase(transaction: fact), of: ada, at: Self.at(31)) == .ownedByAnother)
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

    @Test(arguments: TestedDatabase.allCases)
    func `the queue of consumption requests knows the owner's consent, and ends with an outcome`(
        _ database: TestedDatabase
    ) async throws {
        let opened = try await database.open()
        let purchases = try Self.purchases(opened)
        let ada = Self.caller("ada")
        let fact = try Self.transaction()
        _ = try await purchases.add(ShownPurchase(transaction: fact), of: ada, at: Self.start)
        let request = Self.notification(1, fact, type: "CONSUMPTION_REQUEST")
        #expect(try await purchases.take(request, at: Self.at(1)) == .taken(owner: DriverID("ada")))
        #expect(try await purchases.nextConsumptionRequest(dueAt: Self.start) == nil)
        let first = try #require(try await purchases.nextConsumptionRequest(dueAt: Self.at(1)))
        #expect(!first.hasConsent && first.transactionID == "1" && first.requestedAt == Self.at(1))
        for (isGiven, day, changed) in [(true, 2, 2), (true, 3, 2), (false, 4, 4), (true, 5, 5)] {
            let consent = try await purchases.setConsumptionConsent(isGiven, of: ada, at: Self.at(day))
            #expect(consent == ConsumptionConsent(isGiven: isGiven, changedAt: Self.at(changed)))
        }
        #expect(try await purchases.nextConsumptionRequest(dueAt: Self.at(5))?.hasConsent == true)
        try await purchases.postpone(first.id, until: Self.at(6))
        #expect(try await purchases.nextConsumptionRequest(dueAt: Self.at(5)) == nil)
        #expect(try await purchases.nextConsumptionRequest(dueAt: Self.at(6))?.attemptCount == 1)
        try await purchases.finish(first.id, .answered, at: Self.at(6))
        #expect(try await purchases.nextConsumptionRequest(dueAt: Self.at(7)) == nil)
        let record = try #require(try await purchases.purchases(of: DriverID("ada")))
        #expect(record.consent?.isGiven == true)
        #expect(record.records.first?.notifications.first?.consumption?.outcome == .answered)
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
        let erase = { @Sendable (driver: String, db: any SQLTransaction) throws in
            guard let row = try DriverRows.row(of: DriverID(driver), db) else { throw Unexpected() }
            try PurchaseRows.erase(row, db)
        }
        try await opened.store.change { db in try erase("ada", db) }
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
        try await opened.store.change { db in try erase("bea", db) }
        #expect(try await opened.store.count("purchase_transaction") == 1)
        #expect(try await opened.store.count("purchase WHERE driver IS NOT NULL") == 0)
        await opened.close()
    }

    private struct Unexpected: Error {}
}
