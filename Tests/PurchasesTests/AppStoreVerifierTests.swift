// Tests of `AppStoreVerifier`. It accepts valid signed data, and rejects data with any wrong property.

import Crypto
import Foundation
import Identity
import JourneyModel
import Testing

@testable import Purchases

@Suite struct AppStoreVerifierTests {
    private let authority: TestAuthority

    init() throws {
        authority = try TestAuthority()
    }

    private func refusal(_ token: String, _ verifier: AppStoreVerifier? = nil) async -> PurchaseRefusal? {
        do throws(PurchaseRefusal) {
            _ = try await (verifier ?? authority.verifier()).transaction(token, now: start)
            return nil
        } catch { return error }
    }

    private func renewalRefusal(_ changes: [String: (any Sendable)?]) async throws -> PurchaseRefusal? {
        let verifier = authority.verifier()
        let transaction = try await verifier.transaction(authority.token(transactionClaims()), now: start)
        let token = try authority.token(renewalClaims(changes))
        do throws(PurchaseRefusal) {
            _ = try await verifier.renewal(token, beside: transaction, now: start)
            return nil
        } catch { return error }
    }

    // MARK: Accepted

    @Test("A signed transaction is decoded")
    func transaction() async throws {
        let claims = transactionClaims([
            "offerType": 2, "offerIdentifier": "spring sale", "revocationDate": start.millisecondsSinceEpoch,
            "revocationReason": 0, "quantity": 3,
        ])
        let fact = try await authority.verifier().transaction(authority.token(claims), now: start)
        #expect(fact.environment == .production)
        #expect(fact.bundleID == "com.example.dwell")
        #expect(fact.transactionID == "2000000000000001")
        #expect(fact.originalTransactionID == "2000000000000001")
        #expect(fact.productID == "com.example.dwell.monthly")
        #expect(fact.kind == .autoRenewable)
        #expect(fact.subscriptionGroupID == "20000001")
        #expect(fact.purchaseDate == start)
        #expect(fact.expiresDate == start.advanced(bySeconds: 30 * 86_400))
        #expect(fact.quantity == 3)
        #expect(fact.ownership == .purchased)
        #expect(!fact.isUpgraded)
        #expect(fact.revocation == TransactionFact.Revocation(date: start, kind: .refund))
        #expect(fact.offer == TransactionFact.Offer(type: 2, identifier: "spring sale"))
        #expect(fact.appAccountToken == "a1b2c3d4-0000-4000-8000-00000000000f")
        #expect(fact.signedDate == start)
        #expect(try JSONValue.parse(fact.payload)["storefront"] == .string("USA"))
    }

    @Test("Signed renewal information is decoded")
    func renewal() async throws {
        let verifier = authority.verifier()
        let transaction = try await verifier.transaction(authority.token(transactionClaims()), now: start)
        let claims = renewalClaims([
            "autoRenewProductId": "com.example.dwell.yearly", "autoRenewStatus": 1, "isInBillingRetryPeriod": true,
            "gracePeriodExpiresDate": start.advanced(bySeconds: 60).millisecondsSinceEpoch, "expirationIntent": 2,
        ])
        let fact = try await verifier.renewal(authority.token(claims), beside: transaction, now: start)
        #expect(fact.environment == .production)
        #expect(fact.originalTransactionID == transaction.originalTransactionID)
        #expect(fact.productID == "com.example.dwell.monthly")
        #expect(fact.autoRenewProductID == "com.example.dwell.yearly")
        #expect(fact.autoRenews)
        #expect(fact.isInBillingRetry)
        #expect(fact.gracePeriodExpiresDate == start.advanced(bySeconds: 60))
        #expect(fact.expirationIntent == 2)
        #expect(fact.signedDate == start)
    }

    @Test("A notification is decoded with its transaction and renewal, and is below the size limit")
    func notification() async throws {
        let claims = notificationClaims(data: [
            "signedTransactionInfo": try authority.token(transactionClaims()),
            "signedRenewalInfo": try authority.token(renewalClaims()),
        ])
        let token = try authority.token(claims)
        #expect(token.utf8.count < SignedPayload.bytesMax / 2)
        let notification = try await authority.verifier().notification(token, now: start)
        #expect(notification.notificationUUID == "002e14d5-51f5-4503-b5a8-c3a1af68eb20")
        #expect(notification.type == "SUBSCRIBED")
        #expect(notification.subtype == "INITIAL_BUY")
        #expect(notification.environment == .production)
        #expect(notification.bundleID == "com.example.dwell")
        #expect(notification.transaction?.transactionID == "2000000000000001")
        #expect(notification.renewal?.autoRenews == true)
    }

    @Test(
        "Notifications without transaction: test, summary, consent, external purchase, and types that nobody knows yet")
    func otherNotifications() async throws {
        let app: [String: any Sendable] = [
            "appAppleId": TestAuthority.appleID, "bundleId": TestAuthority.appleBundleID, "environment": "Production",
        ]
        let token: [String: any Sendable] = [
            "externalPurchaseId": "b2158121-7af9-49d4-9561-1f588205523e", "appAppleId": TestAuthority.appleID,
            "bundleId": TestAuthority.appleBundleID, "tokenCreationDate": start.millisecondsSinceEpoch,
        ]
        let sandboxToken = token.merging(["externalPurchaseId": "SANDBOX_b2158121"]) { $1 }
        let payloads: [[String: any Sendable]] = [
            notificationClaims(["notificationType": "TEST", "subtype": nil]),
            notificationClaims([
                "notificationType": "RENEWAL_EXTENSION", "subtype": "SUMMARY", "data": nil, "summary": app,
            ]),
            notificationClaims(["notificationType": "RESCIND_CONSENT", "subtype": nil, "data": nil, "appData": app]),
            notificationClaims([
                "notificationType": "EXTERNAL_PURCHASE_TOKEN", "subtype": "CREATED", "data": nil,
                "externalPurchaseToken": token,
            ]),
            notificationClaims(["notificationType": "FROM_THE_FUTURE", "subtype": "WITH_A_SUBTYPE"]),
        ]
        for claims in payloads {
            #expect(try await authority.notificationRefusal(claims) == nil)
        }
        let sandbox = notificationClaims(["data": nil, "externalPurchaseToken": sandboxToken])
        let notification = try await authority.verifier().notification(authority.token(sandbox), now: start)
        #expect(notification.environment == .sandbox)
    }

    @Test("Sandbox purchases are accepted and marked as such: App Review uses the production server")
    func sandbox() async throws {
        let token = try authority.token(transactionClaims(["environment": "Sandbox"]))
        #expect(try await authority.verifier().transaction(token, now: start).environment == .sandbox)
        // Sandbox notifications have no appAppleId.
        let claims = notificationClaims(data: ["environment": "Sandbox", "appAppleId": nil])
        #expect(try await authority.notificationRefusal(claims) == nil)
    }

    @Test("Purchases of each of several apps are accepted")
    func severalApps() async throws {
        let verifier = authority.verifier(apps: [
            AppStoreApp(bundleID: "com.example.one", appleID: nil),
            AppStoreApp(bundleID: "com.example.two", appleID: 2),
        ])
        for (bundle, expected) in [
            ("com.example.one", nil), ("com.example.two", nil), ("com.example", PurchaseRefusal.wrongBundle),
        ] {
            let token = try authority.token(transactionClaims(["bundleId": bundle]))
            #expect(await refusal(token, verifier) == expected)
        }
    }

    // MARK: Malformed data

    @Test("A JWS truncated at any byte, or with any one byte changed, is rejected")
    func bytes() async throws {
        let token = try authority.token(transactionClaims())
        let verifier = authority.verifier()
        let bytes = Array(token.utf8)
        for length in bytes.indices {
            #expect(await refusal(String(decoding: bytes.prefix(length), as: UTF8.self), verifier) != nil, "\(length)")
        }
        for index in bytes.indices {
            var changed = bytes
            changed[index] = changed[index] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            #expect(await refusal(String(decoding: changed, as: UTF8.self), verifier) != nil, "\(index)")
        }
    }

    @Test("A notification with transaction and renewal, truncated at any byte, is rejected; so are the two, inside it")
    func truncatedNotifications() async throws {
        let (transaction, renewal) = (try authority.token(transactionClaims()), try authority.token(renewalClaims()))
        let whole = try authority.token(
            notificationClaims(data: ["signedTransactionInfo": transaction, "signedRenewalInfo": renewal]))
        let verifier = authority.verifier()
        func isRejected(_ text: String) async -> Bool {
            do throws(PurchaseRefusal) {
                _ = try await verifier.notification(text, now: start)
                return false
            } catch { return true }
        }
        #expect(await !isRejected(whole))
        let bytes = Array(whole.utf8)
        #expect(bytes.count > 8_000)
        for length in bytes.indices {
            #expect(await isRejected(String(decoding: bytes.prefix(length), as: UTF8.self)), "\(length)")
        }
        let fact = try await verifier.transaction(transaction, now: start)
        for length in renewal.utf8.indices {
            let part = String(renewal[..<length])
            await #expect(throws: PurchaseRefusal.self) {
                try await verifier.renewal(part, beside: fact, now: start)
            }
        }
        // The notification's own signature is valid, but the transaction or renewal inside it is truncated. Each
        // notification must be signed anew, so the test uses only every 37th length.
        for (name, text) in [("signedTransactionInfo", transaction), ("signedRenewalInfo", renewal)] {
            var data: [String: (any Sendable)?] = ["signedTransactionInfo": transaction, "signedRenewalInfo": renewal]
            for length in stride(from: 0, to: text.utf8.count, by: 37) {
                data[name] = String(text.prefix(length))
                let token = try authority.token(notificationClaims(data: data))
                #expect(await isRejected(token), "\(name) \(length)")
            }
        }
    }

    @Test("1 MB, one byte over the limit, a wrong number of parts, and invalid JSON are rejected as malformed")
    func malformed() async throws {
        let token = try authority.token(transactionClaims())
        #expect(await refusal(String(repeating: "a", count: 1 << 20)) == .malformed)
        let padded = try authority.token(transactionClaims(["padding": String(repeating: "a", count: 1 << 20)]))
        #expect(await refusal(padded) == .malformed)
        for text in [
            "", ".", "..", "...", "a.b.c", token + ".", token + ".a", "." + token, " " + token, token + "=",
            token + "\n",
        ] {
            #expect(await refusal(text) == .malformed, "\(text.prefix(8))")
        }
        #expect(await refusal("e30.e30.e30") == .malformed)
        #expect(await refusal("e30.W10.e30") == .malformed)
        // The payload is {"signedDate":1,"signedDate":1}, which has a duplicate member.
        let twice = Base64URL.text(of: #"{"signedDate":1,"signedDate":1}"#.utf8)
        #expect(await refusal("e30.\(twice).e30") == .malformed)
        let parts = token.split(separator: ".")
        #expect(await refusal("\(parts[0]).\(parts[1])") == .malformed)
    }

    @Test("Any algorithm except ES256 is rejected, whatever the signature; so is crit")
    func algorithms() async throws {
        for algorithm in ["none", "None", "HS256", "ES384", "ES512", "RS256", "PS256", "EdDSA", "es256", "ES256 ", ""] {
            let token = try authority.token(transactionClaims(), algorithm: algorithm)
            #expect(await refusal(token) == .wrongAlgorithm, "\(algorithm)")
        }
        let chain = authority.chain.map { Data($0).base64EncodedString() }
        #expect(await refusal(try authority.token(transactionClaims(), header: ["x5c": chain])) == .wrongAlgorithm)
        let critical: [String: any Sendable] = ["alg": "ES256", "x5c": chain, "crit": ["b64"], "b64": false]
        #expect(await refusal(try authority.token(transactionClaims(), header: critical)) == .wrongAlgorithm)
        // This token has the header and signature of one JWS, but the payload of another. The signature therefore does
        // not match.
        let (one, other) = (
            try authority.token(transactionClaims()), try authority.token(transactionClaims(["price": 1]))
        )
        let (parts, others) = (one.split(separator: "."), other.split(separator: "."))
        #expect(await refusal("\(parts[0]).\(others[1]).\(parts[2])") == .wrongSignature)
    }

    @Test("x5c must be three certificates in base64")
    func chains() async throws {
        let chain = authority.chain.map { Data($0).base64EncodedString() }
        let wrong: [any Sendable] = [
            [String](), Array(chain.prefix(2)), chain + [chain[2]], chain[0],
            [chain[0], chain[1], 7] as [any Sendable],
            [chain[0], chain[1], ""], [chain[0], chain[1], chain[2] + "\n"],
            [chain[0], chain[1], String(chain[2].dropLast())],
            chain.map { Base64URL.text(of: Data(base64Encoded: $0) ?? Data()) + "%" },
        ]
        for value in wrong {
            let token = try authority.token(transactionClaims(), header: ["alg": "ES256", "x5c": value])
            #expect(await refusal(token) == .wrongChain, "\(value)")
        }
        #expect(await refusal(try authority.token(transactionClaims(), header: ["alg": "ES256"])) == .wrongChain)
        let reversed = Array(authority.chain.reversed())
        #expect(await refusal(try authority.token(transactionClaims(), chain: reversed)) == .untrustedRoot)
    }

    @Test("A signature that is by another key, empty, all zeros, too long or in DER is rejected")
    func signatures() async throws {
        let stranger = P256.Signing.PrivateKey()
        #expect(await refusal(try authority.token(transactionClaims(), key: stranger)) == .wrongSignature)
        let token = try authority.token(transactionClaims())
        let parts = token.split(separator: ".")
        let input = "\(parts[0]).\(parts[1])"
        let der = try authority.leafKey.signature(for: Data(input.utf8)).derRepresentation
        for signature in [Array(repeating: 0, count: 64), Array(repeating: 255, count: 64), [0], Array(der)] {
            #expect(await refusal(input + "." + Base64URL.text(of: signature)) == .wrongSignature)
        }
        #expect(await refusal(input + ".") == .malformed)
    }

    @Test("A leaf certificate that had expired at signedDate is rejected; one that expired later is accepted")
    func leafExpiry() async throws {
        let signed = start.advanced(bySeconds: 101 * 86_400)
        let late = try authority.token(transactionClaims(["signedDate": signed.millisecondsSinceEpoch]))
        let verifier = authority.verifier()
        await #expect(throws: PurchaseRefusal.expiredCertificate) { try await verifier.transaction(late, now: signed) }
        let years = start.advanced(bySeconds: 1000 * 86_400)
        #expect(try await verifier.transaction(authority.token(transactionClaims()), now: years).signedDate == start)
    }

    @Test("A signedDate more than ten minutes in the future is rejected as temporary")
    func future() async throws {
        for (seconds, expected) in [(600, nil), (601, PurchaseRefusal.signedInFuture)] {
            let signed = start.advanced(bySeconds: seconds).millisecondsSinceEpoch
            #expect(await refusal(try authority.token(transactionClaims(["signedDate": signed]))) == expected)
        }
    }

    // MARK: Claims

    @Test("A wrong bundle id or environment is rejected")
    func bundleAndEnvironment() async throws {
        for bundle in ["com.example.other", "com.example.dwell2", "COM.EXAMPLE.DWELL", "com.example"] {
            #expect(await refusal(try authority.token(transactionClaims(["bundleId": bundle]))) == .wrongBundle)
        }
        for environment in ["Xcode", "LocalTesting", "production", "Staging"] {
            let token = try authority.token(transactionClaims(["environment": environment]))
            #expect(await refusal(token) == .wrongEnvironment, "\(environment)")
        }
        let noApps = authority.verifier(apps: [])
        #expect(await refusal(try authority.token(transactionClaims()), noApps) == .wrongBundle)
        #expect(try await renewalRefusal(["environment": "Sandbox"]) == .wrongEnvironment)
        #expect(try await renewalRefusal(["originalTransactionId": "2000000000000009"]) == .otherSubscription)
    }

    @Test("Each transaction member that affects entitlements is required and has the documented type")
    func members() async throws {
        let required = [
            "transactionId", "originalTransactionId", "bundleId", "productId", "subscriptionGroupIdentifier",
            "purchaseDate", "expiresDate", "type", "signedDate", "environment",
        ]
        // `signedDate` is read before the signature is verified.
        func expected(_ name: String) -> PurchaseRefusal { name == "signedDate" ? .malformed : .wrongClaims }
        for name in required {
            #expect(await refusal(try authority.token(transactionClaims([name: nil]))) == expected(name), "\(name)")
            let null = try authority.token(transactionClaims([name: NSNull()]))
            #expect(await refusal(null) == expected(name), "\(name)")
        }
        let numbers: [any Sendable] = ["1", 1.5, -1, 253_402_300_800_000 as Int64, true, [1], UInt64.max]
        for name in ["purchaseDate", "expiresDate", "signedDate", "revocationDate"] {
            for value in numbers {
                let token = try authority.token(transactionClaims([name: value]))
                #expect(await refusal(token) == expected(name), "\(name)")
            }
        }
        let texts: [any Sendable] = [1, "", "a b", "ä", String(repeating: "a", count: 256), ["a"]]
        for name in ["transactionId", "originalTransactionId", "bundleId", "productId", "subscriptionGroupIdentifier"] {
            for value in texts {
                #expect(await refusal(try authority.token(transactionClaims([name: value]))) == .wrongClaims, "\(name)")
            }
        }
        let wrong: [(String, any Sendable)] = [
            ("quantity", 0), ("quantity", -1), ("quantity", 1_000_001), ("quantity", "1"), ("isUpgraded", 1),
            ("isUpgraded", "true"), ("inAppOwnershipType", 1), ("appAccountToken", "me"),
            ("appAccountToken", "a1b2c3d4-0000-4000-8000-00000000000g"), ("offerType", "1"), ("environment", 1),
            ("type", 1), ("revocationType", 1),
        ]
        for (name, value) in wrong {
            #expect(await refusal(try authority.token(transactionClaims([name: value]))) == .wrongClaims, "\(name)")
        }
    }

    @Test("Each renewal member that affects entitlements is required and has the documented type")
    func renewalMembers() async throws {
        for name in ["originalTransactionId", "productId", "environment", "autoRenewStatus"] {
            #expect(try await renewalRefusal([name: nil]) == .wrongClaims, "\(name)")
        }
        #expect(try await renewalRefusal(["signedDate": nil]) == .malformed)
        let wrong: [(String, any Sendable)] = [
            ("autoRenewStatus", 2), ("autoRenewStatus", true), ("isInBillingRetryPeriod", 1),
            ("gracePeriodExpiresDate", "soon"), ("autoRenewProductId", ""), ("expirationIntent", "1"),
            ("autoRenewStatus", NSNull()), ("transactionId", "2000000000000001"), ("transactionId", 1),
        ]
        for (name, value) in wrong {
            #expect(try await renewalRefusal([name: value]) == .wrongClaims, "\(name)")
        }
    }

    @Test("An unknown product type is stored, and gives no entitlement")
    func unknownKind() async throws {
        let token = try authority.token(transactionClaims(["type": "Lease", "expiresDate": nil]))
        let fact = try await authority.verifier().transaction(token, now: start)
        #expect(fact.kind == nil)
        var facts = PurchaseFacts()
        facts.add(fact)
        #expect(facts.entitlements(at: start).isEmpty)
    }

    @Test("Production notifications must have the configured appAppleId")
    func appAppleID() async throws {
        #expect(try await authority.notificationRefusal(notificationClaims(data: ["appAppleId": nil])) == .wrongApp)
        #expect(try await authority.notificationRefusal(notificationClaims(data: ["appAppleId": 1])) == .wrongApp)
        let unset = authority.verifier(apps: [AppStoreApp(bundleID: TestAuthority.appleBundleID, appleID: nil)])
        #expect(try await authority.notificationRefusal(notificationClaims(), unset) == .wrongApp)
    }

    @Test("A notification whose transaction or renewal does not match it is rejected")
    func mixtures() async throws {
        let transaction = try authority.token(transactionClaims())
        let sandbox = try authority.token(transactionClaims(["environment": "Sandbox"]))
        let otherRenewal = try authority.token(renewalClaims(["originalTransactionId": "9"]))
        let stranger = try TestAuthority()
        let two = authority.verifier(apps: [
            AppStoreApp(bundleID: TestAuthority.appleBundleID, appleID: TestAuthority.appleID),
            AppStoreApp(bundleID: "com.example.other", appleID: 5),
        ])
        let other = try authority.token(transactionClaims(["bundleId": "com.example.other"]))
        let cases: [([String: (any Sendable)?], PurchaseRefusal)] = [
            (["signedTransactionInfo": sandbox], .wrongEnvironment),
            (["signedTransactionInfo": other], .wrongBundle),
            (["signedTransactionInfo": transaction, "signedRenewalInfo": otherRenewal], .otherSubscription),
            (["signedRenewalInfo": try authority.token(renewalClaims())], .wrongClaims),
            (["signedTransactionInfo": try stranger.token(transactionClaims())], .untrustedRoot),
            (["signedTransactionInfo": "e30.e30.e30"], .malformed),
            (["signedTransactionInfo": ""], .malformed),
            (["signedTransactionInfo": 1], .wrongClaims),
            (["bundleId": "com.example.third"], .wrongBundle),
            (["bundleId": nil], .wrongClaims),
            (["environment": "Xcode"], .wrongEnvironment),
        ]
        for (data, expected) in cases {
            #expect(try await authority.notificationRefusal(notificationClaims(data: data), two) == expected, "\(data)")
        }
        let outside: [([String: (any Sendable)?], PurchaseRefusal)] = [
            (["data": nil], .wrongClaims), (["summary": ["bundleId": "a"]], .wrongClaims),
            (["data": "x"], .wrongClaims),
            (["notificationUUID": nil], .wrongClaims), (["notificationUUID": "1"], .wrongClaims),
            (["notificationType": nil], .wrongClaims), (["subtype": 1], .wrongClaims),
        ]
        for (changes, expected) in outside {
            #expect(try await authority.notificationRefusal(notificationClaims(changes)) == expected, "\(changes)")
        }
    }

    @Test("Each kind of signed data is rejected as another kind")
    func kinds() async throws {
        let verifier = authority.verifier()
        #expect(await refusal(try authority.token(renewalClaims())) == .wrongClaims)
        #expect(await refusal(try authority.token(notificationClaims())) == .wrongClaims)
        #expect(try await authority.notificationRefusal(transactionClaims()) == .wrongClaims)
        let transaction = try await verifier.transaction(authority.token(transactionClaims()), now: start)
        // Except for `autoRenewStatus`, a transaction has every member that a renewal needs. The third claims have this
        // member too, and must still be rejected.
        for claims in [notificationClaims(), transactionClaims(), transactionClaims(["autoRenewStatus": 1])] {
            let token = try authority.token(claims)
            await #expect(throws: PurchaseRefusal.wrongClaims) {
                try await verifier.renewal(token, beside: transaction, now: start)
            }
        }
        #expect(try await authority.notificationRefusal(renewalClaims()) == .wrongClaims)
    }

    // MARK: Xcode

    @Test("Purchases from StoreKit testing in Xcode are accepted only if allowed, and marked as such")
    func xcode() async throws {
        let stranger = P256.Signing.PrivateKey()
        let header: [String: any Sendable] = ["alg": "ES256", "kid": "Apple_Xcode_Key", "x5c": ["AAAA"]]
        let token = try authority.token(transactionClaims(["environment": "Xcode"]), header: header, key: stranger)
        #expect(await refusal(token) == .wrongChain)
        let verifier = authority.verifier(acceptsXcode: true)
        #expect(try await verifier.transaction(token, now: start).environment == .xcode)
        // Data for environments that Apple signs is still verified.
        for environment in ["Production", "Sandbox"] {
            let forged = try authority.token(
                transactionClaims(["environment": environment]), header: header, key: stranger)
            #expect(await refusal(forged, verifier) == .wrongChain)
        }
        let notification = try authority.token(notificationClaims(data: ["environment": "Xcode"]), header: header)
        await #expect(throws: PurchaseRefusal.wrongChain) { try await verifier.notification(notification, now: start) }
        let other = try authority.token(
            transactionClaims(["environment": "Xcode", "bundleId": "com.example.other"]), header: header)
        #expect(await refusal(other, verifier) == .wrongBundle)
    }

    @Test("Dates of StoreKit testing in Xcode may have fractions of a millisecond, which do not count")
    func xcodeDates() async throws {
        let verifier = authority.verifier(acceptsXcode: true)
        let whole = start.millisecondsSinceEpoch
        func claims(_ date: any Sendable) -> [String: any Sendable] {
            transactionClaims(["environment": "Xcode", "purchaseDate": date, "signedDate": Double(whole) + 0.25])
        }
        let fact = try await verifier.transaction(try authority.token(claims(Double(whole) + 0.5)), now: start)
        #expect(fact.purchaseDate == start && fact.signedDate == start)
        let wrong: [any Sendable] = [1.5e300, -1.5, "1.5"]
        for date in wrong {
            #expect(await refusal(try authority.token(claims(date)), verifier) == .wrongClaims)
        }
        // In production, Apple signs only whole numbers, so a fraction is rejected.
        let production = try authority.token(transactionClaims(["purchaseDate": Double(whole) + 0.5]))
        #expect(await refusal(production, verifier) == .wrongClaims)
    }
}
