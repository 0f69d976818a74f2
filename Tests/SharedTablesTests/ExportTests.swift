// Tests that the export of one history is the same document on both databases.

import Engine
import Foundation
import JourneyModel
import Purchases
import TestSupport
import Testing

@testable import Identity
@testable import SharedTables

struct ExportTests: PurchaseSamples {
    private static let driver = DriverID("driver")

    /// Returns the export of one driver. The document depends on no clock and no random numbers.
    private static func document(_ kind: DatabaseKind) async throws -> String {
        let fixture = try await AccountFixture(kind)
        let caller = Caller(driver: driver, role: "driver")
        let events: [(EventName, Int, String?)] = [
            (.enteredChargerIntentZone, 0, nil), (.anchorDwellComplete, 10, nil),
            (.exclusiveActivatedByWeb, 20, "s"), (.departedCharger, 30, "s"),
        ]
        for (name, seconds, session) in events {
            let now = AccountFixture.start.advanced(bySeconds: seconds)
            let event = EventSubmission.sample(name, key: "key \(seconds)", session: session, at: now)
            _ = try await fixture.store.appended(
                .sample(event, of: driver, receivedAt: now, sender: .service))
        }
        let now = AccountFixture.start.advanced(bySeconds: 60)
        let codes = SessionCodes(store: fixture.accounts, digest: fixture.digests.sessionCode)
        _ = try await codes.issue(forSession: "s", at: now)
        _ = try await fixture.devices.put(
            Device(pushToken: "abc:def", platform: "ios", environment: "production", appVersion: "7.1"), of: caller,
            from: .at(now))
        _ = try await fixture.accounts.change(
            ProfileChange(name: .set("Ä \"name\""), email: .set("a@example.com")), of: caller, from: .at(now))
        let purchases = StoredPurchases(accounts: fixture.accounts)
        let bought = try Self.transaction()
        _ = try await purchases.add(ShownPurchase(transaction: bought), of: caller, at: now)
        for notification in [
            Self.notification(1, bought), Self.notification(2, bought, type: "FROM_THE_FUTURE"),
            Self.notification(3, nil, type: "RESCIND_CONSENT", customer: Self.customer),
            Self.notification(4, try Self.transaction("2"), type: "OF_ANOTHER"),
            Self.notification(5, nil, type: "RESCIND_CONSENT", customer: "8"),
        ] { _ = try await purchases.take(notification, at: now) }
        var piece = try await fixture.accounts.export(of: caller, from: .at(now))
        var json = piece.json
        while let rest = piece.rest {
            piece = try await rest()
            json += piece.json
        }
        await fixture.close()
        return String(decoding: json, as: UTF8.self)
    }

    @Test func `both databases export the same document`() async throws {
        let expected = try await Self.document(.sqlite)
        #expect(try JSONValue.parse(Array(expected.utf8)) != .null)
        guard case .array(let notifications) = try JSONValue.parse(Array(expected.utf8))["store_notifications"] else {
            Issue.record("no notifications")
            return
        }
        let types: [JSONValue?] = [.string("DID_RENEW"), .string("FROM_THE_FUTURE"), .string("RESCIND_CONSENT")]
        let payloads: [JSONValue?] = [.null, .object([]), .object([])]
        #expect(notifications.map { $0["type"] } == types)
        #expect(notifications.map { $0["payload"] } == payloads)
        for part in [#""session_id":"s""#, "abc:def", "key 30", #"Ä \"name\""#, "a@example.com"] {
            #expect(expected.contains(part), "\(part)")
        }
        let found = try await Self.document(.postgresql)
        let lines = { (document: String) in document.replacing(",", with: ",\n").split(separator: "\n") }
        for (line, other) in zip(lines(expected), lines(found)) where line != other {
            Issue.record("\(line) on SQLite, \(other) on PostgreSQL")
            break
        }
        #expect(found.utf8.count == expected.utf8.count)
    }
}
