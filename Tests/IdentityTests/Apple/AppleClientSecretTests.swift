// Compares the client secret with Apple's documentation, and tests the parsing of a token response.

import Crypto
import Foundation
import Secrets
import Testing

@testable import Identity

@Suite struct AppleClientSecretTests {
    @Test func theClaimsAndTheSignature() async throws {
        let key = P256.Signing.PrivateKey()
        let secret = try await AppleClientSecret(
            teamID: "TEAM123456", keyID: "KEY1234567", key: SigningKey(privateKeyPEM: Secret(key.pemRepresentation)))
        let parts = try await secret.text(for: "org.example.chargers", atSecondsSince1970: now).reveal().split(
            separator: ".")
        let header =
            try JSONSerialization.jsonObject(with: Data(Base64URL.bytes(of: parts[0]) ?? [])) as? [String: String]
        #expect(header?["alg"] == "ES256")
        #expect(header?["kid"] == "KEY1234567")
        let claims = try #require(
            try JSONSerialization.jsonObject(with: Data(Base64URL.bytes(of: parts[1]) ?? [])) as? [String: Any])
        #expect(claims["iss"] as? String == "TEAM123456")
        #expect(claims["sub"] as? String == "org.example.chargers")
        #expect(claims["aud"] as? String == "https://appleid.apple.com")
        #expect(claims["iat"] as? Int64 == now)
        #expect(claims["exp"] as? Int64 == now + 300)
        let signature = try P256.Signing.ECDSASignature(rawRepresentation: Base64URL.bytes(of: parts[2]) ?? [])
        #expect(key.publicKey.isValidSignature(signature, for: Data("\(parts[0]).\(parts[1])".utf8)))
    }

    private func answer(_ changes: [String: (any Sendable)?] = [:]) throws -> AppleTokenResponse? {
        var answer: [String: Any] = [
            "access_token": "a", "token_type": "Bearer", "expires_in": 3600, "refresh_token": "r.token",
            "id_token": AppleKeyPairs.first.token(claims: try appleClaims()),
        ]
        for (name, value) in changes { answer[name] = value }
        return AppleTokenResponse(Array(try JSONSerialization.data(withJSONObject: answer)))
    }

    @Test func aTokenAnswer() throws {
        let good = try #require(try answer())
        #expect(good.refreshToken.reveal() == "r.token")
        #expect(good.subject == "001234.abc.0987")
    }

    @Test func anAnswerThatIsNone() throws {
        for value: (any Sendable)? in [nil, "", 1, String(repeating: "r", count: 4097)] {
            #expect(try answer(["refresh_token": value]) == nil)
        }
        for value: (any Sendable)? in [nil, "", 1, "x.y.z", "a.b", "e30.e30.e30"] {
            #expect(try answer(["id_token": value]) == nil)
        }
        for text in ["", "{}", "[]", "<html>"] { #expect(AppleTokenResponse(Array(text.utf8)) == nil) }
    }

    @Test(arguments: [
        (#"{"error":"invalid_grant"}"#, "invalid_grant"), ("{}", nil), ("<html>", nil), (#"{"error":1}"#, nil),
    ])
    func anErrorsCode(text: String, code: String?) {
        #expect(AppleTokenResponse.errorCode(Array(text.utf8)) == code)
    }
}
