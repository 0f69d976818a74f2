// Compares `NotificationTypes` with Apple's documentation.

import Foundation
import Testing

@testable import Purchases

@Suite struct NotificationTypesTests {
    @Test("Every documented type and subtype has exactly one row")
    func complete() {
        let pairs = NotificationTypes.rows.map { "\($0.type)/\($0.subtype ?? "-")" }
        #expect(Set(pairs).count == pairs.count)
        #expect(
            Set(NotificationTypes.rows.map(\.type)) == [
                "CONSUMPTION_REQUEST", "DID_CHANGE_RENEWAL_PREF", "DID_CHANGE_RENEWAL_STATUS", "DID_FAIL_TO_RENEW",
                "DID_RENEW", "EXPIRED", "EXTERNAL_PURCHASE_TOKEN", "GRACE_PERIOD_EXPIRED", "METADATA_UPDATE",
                "MIGRATION", "OFFER_REDEEMED", "ONE_TIME_CHARGE", "PRICE_CHANGE", "PRICE_INCREASE", "REFUND",
                "REFUND_DECLINED", "REFUND_REVERSED", "RENEWAL_EXTENDED", "RENEWAL_EXTENSION", "RESCIND_CONSENT",
                "REVOKE", "SUBSCRIBED", "TEST", "UNCLAIM_SEATS",
            ])
        #expect(
            Set(NotificationTypes.rows.compactMap(\.subtype)) == [
                "ACCEPTED", "ACTIVE_TOKEN_REMINDER", "AUTO_RENEW_DISABLED", "AUTO_RENEW_ENABLED", "BILLING_RECOVERY",
                "BILLING_RETRY", "CREATED", "DOWNGRADE", "FAILURE", "GRACE_PERIOD", "INITIAL_BUY", "PENDING",
                "PRICE_INCREASE", "PRODUCT_NOT_FOR_SALE", "RESUBSCRIBE", "SEATS", "SUMMARY", "UNREPORTED", "UPGRADE",
                "VOLUNTARY",
            ])
        #expect(NotificationTypes.rows.allSatisfy { $0.meaning.hasSuffix(".") })
    }

    @Test("A documented pair has a row, an undocumented one has none")
    func lookup() {
        #expect(NotificationTypes.row(type: "DID_RENEW", subtype: "BILLING_RECOVERY")?.object == .data)
        #expect(NotificationTypes.row(type: "RENEWAL_EXTENSION", subtype: "SUMMARY")?.object == .summary)
        #expect(NotificationTypes.row(type: "RESCIND_CONSENT", subtype: nil)?.object == .appData)
        #expect(NotificationTypes.row(type: "DID_RENEW", subtype: "UPGRADE") == nil)
        #expect(NotificationTypes.row(type: "FROM_THE_FUTURE", subtype: nil) == nil)
    }
}

@Suite struct PurchasesPageTests {
    /// docs/purchases.md lists the same types, subtypes and meanings as the code, in the same order.
    @Test func `the page has the table of types`() throws {
        let page = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "docs/purchases.md")
        let text = try String(contentsOf: page, encoding: .utf8)
        let table = NotificationTypes.rows.map { row in
            "| `\(row.type)` | \(row.subtype.map { "`\($0)`" } ?? "") | \(row.meaning) |"
        }.joined(separator: "\n")
        #expect(text.contains(table + "\n"))
    }
}
