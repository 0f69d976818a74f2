// Checks that the usable keys of a key set are used and that all other keys are ignored.

import Foundation
import Testing

@testable import Identity

@Suite struct AppleKeysTests {
    private let key = AppleKeyPairs.first

    @Test func theUsableKeysAreTaken() throws {
        let good = keySet([key.jwk(), AppleKeyPairs.second.jwk(["use": nil, "alg": nil])])
        #expect(AppleKeys.parse(good)?.keys.sorted() == ["key-1", "key-2"])
    }

    @Test func everythingElseIsPassedOver() throws {
        let odd: [Any] = [
            1, "key", [], [:], ["kty": "RSA"], ["kty": "oct", "kid": "oct", "k": "c2VjcmV0"],
            ["kty": "EC", "kid": "ec", "crv": "P-256", "x": "AA", "y": "AA"],
            AppleKeyPairs.short.jwk(),
            key.jwk(["kid": nil]), key.jwk(["kid": ""]), key.jwk(["kid": 1]),
            key.jwk(["kid": String(repeating: "k", count: 257)]),
            key.jwk(["kid": "use", "use": "enc"]), key.jwk(["kid": "alg", "alg": "RS512"]),
            key.jwk(["kid": "alg", "alg": "HS256"]),
            key.jwk(["kid": "n", "n": nil]), key.jwk(["kid": "n", "n": "!!"]), key.jwk(["kid": "n", "n": ""]),
            key.jwk(["kid": "n", "n": base64URL(Data(repeating: 0xFF, count: 1025))]),
            key.jwk(["kid": "n", "n": base64URL(Data(repeating: 0, count: 256))]),
            key.jwk(["kid": "e", "e": nil]), key.jwk(["kid": "e", "e": ""]), key.jwk(["kid": "e", "e": "AA"]),
            key.jwk(["kid": "e", "e": "AQ"]), key.jwk(["kid": "e", "e": "Ag"]),
            key.jwk(["kid": "e", "e": base64URL(Data(repeating: 0xFF, count: 9))]),
        ]
        #expect(AppleKeys.parse(keySet(odd)) == nil)
        #expect(AppleKeys.parse(keySet(odd + [key.jwk()]))?.keys.sorted() == ["key-1"])
    }

    /// An attacker who can append a key to the set must not be able to replace an earlier key that has the same id.
    @Test func theFirstOfTwoKeysOfOneNameCounts() async throws {
        let set = keySet([key.jwk(), AppleKeyPairs.second.named("key-1").jwk()])
        let found = try #require(AppleKeys.parse(set)?["key-1"])
        let token = try SignedToken(key.token(claims: try appleClaims()))
        #expect(throws: Never.self) { _ = try token.claims(signedBy: found) }
    }

    @Test func sixtyFourMembersAreLookedAt() throws {
        let many = Array(repeating: ["kty": "oct"] as Any, count: 63)
        #expect(AppleKeys.parse(keySet(many + [key.jwk()])) != nil)
        #expect(AppleKeys.parse(keySet(many + [["kty": "oct"], key.jwk()])) == nil)
    }

    @Test(arguments: [
        "", "{", "[]", "null", "{}", #"{"keys":null}"#, #"{"keys":{}}"#, #"{"keys":[]}"#, "<html>",
        #"{"keys":[],"keys":[]}"#,
    ])
    func whatIsNoKeySet(text: String) {
        #expect(AppleKeys.parse(Array(text.utf8)) == nil)
    }
}
