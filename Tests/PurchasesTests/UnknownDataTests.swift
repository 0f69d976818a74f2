// Tests of `AppStoreVerifier` with data that this release does not know, because Apple has added it or may add it
// later. The verifier accepts unknown data only if Apple certainly signed it for an app of this server.

import Foundation
import JourneyModel
import Testing

@testable import Purchases

@Suite struct UnknownDataTests {
    private let authority: TestAuthority

    init() throws {
        authority = try TestAuthority()
    }

    @Test(
        "Ownerships and reasons of a revocation that Apple may add are accepted",
        arguments: [
            ("PURCHASED", nil, .purchased, .refund), ("FAMILY_SHARED", nil, .familyShared, .familySharing),
            ("FAMILY_SHARED", "FAMILY_REVOKE", .familyShared, .familySharing),
            ("FAMILY_SHARED", "REFUND_FULL", .familyShared, .refund),
            ("PURCHASED", "REFUND_PRORATED", .purchased, .refund),
            ("ASSIGNED", nil, .other("ASSIGNED"), .refund),
            ("ASSIGNED", "ASSIGNMENT_REVOKE", .other("ASSIGNED"), .other),
            ("by invitation", "taken back", .other("by invitation"), .other),
        ] as [(String, String?, TransactionFact.Ownership, TransactionFact.Revocation.Kind)])
    func ownership(
        _ text: String, _ type: String?, _ ownership: TransactionFact.Ownership,
        _ kind: TransactionFact.Revocation.Kind
    ) async throws {
        let token = try authority.token(
            transactionClaims([
                "inAppOwnershipType": text, "revocationType": type, "revocationDate": start.millisecondsSinceEpoch,
            ]))
        let fact = try await authority.verifier().transaction(token, now: start)
        #expect(fact.ownership == ownership)
        #expect(fact.revocation == TransactionFact.Revocation(date: start, kind: kind))
    }

    /// Returns the claims of a notification that has its details in `unclaimInfo` and not in `data`. The members of
    /// `others` are added to the claims.
    private func unclaiming(
        _ info: [String: any Sendable], others: [String: any Sendable] = [:]
    ) -> [String: any Sendable] {
        var info = info
        info["unclaimSeatIds"] = ["b2158121-7af9-49d4-9561-1f588205523e"]
        let claims = notificationClaims([
            "notificationType": "UNCLAIM_SEATS", "subtype": nil, "data": nil, "unclaimInfo": info,
        ])
        return claims.merging(others) { $1 }
    }

    @Test("A notification whose data is in another object is accepted, unless it names another app or environment")
    func otherObjects() async throws {
        let ours: [String: any Sendable] = [
            "bundleId": TestAuthority.appleBundleID, "appAppleId": TestAuthority.appleID, "environment": "Production",
        ]
        let notification = try await authority.verifier().notification(
            authority.token(unclaiming(ours)), now: start)
        #expect(notification.type == "UNCLAIM_SEATS" && notification.transaction == nil)
        #expect(notification.environment == .production && notification.bundleID == TestAuthority.appleBundleID)
        #expect(try JSONValue.parse(notification.payload)["unclaimInfo"] != nil)
        let unnamed = try await authority.verifier().notification(authority.token(unclaiming([:])), now: start)
        #expect(unnamed.environment == nil && unnamed.bundleID == nil)
        let sandbox = ours.merging(["environment": "Sandbox", "appAppleId": 0]) { $1 }
        #expect(try await authority.notificationRefusal(unclaiming(sandbox)) == nil)
        let foreign: [([String: any Sendable], PurchaseRefusal)] = [
            (["bundleId": "com.other"], .wrongBundle), (["bundleId": 1], .wrongClaims), (["appAppleId": 1], .wrongApp),
            (["environment": "Xcode"], .wrongEnvironment), (["environment": "Staging"], .wrongEnvironment),
        ]
        for (members, refusal) in foreign {
            #expect(try await authority.notificationRefusal(unclaiming(members)) == refusal, "\(members)")
            let more: [String: any Sendable] = ["more": members]
            #expect(try await authority.notificationRefusal(unclaiming(ours, others: more)) == refusal, "\(members)")
            #expect(try await authority.notificationRefusal(unclaiming(ours, others: members)) == refusal, "\(members)")
        }
        let production = AppStoreVerifier(
            apps: [AppStoreApp(bundleID: TestAuthority.appleBundleID, appleID: TestAuthority.appleID)],
            environments: [.production], chain: CertificateChain(roots: [authority.root]))
        #expect(try await authority.notificationRefusal(unclaiming(sandbox), production) == .wrongEnvironment)
        let stranger = try TestAuthority()
        await #expect(throws: PurchaseRefusal.untrustedRoot) {
            try await authority.verifier().notification(stranger.token(unclaiming(ours)), now: start)
        }
    }

    @Test("A notification about a customer of the app has the customer's id; an unreadable app transaction has none")
    func customer() async throws {
        let signed = try authority.token(["appTransactionId": "70000000000000001"])
        for (text, id) in [(signed, "70000000000000001"), ("signed_app_transaction_info_value", nil)] {
            let app: [String: any Sendable] = [
                "appAppleId": TestAuthority.appleID, "bundleId": TestAuthority.appleBundleID,
                "environment": "Production", "signedAppTransactionInfo": text,
            ]
            let claims = notificationClaims([
                "notificationType": "RESCIND_CONSENT", "subtype": nil, "data": nil, "appData": app,
            ])
            let notification = try await authority.verifier().notification(authority.token(claims), now: start)
            #expect(notification.appTransactionID == id)
        }
    }
}
