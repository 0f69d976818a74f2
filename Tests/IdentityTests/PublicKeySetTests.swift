// Tests that a client can verify the server's tokens with nothing but the published key. Also tests that the key's id
// follows RFC 7638.

import Crypto
import Foundation
import JWTKit
import JourneyModel
import Secrets
import Testing

@testable import Identity

struct PublicKeySetTests {
    private func bytes(_ text: String) throws -> Data {
        Data(try #require(Base64URL.bytes(of: text)))
    }

    @Test func `a token of ours can be verified with the set alone`() async throws {
        let key = try SigningKey(privateKeyPEM: Secret(ES256PrivateKey().pemRepresentation))
        let set = try JSONSerialization.jsonObject(with: Data(key.publicKeySet)) as? [String: [[String: String]]]
        let jwk = try #require(set?["keys"]?.first)
        #expect(set?["keys"]?.count == 1)
        #expect(Set(jwk.keys) == ["kty", "crv", "x", "y", "use", "alg", "kid"])
        #expect([jwk["kty"], jwk["crv"], jwk["use"], jwk["alg"]] == ["EC", "P-256", "sig", "ES256"])
        let x = try #require(jwk["x"])
        let y = try #require(jwk["y"])
        let thumbprint = SHA256.hash(data: Data(#"{"crv":"P-256","kty":"EC","x":"\#(x)","y":"\#(y)"}"#.utf8))
        #expect(jwk["kid"] == base64URL(Data(thumbprint)))

        let token = try await AccessTokenIssuer(key: key, scope: scope)
            .mint(driver: DriverID("d"), sid: "sid_1", role: "driver", ttlSeconds: 60, now: now)
        let parts = token.split(separator: ".").map(String.init)
        let header = try JSONSerialization.jsonObject(with: bytes(parts[0])) as? [String: String]
        #expect(header?["kid"] == jwk["kid"])
        let point = try Data([4]) + bytes(x) + bytes(y)
        let published = try P256.Signing.PublicKey(x963Representation: point)
        let signature = try P256.Signing.ECDSASignature(rawRepresentation: bytes(parts[2]))
        #expect(published.isValidSignature(signature, for: Data("\(parts[0]).\(parts[1])".utf8)))
        let claims = try JSONSerialization.jsonObject(with: bytes(parts[1])) as? [String: Any]
        #expect(claims?["sid"] as? String == "sid_1")
        #expect(claims?["role"] as? String == "driver")
    }

    @Test func `a secret has no public half`() throws {
        #expect(String(decoding: try hmacKey().publicKeySet, as: UTF8.self) == #"{"keys":[]}"#)
    }

    @Test func `nothing of the private key is in the set`() throws {
        let pem = ES256PrivateKey().pemRepresentation
        let raw = try P256.Signing.PrivateKey(pemRepresentation: pem).rawRepresentation
        let set = String(decoding: try SigningKey(privateKeyPEM: Secret(pem)).publicKeySet, as: UTF8.self)
        #expect(!set.contains(base64URL(raw)))
        #expect(!set.contains("\"d\""))
    }
}
