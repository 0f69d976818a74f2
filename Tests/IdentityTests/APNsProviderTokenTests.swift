// Tests when the provider token for APNs is renewed. Apple accepts a token for an hour, and allows a new token at most
// every 20 minutes.

import Crypto
import Foundation
import Secrets
import Testing

@testable import Identity

@Suite struct APNsProviderTokenTests {
    private let key = P256.Signing.PrivateKey()
    private let start: Int64 = 1_794_859_200

    private func token() throws -> APNsProviderToken {
        try #require(
            APNsProviderToken(
                teamID: "TEAM123456", keyID: "KEY1234567",
                key: SigningKey(privateKeyPEM: Secret(key.pemRepresentation))))
    }

    @Test func theClaimsAndTheSignature() throws {
        let parts = try token().text(atSecondsSince1970: start).reveal().split(separator: ".")
        func json(_ part: Substring) throws -> [String: Any]? {
            try JSONSerialization.jsonObject(with: Data(Base64URL.bytes(of: part) ?? [])) as? [String: Any]
        }
        let header = try json(parts[0])
        #expect(header?["alg"] as? String == "ES256" && header?["kid"] as? String == "KEY1234567")
        let claims = try json(parts[1])
        #expect(claims?["iss"] as? String == "TEAM123456" && claims?["iat"] as? Int64 == start && claims?.count == 2)
        let signature = try P256.Signing.ECDSASignature(rawRepresentation: Base64URL.bytes(of: parts[2]) ?? [])
        #expect(key.publicKey.isValidSignature(signature, for: Data("\(parts[0]).\(parts[1])".utf8)))
    }

    @Test func itIsUsedForFiftyMinutes() throws {
        let token = try token()
        let first = try token.text(atSecondsSince1970: start)
        #expect(try token.text(atSecondsSince1970: start + 2999) == first)
        let second = try token.text(atSecondsSince1970: start + 3000)
        #expect(second != first)
        #expect(try token.text(atSecondsSince1970: start + 5999) == second)
    }

    @Test func aRejectedTokenIsRenewedOnlyAfterTwentyMinutes() throws {
        let token = try token()
        let first = try token.text(atSecondsSince1970: start)
        #expect(try token.text(afterRejected: first, atSecondsSince1970: start + 1199) == nil)
        #expect(token.secondsUntilRenewal(atSecondsSince1970: start + 1199) == 1)
        #expect(token.secondsUntilRenewal(atSecondsSince1970: start + 200) == 1000)
        let second = try token.text(afterRejected: first, atSecondsSince1970: start + 1200)
        #expect(second != nil && second != first)
        // Apple rejects another notification that has the first token. That notification is sent again with the second
        // token, which already exists.
        #expect(try token.text(afterRejected: first, atSecondsSince1970: start + 1201) == second)
        #expect(try token.text(atSecondsSince1970: start + 1201) == second)
    }

    @Test func aTokenFromTheFutureIsNotUsed() throws {
        let token = try token()
        let first = try token.text(atSecondsSince1970: start)
        #expect(try token.text(atSecondsSince1970: start - 60) == first)
        #expect(try token.text(atSecondsSince1970: start - 61) != first)
    }

    @Test func aSecretIsNoKeyForIt() throws {
        let key = try SigningKey(secret: Secret(String(repeating: "s", count: 32)))
        #expect(APNsProviderToken(teamID: "T", keyID: "K", key: key) == nil)
    }
}
