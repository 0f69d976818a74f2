// Tests of Apple's notifications on both databases. A notification takes effect once. If the stored facts do not
// contain all of its information, its payload is kept for some time.

import Engine
import Identity
import JourneyModel
import Purchases
import TestSupport
import Testing

@testable import SharedTables

struct StoreNotificationTests: PurchaseSamples {
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
    func `what the stored transaction does not say is kept with its payload, and ids for 200 days`(
        _ database: TestedDatabase
    ) async throws {
        let opened = try await database.open()
        let purchases = try Self.purchases(opened)
        let fact = try Self.transaction()
        let kept = [
            Self.notification(1, nil, type: "FROM_THE_FUTURE"), Self.notification(2, fact, type: "FROM_THE_FUTURE"),
            Self.notification(3, nil, type: "RESCIND_CONSENT", customer: "8"),
            Self.notification(4, nil, type: "EXTERNAL_PURCHASE_TOKEN", subtype: "CREATED"),
            Self.notification(5, nil, type: "RENEWAL_EXTENSION", subtype: "SUMMARY"),
            Self.notification(6, nil, type: "UNCLAIM_SEATS"),
        ]
        for notification in kept { _ = try await purchases.take(notification, at: Self.start) }
        _ = try await purchases.take(Self.notification(7, nil, type: "TEST"), at: Self.at(1))
        _ = try await purchases.take(Self.notification(8, fact), at: Self.at(1))
        let payloads = try await opened.store.read { db in
            try SQLRow.fetchAll(db, sql: "SELECT payload FROM store_notification ORDER BY uuid")
        }
        let json = SQLRow([.blob(Array("{}".utf8))])
        #expect(payloads == Array(repeating: json, count: kept.count) + [SQLRow([.null]), SQLRow([.null])])
        #expect(try await opened.store.count("store_notification WHERE app_transaction_id = '8'") == 1)
        // Each new notification removes up to four expired notifications, with or without a payload.
        _ = try await purchases.take(Self.notification(9, nil), at: Self.at(200))
        #expect(try await opened.store.count("store_notification") == 9)
        for number in 10...12 { _ = try await purchases.take(Self.notification(number, nil), at: Self.at(202)) }
        #expect(try await opened.store.count("store_notification") == 4)
        let old = "store_notification WHERE received_at_ms < \(Self.at(200).millisecondsSinceEpoch)"
        #expect(try await opened.store.count(old) == 0)
        await opened.close()
    }

    @Test(arguments: TestedDatabase.allCases)
    func `a notification that names no environment is stored`(_ database: TestedDatabase) async throws {
        let opened = try await database.open()
        let purchases = try Self.purchases(opened)
        var notification = Self.notification(1, nil, type: "FROM_THE_FUTURE")
        notification.environment = nil
        notification.bundleID = nil
        #expect(try await purchases.take(notification, at: Self.start) == .taken(owner: nil))
        #expect(try await purchases.take(notification, at: Self.start) == .repeated)
        #expect(try await opened.store.count("store_notification WHERE payload IS NOT NULL") == 1)
        await opened.close()
    }

    @Test(arguments: TestedDatabase.allCases)
    func `how far the history was read is kept for each app and environment`(_ database: TestedDatabase) async throws {
        let opened = try await database.open()
        var purchases = try Self.purchases(opened)
        let sources = [AppStoreEnvironment.production, .sandbox].flatMap { environment in
            ["a", "b"].map { NotificationSource(environment: environment, bundleID: $0) }
        }
        for source in sources { #expect(try await purchases.historyReadTo(of: source) == nil) }
        for (day, source) in sources.enumerated() {
            try await purchases.record(historyReadTo: Self.at(100), of: source)
            try await purchases.record(historyReadTo: Self.at(day), of: source)
        }
        try await opened.closeAndOpen()
        purchases = try Self.purchases(opened)
        for (day, source) in sources.enumerated() {
            #expect(try await purchases.historyReadTo(of: source) == Self.at(day))
        }
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
        let before = Self.at(1).advanced(bySeconds: -1)
        #expect(try await purchases.nextConsumptionRequest(dueAt: before) == nil)
        let first = try #require(try await purchases.nextConsumptionRequest(dueAt: Self.at(1)))
        #expect(!first.hasConsent && first.transactionID == "1" && first.requestedAt == Self.at(1))
        for (isGiven, day, changed) in [(true, 2, 2), (true, 3, 2), (false, 4, 4), (true, 5, 5)] {
            let consent = try await purchases.setConsumptionConsent(isGiven, of: ada, at: Self.at(day))
            #expect(consent == ConsumptionConsent(isGiven: isGiven, changedAt: Self.at(changed)))
        }
        #expect(try await purchases.nextConsumptionRequest(dueAt: Self.at(5))?.hasConsent == true)
        try await purchases.postpone(first.id, until: Self.at(6))
        let tooEarly = Self.at(6).advanced(bySeconds: -ConsumptionAnswers.retrySecondsMax)
        #expect(try await purchases.nextConsumptionRequest(dueAt: tooEarly) == nil)
        #expect(try await purchases.nextConsumptionRequest(dueAt: Self.at(6))?.attemptCount == 1)
        try await purchases.finish(first.id, .answered, at: Self.at(6))
        #expect(try await purchases.nextConsumptionRequest(dueAt: Self.at(7)) == nil)
        let record = try #require(try await purchases.purchases(of: DriverID("ada")))
        #expect(record.consent?.isGiven == true)
        #expect(record.records.first?.notifications.first?.consumption?.outcome == .answered)
        await opened.close()
    }

    @Test(arguments: TestedDatabase.allCases)
    func `after the clock was set back, a consumption request does not wait for the old time`(
        _ database: TestedDatabase
    ) async throws {
        let opened = try await database.open()
        let purchases = try Self.purchases(opened)
        let fact = try Self.transaction()
        // The clock is set back by a day. One request then waits for its first attempt, and another waits for its
        // second attempt.
        for number in 1...2 {
            let request = Self.notification(number, fact, type: "CONSUMPTION_REQUEST")
            _ = try await purchases.take(request, at: Self.at(1))
        }
        let first = try #require(try await purchases.nextConsumptionRequest(dueAt: Self.at(1)))
        try await purchases.postpone(first.id, until: Self.at(1).advanced(bySeconds: 8))
        let second = try #require(try await purchases.nextConsumptionRequest(dueAt: Self.start))
        #expect(second.id != first.id)
        try await purchases.finish(second.id, .answered, at: Self.start)
        #expect(try await purchases.nextConsumptionRequest(dueAt: Self.start)?.id == first.id)
        await opened.close()
    }

    @Test(arguments: TestedDatabase.allCases)
    func `a consumption request may outlive its notification, which can then be taken again without an effect`(
        _ database: TestedDatabase
    ) async throws {
        let opened = try await database.open()
        let purchases = try Self.purchases(opened)
        let request = Self.notification(1, try Self.transaction(), type: "CONSUMPTION_REQUEST")
        #expect(try await purchases.take(request, at: Self.at(1)) == .taken(owner: nil))
        let first = try #require(try await purchases.nextConsumptionRequest(dueAt: Self.at(1)))
        try await purchases.finish(first.id, .noConsent, at: Self.at(1))
        // Removes the notification, but not the request.
        _ = try await purchases.take(Self.notification(2, nil), at: Self.at(300))
        #expect(try await opened.store.count("store_notification") == 1)
        #expect(try await purchases.take(request, at: Self.at(300)) == .taken(owner: nil))
        #expect(try await opened.store.count("consumption_request WHERE outcome IS NULL") == 0)
        #expect(try await purchases.nextConsumptionRequest(dueAt: Self.at(300)) == nil)
        await opened.close()
    }
}
