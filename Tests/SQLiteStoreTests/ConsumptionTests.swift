// Tests of a driver's consent to sending consumption information, and of Apple's requests for that information, in a
// real file.

import Engine
import Foundation
import GRDB
import Identity
import JourneyModel
import Purchases
import TestSupport
import Testing

@testable import SQLiteStore
@testable import SharedTables

struct ConsumptionTests {
    private static let start = AccountFixture.start
    private static let ada = Caller(driver: DriverID("ada"))

    private static func at(_ seconds: Int) -> Moment { start.advanced(bySeconds: seconds) }

    private static func transaction(_ id: String, environment: String = "Production") throws -> TransactionFact {
        let now = start.millisecondsSinceEpoch
        let payload = """
            {"transactionId":"\(id)","originalTransactionId":"\(id)","bundleId":"com.example.dwell","productId":"coins",\
            "type":"Consumable","environment":"\(environment)","purchaseDate":\(now),"signedDate":\(now)}
            """
        return try TransactionFact(payload: Array(payload.utf8), proof: nil)
    }

    private static func request(_ number: Int, _ transaction: TransactionFact?, signed: Moment = start)
        -> StoreNotification
    {
        StoreNotification(
            notificationUUID: "00000000-0000-4000-8000-00000000000\(number)", type: "CONSUMPTION_REQUEST", subtype: nil,
            environment: .production, bundleID: "com.example.dwell", transaction: transaction, renewal: nil,
            signedDate: signed, payload: Array("{}".utf8))
    }

    @Test func `the consent has the moment of its last change, and is the driver's own`() async throws {
        let fixture = try await AccountFixture()
        let purchases = StoredPurchases(accounts: fixture.accounts)
        func set(_ isGiven: Bool, _ seconds: Int) async throws -> ConsumptionConsent {
            try await purchases.setConsumptionConsent(isGiven, of: Self.ada, at: Self.at(seconds))
        }
        #expect(try await set(true, 1) == ConsumptionConsent(isGiven: true, changedAt: Self.at(1)))
        #expect(try await set(true, 2) == ConsumptionConsent(isGiven: true, changedAt: Self.at(1)))
        #expect(try await set(false, 3) == ConsumptionConsent(isGiven: false, changedAt: Self.at(3)))
        #expect(try await set(false, 4) == ConsumptionConsent(isGiven: false, changedAt: Self.at(3)))
        #expect(try await fixture.count("consumption_consent") == 1)
        await fixture.close()
    }

    @Test func `a request waits on disk with the current consent of the purchase's owner, once, until it is finished`()
        async throws
    {
        let fixture = try await AccountFixture()
        let purchases = StoredPurchases(accounts: fixture.accounts)
        let bought = try Self.transaction("1")
        _ = try await purchases.add(ShownPurchase(transaction: bought), of: Self.ada, at: Self.start)
        for _ in 0..<2 { _ = try await purchases.take(Self.request(1, bought), at: Self.at(1)) }
        // A request without a transaction needs no answer and is not stored.
        _ = try await purchases.take(Self.request(2, nil), at: Self.at(1))
        #expect(try await fixture.count("consumption_request") == 1)
        #expect(try await purchases.nextConsumptionRequest(dueAt: Self.at(0)) == nil)
        let request = try #require(try await purchases.nextConsumptionRequest(dueAt: Self.at(1)))
        #expect(!request.hasConsent && request.transactionID == "1" && request.requestedAt == Self.start)
        _ = try await purchases.setConsumptionConsent(true, of: Caller(driver: DriverID("eve")), at: Self.at(2))
        #expect(try await purchases.nextConsumptionRequest(dueAt: Self.at(2))?.hasConsent == false)
        _ = try await purchases.setConsumptionConsent(true, of: Self.ada, at: Self.at(2))
        #expect(try await purchases.nextConsumptionRequest(dueAt: Self.at(2))?.hasConsent == true)
        _ = try await purchases.setConsumptionConsent(false, of: Self.ada, at: Self.at(3))
        #expect(try await purchases.nextConsumptionRequest(dueAt: Self.at(3))?.hasConsent == false)
        try await purchases.postpone(request.id, until: Self.at(10))
        await fixture.close()

        let second = try await AccountFixture(in: fixture.folder)
        let after = StoredPurchases(accounts: second.accounts)
        #expect(try await after.nextConsumptionRequest(dueAt: Self.at(9)) == nil)
        #expect(try await after.nextConsumptionRequest(dueAt: Self.at(10))?.attemptCount == 1)
        try await after.finish(request.id, .answered, at: Self.at(11))
        #expect(try await after.nextConsumptionRequest(dueAt: Self.at(99)) == nil)
        // A second outcome, as another process would record it, changes nothing.
        try await after.finish(request.id, .tooLate, at: Self.at(12))
        let records = try PurchaseRecords(path: second.folder.file("db"))
        let found = try records.purchases(of: DriverID("ada"))
        #expect(
            found?.records.first?.notifications.compactMap(\.consumption)
                == [PurchaseRecord.Notification.Consumption(outcome: .answered, at: Self.at(11))])
        #expect(found?.consent == ConsumptionConsent(isGiven: false, changedAt: Self.at(3)))
        records.close()
        await second.close()
    }

    @Test func `finished requests go after 200 days; a deletion takes the consent, and no request is answered then`()
        async throws
    {
        let fixture = try await AccountFixture()
        let purchases = StoredPurchases(accounts: fixture.accounts)
        let bought = try Self.transaction("1")
        _ = try await purchases.setConsumptionConsent(true, of: Self.ada, at: Self.start)
        _ = try await purchases.add(ShownPurchase(transaction: bought), of: Self.ada, at: Self.start)
        _ = try await purchases.take(Self.request(1, bought), at: Self.start)
        let request = try #require(try await purchases.nextConsumptionRequest(dueAt: Self.start))
        let json = try JSONValue.parse(try await fixture.accounts.export(of: Self.ada, from: .at(Self.start)).json)
        guard case .array(let consents) = json["consumption_consents"],
            case .array(let requests) = json["consumption_requests"]
        else {
            Issue.record("\(json)")
            return
        }
        #expect(consents.map { $0["is_given"] } == [.bool(true)])
        #expect(requests.map { $0["transaction_id"] } == [.string("1")])
        _ = try await fixture.own.erase(Self.ada, from: .at(Self.at(5)))
        #expect(try await fixture.count("consumption_consent") == 0)
        #expect(try await purchases.nextConsumptionRequest(dueAt: Self.at(6))?.hasConsent == false)
        try await purchases.finish(request.id, .noConsent, at: Self.at(6))
        let late = Self.at(201 * 86_400)
        _ = try await purchases.take(Self.request(3, bought, signed: late), at: late)
        #expect(try await fixture.count("consumption_request") == 1)
        await fixture.close()
    }
}
