// Tests how the file of a service account is read, and the assertion that the service account signs.

import Crypto
import CryptoExtras
import Foundation
import JourneyModel
import Secrets
import Testing

@testable import Identity

@Suite struct GoogleServiceAccountTests {
    private static let key = AppleKeyPairs.first.key

    /// Returns the JSON file of a valid service account. `changes` replaces members; nil removes a member.
    private func file(_ changes: [String: (any Sendable)?] = [:]) throws -> [UInt8] {
        var members: [String: Any] = [
            "type": "service_account", "project_id": "chargers-1234", "private_key_id": "abc123",
            "private_key": Self.key.pemRepresentation, "client_email": "push@chargers-1234.iam.gserviceaccount.com",
            "token_uri": "https://oauth2.googleapis.com/token", "universe_domain": "googleapis.com",
        ]
        for (name, value) in changes { members[name] = value }
        return Array(try JSONSerialization.data(withJSONObject: members))
    }

    @Test func theAssertion() throws {
        let account = try GoogleServiceAccount(json: file())
        #expect(account.projectID == "chargers-1234" && account.tokenURI == "https://oauth2.googleapis.com/token")
        let parts = try account.assertion(atSecondsSince1970: 1_794_859_200).reveal().split(separator: ".")
        let header = try JSONValue.parse(Base64URL.bytes(of: parts[0]) ?? [])
        #expect(header["alg"] == .string("RS256") && header["kid"] == .string("abc123"))
        let claims = try JSONValue.parse(Base64URL.bytes(of: parts[1]) ?? [])
        #expect(claims["iss"] == .string("push@chargers-1234.iam.gserviceaccount.com"))
        #expect(claims["aud"] == .string("https://oauth2.googleapis.com/token"))
        #expect(claims["scope"] == .string("https://www.googleapis.com/auth/firebase.messaging"))
        #expect(claims["iat"] == .number("1794859200") && claims["exp"] == .number("1794862800"))
        let signature = _RSA.Signing.RSASignature(rawRepresentation: Data(Base64URL.bytes(of: parts[2]) ?? []))
        let digest = SHA256.hash(data: Data("\(parts[0]).\(parts[1])".utf8))
        #expect(Self.key.publicKey.isValidSignature(signature, for: digest, padding: .insecurePKCS1v1_5))
    }

    @Test(arguments: [
        ("type", "authorized_user"), ("type", nil), ("project_id", nil), ("project_id", "../other"),
        ("project_id", "a/b"), ("client_email", ""), ("private_key", "no key"), ("private_key", nil),
        ("private_key_id", nil), ("token_uri", nil),
    ])
    func aFileThatLacksSomething(name: String, value: String?) throws {
        let json = try file([name: value])
        let error = #expect(throws: GoogleServiceAccount.Unreadable.self) { try GoogleServiceAccount(json: json) }
        #expect(error?.reason.contains(name) == true)
    }

    @Test func aFileThatIsNone() {
        for text in ["", "[]", "{", "-----BEGIN PRIVATE KEY-----"] {
            #expect(throws: GoogleServiceAccount.Unreadable.self) {
                try GoogleServiceAccount(json: Array(text.utf8))
            }
        }
    }
}
