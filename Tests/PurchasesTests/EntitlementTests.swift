// Tests the entitlements that result from given facts, case by case.

import JourneyModel
import Testing

@testable import Purchases

private let day = 86_400

@Suite struct EntitlementTests {
    private func transaction(
        _ id: String = "1", original: String? = nil, _ product: String = "monthly",
        kind: TransactionFact.Kind = .autoRenewable, from begin: Int = 0, to end: Int? = 30, signed: Int? = nil,
        change: (inout TransactionFact) -> Void = { _ in }
    ) -> TransactionFact {
        var fact = TransactionFact(
            environment: .production, bundleID: "app", transactionID: id, originalTransactionID: original ?? "1",
            productID: product, kind: kind, subscriptionGroupID: kind == .autoRenewable ? "group" : nil,
            purchaseDate: at(begin), expiresDate: end.map(at), quantity: 1, ownership: .purchased, isUpgraded: false,
            revocation: nil, offer: nil, appAccountToken: nil, signedDate: at(signed ?? begin), payload: [1])
        change(&fact)
        return fact
    }

    private func renewal(
        signed: Int, _ product: String = "monthly", to next: String? = nil, autoRenews: Bool = true,
        isRetrying: Bool = false, grace: Int? = nil
    ) -> RenewalFact {
        RenewalFact(
            environment: .production, originalTransactionID: "1", productID: product,
            autoRenewProductID: next ?? product, autoRenews: autoRenews, isInBillingRetry: isRetrying,
            gracePeriodExpiresDate: grace.map(at), expirationIntent: nil, signedDate: at(signed), payload: [1])
    }

    private func at(_ days: Int) -> Moment { start.advanced(bySeconds: days * day) }

    private func entitlements(
        _ transactions: [TransactionFact], _ renewals: [RenewalFact] = [], at day: Int
    ) -> [Entitlement] {
        let facts = transactions.map(SignedFact.transaction) + renewals.map(SignedFact.renewal)
        let inOrder = PurchaseFacts(facts).entitlements(at: at(day))
        #expect(PurchaseFacts(facts.reversed()).entitlements(at: at(day)) == inOrder)
        return inOrder
    }

    private func statuses(
        _ transactions: [TransactionFact], _ renewals: [RenewalFact] = [], at day: Int
    ) -> [String: Entitlement.Status] {
        Dictionary(
            entitlements(transactions, renewals, at: day).map { ($0.productID, $0.status) },
            uniquingKeysWith: { one, _ in one })
    }

    @Test("No facts give no entitlements")
    func nothing() {
        #expect(PurchaseFacts().entitlements(at: start).isEmpty)
    }

    @Test("A subscription is active to the last millisecond of its period and expires without a notification")
    func expiry() {
        let facts = PurchaseFacts([.transaction(transaction())])
        let last = at(30).advanced(byMilliseconds: -1)
        #expect(facts.entitlements(at: last).map(\.status) == [.active])
        #expect(facts.entitlements(at: at(30)).map(\.status) == [.expired])
        #expect(facts.entitlements(at: at(30)).map(\.accessEnds) == [at(30)])
    }

    @Test("A purchase with a date ahead of this server's clock is active at once")
    func clockBehind() {
        #expect(statuses([transaction()], at: -1) == ["monthly": .active])
    }

    @Test("A renewal charged a day early extends the period, and does not start a downgrade")
    func earlyRenewal() {
        let same = transaction("2", from: 30, to: 60, signed: 29)
        #expect(entitlements([transaction(), same], at: 29).map(\.accessEnds) == [at(60)])
        let other = transaction("2", "weekly", from: 30, to: 37, signed: 29)
        #expect(statuses([transaction(), other], at: 29) == ["monthly": .active])
        #expect(statuses([transaction(), other], at: 30) == ["monthly": .expired, "weekly": .active])
    }

    @Test("With auto-renewal off, a subscription is active to the end of its period")
    func cancelled() {
        let renewals = [renewal(signed: 0), renewal(signed: 5, autoRenews: false)]
        let active = entitlements([transaction()], renewals, at: 6)
        #expect(active.map(\.autoRenews) == [false])
        #expect(active.map(\.status) == [.active])
        #expect(statuses([transaction()], renewals, at: 31) == ["monthly": .expired])
    }

    @Test("Billing retry gives no access except in the grace period, and ends after 60 days")
    func billing() {
        let retry = renewal(signed: 30, isRetrying: true)
        let grace = renewal(signed: 31, isRetrying: true, grace: 46)
        #expect(statuses([transaction()], [retry], at: 30) == ["monthly": .billingRetry])
        #expect(statuses([transaction()], [retry, grace], at: 31) == ["monthly": .grace])
        #expect(entitlements([transaction()], [retry, grace], at: 31).map(\.accessEnds) == [at(46)])
        #expect(statuses([transaction()], [retry, grace], at: 46) == ["monthly": .billingRetry])
        #expect(statuses([transaction()], [retry, grace], at: 89) == ["monthly": .billingRetry])
        #expect(statuses([transaction()], [retry, grace], at: 90) == ["monthly": .expired])
        let recovered = transaction("2", from: 50, to: 80)
        #expect(statuses([transaction(), recovered], [retry, grace], at: 51) == ["monthly": .active])
        // The earlier renewal information applies to the old period only.
        #expect(entitlements([transaction(), recovered], [retry, grace], at: 51).map(\.autoRenews) == [nil])
        #expect(statuses([transaction(), recovered], [retry, grace], at: 80) == ["monthly": .expired])
    }

    @Test("Billing retry ends before 60 days if Apple signs its end")
    func givenUp() {
        let renewals = [renewal(signed: 30, isRetrying: true), renewal(signed: 40, autoRenews: false)]
        #expect(statuses([transaction()], renewals, at: 41) == ["monthly": .expired])
    }

    @Test("An upgrade takes effect at once, even if the old transaction is not marked; its refund ends both")
    func upgrade() {
        let old = transaction()
        let new = transaction("2", "yearly", from: 10, to: 375)
        #expect(statuses([old, new], at: 11) == ["monthly": .expired, "yearly": .active])
        let marked = transaction(signed: 10) { $0.isUpgraded = true }
        #expect(statuses([old, marked, new], at: 11) == ["monthly": .expired, "yearly": .active])
        #expect(statuses([marked], at: 11) == ["monthly": .expired])
        let refunded = transaction("2", "yearly", from: 10, to: 375, signed: 12) {
            $0.revocation = .init(date: at(12), kind: .refund)
        }
        #expect(statuses([marked, new, refunded], at: 13) == ["monthly": .expired, "yearly": .refunded])
    }

    @Test("The refund of an upgrade does not bring back the replaced product, even if that is not marked as upgraded")
    func refundedUpgrade() {
        let old = transaction()
        let new = transaction("2", "yearly", from: 10, to: 375)
        let refunded = transaction("2", "yearly", from: 10, to: 375, signed: 12) {
            $0.revocation = .init(date: at(12), kind: .refund)
        }
        for day in [13, 29, 31] {
            #expect(statuses([old, new, refunded], at: day) == ["monthly": .expired, "yearly": .refunded], "\(day)")
            #expect(entitlements([old, new, refunded], at: day).map(\.accessEnds) == [at(10), at(12)], "\(day)")
        }
        let reversed = transaction("2", "yearly", from: 10, to: 375, signed: 14)
        #expect(statuses([old, refunded, reversed], at: 15) == ["monthly": .expired, "yearly": .active])
        // The customer subscribes to the monthly product again, until day 20. The first monthly period lasts longer,
        // but it does not count, because the upgrade replaced it.
        let again = transaction("3", from: 13, to: 20)
        #expect(statuses([old, refunded, again], at: 14) == ["monthly": .active, "yearly": .refunded])
        #expect(entitlements([old, refunded, again], at: 14).map(\.accessEnds) == [at(20), at(12)])
        #expect(statuses([old, refunded, again], at: 21) == ["monthly": .expired, "yearly": .refunded])
    }

    @Test("A transaction is not replaced by one of the same product, or by one that starts when it ends")
    func notReplaced() {
        func refund(_ id: String, _ product: String) -> TransactionFact {
            transaction(id, product, from: 30, to: 60, signed: 31) {
                $0.revocation = .init(date: at(31), kind: .refund)
            }
        }
        // Apple extended the first period after it had charged the second.
        let extended = transaction(to: 40, signed: 30)
        #expect(statuses([extended, refund("2", "monthly")], at: 32) == ["monthly": .active])
        let next = transaction("2", "weekly", from: 30, to: 37, signed: 29)
        #expect(statuses([transaction(), next], at: 29) == ["monthly": .active])
        #expect(
            statuses([transaction(), next, refund("2", "weekly")], at: 32)
                == ["monthly": .expired, "weekly": .refunded])
    }

    @Test("Access through an ownership that is not known yet; its end for an unknown reason is no refund")
    func otherOwnership() {
        let seat = transaction { $0.ownership = .other("ASSIGNED") }
        #expect(statuses([seat], at: 1) == ["monthly": .active])
        #expect(entitlements([seat], at: 1).map(\.ownership) == [.other("ASSIGNED")])
        let ended = transaction(signed: 9) {
            $0.ownership = .other("ASSIGNED")
            $0.revocation = .init(date: at(9), kind: .other)
        }
        #expect(statuses([seat, ended], at: 10) == ["monthly": .revoked])
        var totals = PurchaseTotals()
        totals.add(PurchaseFacts([.transaction(ended)]), at: at(9))
        #expect(totals[.production].refundsToday == 0 && totals[.production].count(.revoked) == 1)
    }

    @Test("A scheduled downgrade is shown and does not change the current period")
    func downgrade() {
        let entitlement = entitlements([transaction()], [renewal(signed: 5, to: "weekly")], at: 6).first
        #expect(entitlement?.status == .active)
        #expect(entitlement?.renewsToProductID == "weekly")
        let next = transaction("2", "weekly", from: 30, to: 37)
        #expect(
            statuses([transaction(), next], [renewal(signed: 5, to: "weekly")], at: 31)
                == ["monthly": .expired, "weekly": .active])
    }

    @Test("A refund ends access, its reversal restores it, in any order; a refund of an older period changes nothing")
    func refunds() {
        let bought = transaction()
        let refunded = transaction(signed: 3) { $0.revocation = .init(date: at(3), kind: .refund) }
        let reversed = transaction(signed: 5)
        #expect(statuses([bought, refunded], at: 4) == ["monthly": .refunded])
        #expect(entitlements([bought, refunded], at: 4).map(\.accessEnds) == [at(3)])
        #expect(statuses([refunded, reversed, bought], at: 6) == ["monthly": .active])
        #expect(statuses([reversed, bought, refunded], at: 6) == ["monthly": .active])
        let second = transaction("2", from: 30, to: 60)
        #expect(statuses([refunded, second], at: 31) == ["monthly": .active])
    }

    @Test("Of a Family Sharing and an own subscription the better one is returned; the end of sharing is no refund")
    func family() {
        let shared = transaction("7", original: "7") { $0.ownership = .familyShared }
        let ended = transaction("7", original: "7", signed: 9) {
            $0.ownership = .familyShared
            $0.revocation = .init(date: at(9), kind: .familySharing)
        }
        #expect(entitlements([shared], at: 1).map(\.ownership) == [.familyShared])
        #expect(statuses([shared, ended], at: 10) == ["monthly": .revoked])
        let own = transaction()
        #expect(entitlements([shared, ended, own], at: 10).map(\.ownership) == [.purchased])
        #expect(statuses([shared, ended, own], at: 10) == ["monthly": .active])
        let longer = transaction("7", original: "7", to: 40) { $0.ownership = .familyShared }
        #expect(entitlements([longer, own], at: 10).map(\.accessEnds) == [at(40)])
    }

    @Test("An offer is shown with its period")
    func offers() {
        let trial = transaction(to: 7) { $0.offer = .init(type: 1, identifier: nil) }
        let paid = transaction("2", from: 7, to: 37)
        #expect(entitlements([trial], at: 1).map(\.offer?.type) == [1])
        #expect(entitlements([trial, paid], at: 8).map(\.offer) == [nil])
    }

    @Test("A non-consumable does not expire, but can be refunded and restored")
    func lifetime() {
        let bought = transaction("5", original: "5", "forever", kind: .nonConsumable, to: nil)
        #expect(statuses([bought], at: 100_000) == ["forever": .active])
        #expect(entitlements([bought], at: 1).map(\.accessEnds) == [nil])
        let refunded = transaction("5", original: "5", "forever", kind: .nonConsumable, to: nil, signed: 4) {
            $0.revocation = .init(date: at(4), kind: .refund)
        }
        #expect(statuses([bought, refunded], at: 5) == ["forever": .refunded])
        // The product is purchased again after the refund.
        let again = transaction("6", original: "6", "forever", kind: .nonConsumable, from: 6, to: nil)
        #expect(statuses([bought, refunded, again], at: 7) == ["forever": .active])
    }

    @Test("Consumables are counted without refunded ones")
    func consumables() {
        func coins(_ id: String, _ quantity: Int64, refunded: Bool = false) -> TransactionFact {
            transaction(id, original: id, "coins", kind: .consumable, to: nil) {
                $0.quantity = quantity
                if refunded { $0.revocation = .init(date: at(0), kind: .refund) }
            }
        }
        let mixed = entitlements([coins("1", 3), coins("2", 5, refunded: true), coins("3", 4)], at: 1)
        #expect(mixed.map(\.quantity) == [7])
        #expect(mixed.map(\.status) == [.active])
        let none = entitlements([coins("1", 3, refunded: true)], at: 1)
        #expect(none.map(\.quantity) == [0])
        #expect(none.map(\.status) == [.refunded])
    }

    @Test("A non-renewing subscription does not expire: the app decides when it ends")
    func nonRenewing() {
        let season = transaction("8", original: "8", "season", kind: .nonRenewing, to: nil)
        let entitlement = entitlements([season], at: 500).first
        #expect(entitlement?.status == .active)
        #expect(entitlement?.accessEnds == nil)
        #expect(entitlement?.purchaseDate == at(0))
    }

    @Test("Sandbox and production, and two apps, are separate even with equal ids and products")
    func apart() {
        let sandbox = transaction { $0.environment = .sandbox }
        let other = transaction("2", original: "2") { $0.bundleID = "other" }
        let all = entitlements([transaction(to: 3), sandbox, other], at: 5)
        #expect(
            all.map { "\($0.environment.rawValue) \($0.bundleID) \($0.status)" } == [
                "Production app expired", "Production other active", "Sandbox app active",
            ])
    }

    @Test("Of two facts signed in the same millisecond, the same one always wins")
    func ties() {
        var (one, other) = (transaction(), transaction(to: 60))
        one.payload = [1]
        other.payload = [2]
        #expect(entitlements([one, other], at: 1).map(\.accessEnds) == [at(60)])
    }
}
