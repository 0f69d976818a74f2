// Checks that valid access tokens are accepted (contract, sections 6 and 8), and that forged or misused tokens are
// rejected. The tests call attacks by their names in RFC 8725.

import Crypto
import Foundation
import JWTKit
import JourneyModel
import Secrets
import TestSupport
import Testing

@testable import Identity

@Suite struct AccessTokenVerifierTests {
    @Test func aMintedTokenIsAccepted() async throws {
        let key = try hmacKey()
        let token = try await AccessTokenIssuer(key: key, scope: scope)
            .mint(driver: DriverID("driver-1"), role: "driver", ttlSeconds: 60, now: now)
        let caller = try await verifier(key).verify(token, atSecondsSince1970: now)
        #expect(caller == Caller(driver: DriverID("driver-1"), role: "driver"))
    }

    @Test func aMintedES256TokenIsAccepted() async throws {
        let key = try SigningKey(privateKeyPEM: Secret(ES256PrivateKey().pemRepresentation))
        let token = try await AccessTokenIssuer(key: key, scope: scope)
            .mint(driver: DriverID("driver-1"), role: nil, ttlSeconds: 60, now: now)
        let caller = try await verifier(key).verify(token, atSecondsSince1970: now)
        #expect(caller == Caller(driver: DriverID("driver-1")))
    }

    @Test func aTokenOfAnotherServiceWithTheFiveClaimsAloneIsAccepted() async throws {
        let token = crafted(payload: try payload(["jti": nil, "aud": ["other", "dwell"], "unknown": ["x": 1]]))
        #expect(await refusal(verifier(try hmacKey()), token) == nil)
    }

    // MARK: Signature and algorithm

    @Test(arguments: [
        #"{"alg":"none","typ":"JWT"}"#, #"{"alg":"None"}"#, #"{"alg":"NONE"}"#, #"{"alg":"HS384"}"#,
        #"{"alg":"hs256"}"#, #"{"alg":"RS256"}"#, #"{"alg":"ES256"}"#, #"{"typ":"JWT"}"#, #"{"alg":null}"#,
        #"{"alg":["HS256"]}"#, #"{"alg":"HS256\u0000"}"#,
    ])
    func theTokenDoesNotChooseTheAlgorithm(header: String) async throws {
        let verifier = await verifier(try hmacKey())
        #expect(await refusal(verifier, crafted(header: header, payload: try payload())) == .wrongAlgorithm)
    }

    @Test func algNoneWithoutSignature() async throws {
        let signed = crafted(header: #"{"alg":"none"}"#, payload: try payload())
        let unsigned = signed.split(separator: ".").prefix(2).joined(separator: ".") + "."
        #expect(await refusal(verifier(try hmacKey()), unsigned) == .malformed)
    }

    @Test func signedWithAnotherKey() async throws {
        let token = crafted(payload: try payload(), secret: "another secret that is long enough too")
        #expect(await refusal(verifier(try hmacKey()), token) == .wrongSignature)
    }

    @Test func keyConfusionHS256WithThePublicKey() async throws {
        let privateKey = ES256PrivateKey()
        let verifier = await verifier(try SigningKey(privateKeyPEM: Secret(privateKey.pemRepresentation)))
        let pem = privateKey.publicKey.pemRepresentation
        for secret in [pem, pem + "\n"] {
            #expect(await refusal(verifier, crafted(payload: try payload(), secret: secret)) == .wrongAlgorithm)
            let lying = crafted(header: #"{"alg":"ES256"}"#, payload: try payload(), secret: secret)
            #expect(await refusal(verifier, lying) == .wrongSignature)
        }
    }

    @Test func signedWithAnotherES256Key() async throws {
        let mine = try SigningKey(privateKeyPEM: Secret(ES256PrivateKey().pemRepresentation))
        let other = try SigningKey(privateKeyPEM: Secret(ES256PrivateKey().pemRepresentation))
        let token = try await AccessTokenIssuer(key: other, scope: scope)
            .mint(driver: DriverID("d"), role: nil, ttlSeconds: 60, now: now)
        #expect(await refusal(verifier(mine), token) == .wrongSignature)
    }

    @Test(arguments: [
        #"{"alg":"HS256","kid":"../../dev/null"}"#, #"{"alg":"HS256","kid":"' OR 1=1"}"#,
        #"{"alg":"HS256","jku":"http://127.0.0.1/keys"}"#, #"{"alg":"HS256","x5u":"http://127.0.0.1/c"}"#,
        #"{"alg":"HS256","jwk":{"kty":"oct","k":"AAAA"}}"#,
    ])
    func keysNamedByTheTokenAreIgnored(header: String) async throws {
        let verifier = await verifier(try hmacKey())
        #expect(await refusal(verifier, crafted(header: header, payload: try payload())) == nil)
        let forged = crafted(header: header, payload: try payload(), secret: "\0\0\0")
        #expect(await refusal(verifier, forged) == .wrongSignature)
    }

    @Test(arguments: [
        #"{"alg":"HS256","crit":["b64"],"b64":false}"#, #"{"alg":"HS256","crit":[]}"#, #"{"alg":"HS256","crit":1}"#,
    ])
    func criticalExtensionsAreNotUnderstood(header: String) async throws {
        #expect(await refusal(verifier(try hmacKey()), crafted(header: header, payload: try payload())) == .malformed)
    }

    @Test func everyChangedByteIsNoticed() async throws {
        let verifier = await verifier(try hmacKey())
        let token = Array(crafted(payload: try payload()).utf8)
        // The test does not change the signature's last character, because two bits of it are unused. A change of only
        // these bits would not change the signature.
        for index in token.indices.dropLast() {
            var changed = token
            changed[index] = changed[index] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            #expect(await refusal(verifier, String(decoding: changed, as: UTF8.self)) != nil, "byte \(index)")
        }
    }

    // MARK: Malformed tokens

    @Test func everyTruncationIsRefused() async throws {
        let verifier = await verifier(try hmacKey())
        let token = crafted(payload: try payload())
        for length in 0..<token.utf8.count {
            #expect(await refusal(verifier, String(token.prefix(length))) != nil, "\(length) bytes")
        }
    }

    @Test(arguments: [
        "", ".", "..", "...", "a.b", "a.b.c", "a.b.c.d", "e30.e30.e30", "not a token", "\u{0}.\u{0}.\u{0}",
        "\u{1F697}.\u{1F697}.\u{1F697}", "e\u{301}.a.b", "====.====.====", "W10.W10.W10", "Bearer x.y.z",
        "eyJhbGciOiJIUzI1NiJ9 .e30.AAAA", "eyJhbGciOiJIUzI1NiJ9=.e30.AAAA", "eyJhbGciOiJIUzI1NiJ9.e30+.AAAA",
    ])
    func garbageIsRefused(token: String) async throws {
        let answer = await refusal(verifier(try hmacKey()), token)
        #expect(answer == .malformed || answer == .wrongAlgorithm)
    }

    @Test func anOversizedTokenIsRefusedHoweverGoodItIs() async throws {
        let verifier = await verifier(try hmacKey())
        let fits = crafted(payload: try payload(["x": String(repeating: "x", count: 2500)]))
        let tooLong = crafted(payload: try payload(["x": String(repeating: "x", count: 3000)]))
        #expect(fits.utf8.count < AccessTokenVerifier.tokenBytesMax)
        #expect(tooLong.utf8.count > AccessTokenVerifier.tokenBytesMax)
        #expect(await refusal(verifier, fits) == nil)
        #expect(await refusal(verifier, tooLong) == .malformed)
        #expect(await refusal(verifier, String(repeating: "a", count: 10_000_000)) == .malformed)
    }

    @Test func deeplyNestedJSONIsRefused() async throws {
        let deep = String(repeating: "[", count: 2900)
        let token = crafted(header: deep, payload: "{}")
        #expect(await refusal(verifier(try hmacKey()), token) == .malformed)
    }

    @Test func randomBytesNeverCrashIt() async throws {
        let seed = UInt64.random(in: .min ... .max)
        var random = SeededRandom(seed: seed)
        let verifier = await verifier(try hmacKey())
        for _ in 0..<500 {
            let bytes = (0..<Int.random(in: 0...200, using: &random)).map { _ in
                UInt8.random(in: 0...255, using: &random)
            }
            let signed = crafted(
                header: #"{"alg":"HS256"}"#, payload: String(decoding: bytes, as: UTF8.self))
            #expect(await refusal(verifier, signed) != nil, "seed \(seed)")
            #expect(await refusal(verifier, String(decoding: bytes, as: UTF8.self)) != nil, "seed \(seed)")
        }
    }

    // MARK: Verification from memory

    @Test func memoryKnowsATokenThatWasVerifiedUntilItExpires() async throws {
        let verifier = await verifier(try hmacKey())
        let token = crafted(payload: try payload(["exp": now + 5]))
        #expect(fromMemory(verifier, token) == nil)
        #expect(await refusal(verifier, token) == nil)
        #expect(fromMemory(verifier, token) == .success(Caller(driver: DriverID("driver-1"))))
        #expect(fromMemory(verifier, token + "=") == nil && fromMemory(verifier, String(token.dropLast())) == nil)
        #expect(fromMemory(verifier, token, at: now + 5) == .failure(.expired))
        #expect(fromMemory(verifier, token) == nil)
    }

    @Test func memorySaysNothingOfABadToken() async throws {
        let verifier = await verifier(try hmacKey())
        let bad = crafted(payload: try payload(), secret: "another secret, long enough as well")
        for token in [bad, "", ".", String(repeating: "a", count: 5000)] {
            _ = await refusal(verifier, token)
            #expect(fromMemory(verifier, token) == nil)
        }
    }

    @Test func aSessionThatOnlyTheStoreKnowsIsNotJudgedAtOnce() async throws {
        let sessions = ScriptedSessions(live: ["s-1"])
        let verifier = await verifier(try hmacKey(), sessions: sessions)
        let token = crafted(payload: try payload(["sid": "s-1"]))
        #expect(await refusal(verifier, token) == nil)
        #expect(fromMemory(verifier, token) == nil)
    }

    // MARK: Claims

    @Test(
        arguments: [
            (["exp": now], .expired), (["exp": now - 1], .expired), (["exp": 0], .expired), (["exp": -1], .expired),
            (["exp": nil], .claims), (["exp": "soon"], .claims), (["exp": true], .claims),
            (["iat": nil], .claims), (["iat": "then"], .claims), (["iat": now + 61], .notYetValid),
            (["iat": now + 60], nil), (["nbf": now + 61], .notYetValid), (["nbf": now + 3000], .notYetValid),
            (["nbf": now - 5], nil), (["nbf": "x"], .claims),
            (["iss": "other"], .wrongIssuer), (["iss": "Dwell"], .wrongIssuer), (["iss": ""], .wrongIssuer),
            (["iss": nil], .claims), (["iss": ["dwell"]], .claims),
            (["aud": "other"], .wrongAudience), (["aud": ["a", "b"]], .wrongAudience),
            (["aud": [String]()], .wrongAudience),
            (["aud": nil], .claims), (["aud": 1], .claims),
            (["sub": nil], .claims), (["sub": ""], .claims), (["sub": 7], .claims), (["sub": "a\nb"], .claims),
            (["sub": "\u{0}"], .claims), (["sub": "a\u{2028}b"], .claims),
            (["sub": String(repeating: "s", count: 128)], nil), (["sub": String(repeating: "s", count: 129)], .claims),
            (["sub": String(repeating: "\u{1F697}", count: 128)], nil),
            (["sub": "a" + String(repeating: "\u{301}", count: 128)], .claims),
            (["sub": "na\u{EF}ve \u{1F697}"], nil),
            (["role": String(repeating: "r", count: 65)], .claims), (["role": 1], .claims), (["sid": ""], .claims),
            (["sid": 1], .claims), (["exp": 1e300], nil), (["exp": Double(now) + 0.5], nil), (["iat": -1e300], nil),
        ] as [([String: (any Sendable)?], TokenRefusal?)])
    func claims(changes: [String: (any Sendable)?], expected: TokenRefusal?) async throws {
        let token = crafted(payload: try payload(changes))
        #expect(await refusal(verifier(try hmacKey()), token) == expected, "\(changes)")
    }

    @Test func aWrongSignatureIsSaidBeforeAnythingAboutTheClaims() async throws {
        let token = crafted(
            payload: try payload(["exp": 0, "iss": "x"]), secret: "another secret, long enough as well")
        #expect(await refusal(verifier(try hmacKey()), token) == .wrongSignature)
    }

    // MARK: Sign-in sessions

    @Test func withoutTheSignInTablesEverySidIsUnknown() async throws {
        let token = crafted(payload: try payload(["sid": "s-1"]))
        #expect(await refusal(verifier(try hmacKey()), token) == .revoked)
    }

    @Test func aTokenWithoutSidIsRefusedWhenExternalTokensAreNotTrusted() async throws {
        let verifier = await verifier(try hmacKey(), trustExternal: false)
        #expect(await refusal(verifier, crafted(payload: try payload())) == .external)
    }

    @Test func revocationTakesEffectAtOnceOnARememberedToken() async throws {
        let sessions = ScriptedSessions(live: ["s-1"])
        let verifier = await verifier(try hmacKey(), trustExternal: false, sessions: sessions)
        let token = crafted(payload: try payload(["sid": "s-1"]))
        #expect(try await verifier.verify(token, atSecondsSince1970: now).signInSession == "s-1")
        #expect(await refusal(verifier, token) == nil)
        sessions.revoke("s-1")
        #expect(await refusal(verifier, token) == .revoked)
        #expect(sessions.asked == 3)
    }

    // MARK: Duplicate members

    @Test(arguments: [
        #"{"sub":"driver-1","sub":"driver-2","iss":"dwell","aud":"dwell","iat":1,"exp":9999999999}"#,
        #"{"sub":"driver-1","iss":"dwell","aud":"dwell","iat":1,"exp":1,"exp":9999999999}"#,
        #"{"sub":"driver-1","iss":"dwell","aud":"dwell","iat":1,"exp":9999999999,"x":{"a":1,"a":2}}"#,
        #"{"sub":"driver-1","iss":"dwell","aud":"dwell","iat":1,"exp":9999999999,"\u0073ub":"driver-2"}"#,
    ])
    func aClaimThatComesTwiceIsRefused(payload: String) async throws {
        #expect(await refusal(verifier(try hmacKey()), crafted(payload: payload)) == .claims)
    }

    @Test func aHeaderMemberThatComesTwiceIsRefused() async throws {
        let header = #"{"alg":"none","alg":"HS256"}"#
        let token = crafted(header: header, payload: try payload())
        #expect(await refusal(verifier(try hmacKey()), token) == .malformed)
    }

    // MARK: Renewal

    @Test func anExpiredTokenIsGoodForItsRenewalWhileItsSessionLives() async throws {
        let sessions = ScriptedSessions(live: ["s-1"])
        let verifier = await verifier(try hmacKey(), sessions: sessions)
        func refusal(_ changes: [String: (any Sendable)?]) async throws -> TokenRefusal? {
            do throws(TokenRefusal) {
                _ = try await verifier.verifyForRenewal(
                    crafted(payload: (try? payload(changes)) ?? ""), atSecondsSince1970: now, pastExpirySeconds: 100)
                return nil
            } catch {
                return error
            }
        }
        #expect(try await refusal(["sid": "s-1"]) == nil)
        #expect(try await refusal(["sid": "s-1", "exp": now - 99]) == nil)
        #expect(try await refusal(["sid": "s-1", "exp": now - 100]) == .expired)
        #expect(try await refusal(["sid": "s-2", "exp": now - 1]) == .revoked)
        #expect(try await refusal([:]) == .external)
        sessions.revoke("s-1")
        #expect(try await refusal(["sid": "s-1"]) == .revoked)
        // An expired token that is accepted for a renewal is rejected for everything else.
        #expect(await IdentityTests.refusal(verifier, crafted(payload: try payload(["exp": now - 1]))) == .expired)
    }
}
