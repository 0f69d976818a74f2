// Tests of `PurchaseCounts`: the totals for the operator page, which are added up over several pages of drivers.

import JourneyModel
import Testing

@testable import Purchases

@Suite struct PurchaseCountsTests {
    private static let day: Int64 = 86_400_000

    private static func facts(
        _ id: String, environment: String = "Production", begin: Int64 = -1, end: Int64 = 29, refunded: Int64? = nil,
        retries: Bool = false, grace: Int64? = nil
    ) throws -> PurchaseFacts {
        func at(_ day: Int64) -> Int64 { start.millisecondsSinceEpoch + day * Self.day }
        let refund = refunded.map { #","revocationDate":\#(start.millisecondsSinceEpoch + $0)"# } ?? ""
        let transaction = """
            {"transactionId":"\(id)","originalTransactionId":"\(id)","bundleId":"b","productId":"p","type":\
            "Auto-Renewable Subscription","subscriptionGroupIdentifier":"g","environment":"\(environment)",\
            "purchaseDate":\(at(begin)),"expiresDate":\(at(end)),"signedDate":\(at(begin))\(refund)}
            """
        let graceMember = grace.map { #","gracePeriodExpiresDate":\#(at($0))"# } ?? ""
        let renewal = """
            {"originalTransactionId":"\(id)","productId":"p","environment":"\(environment)","autoRenewStatus":1,\
            "isInBillingRetryPeriod":\(retries),"signedDate":\(at(begin))\(graceMember)}
            """
        var facts = PurchaseFacts()
        facts.add(try TransactionFact(payload: Array(transaction.utf8), proof: nil))
        facts.add(try RenewalFact(payload: Array(renewal.utf8), proof: nil))
        return facts
    }

    @Test func `each status is counted over all pages, the sandbox separately`() async throws {
        let hour: Int64 = 3_600_000
        let pages = [
            [try Self.facts("1"), try Self.facts("2", environment: "Sandbox"), try Self.facts("3")],
            [
                try Self.facts("4", begin: -31, end: -1, retries: true, grace: 5),
                try Self.facts("5", begin: -31, end: -1, retries: true), try Self.facts("6", begin: -31, end: -1),
            ],
            [try Self.facts("7", refunded: 2 * hour), try Self.facts("8", refunded: -2 * hour)],
        ]
        let counts = PurchaseCounts(
            read: { after in PurchasePage(facts: pages[Int(after)], next: after < 2 ? after + 1 : nil) },
            clock: { start.advanced(bySeconds: 5 * 3600) })
        var pauses = 0
        let totals = try await counts.count { _ in pauses += 1 }
        #expect(
            totals[.production].entitlements == [.active: 2, .grace: 1, .billingRetry: 1, .expired: 1, .refunded: 2])
        #expect(totals[.sandbox].entitlements == [.active: 1])
        #expect(totals[.production].refundsToday == 1 && totals[.sandbox].refundsToday == 0)
        #expect(pauses == 2)
        #expect(counts.totals == nil)
    }
}
