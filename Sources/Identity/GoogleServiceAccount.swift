// A Google service account, read from the JSON file that the Google Cloud console creates. It signs the assertion with
// which the server requests an access token (RFC 7523, section 2.1).

import Crypto
import CryptoExtras
import JourneyModel
package import Secrets

package struct GoogleServiceAccount: Sendable {
    /// The reason why a file is not the key of a service account. It contains no part of the file's content.
    package struct Unreadable: Error, Hashable, Sendable {
        package var reason: String
    }

    /// Lifetime of an assertion in seconds, the longest that Google allows.
    static let timeToLiveSeconds: Int64 = 3600
    static let messagingScope = "https://www.googleapis.com/auth/firebase.messaging"

    package let projectID: String
    /// The URL that exchanges an assertion for an access token.
    package let tokenURI: String
    private let clientEmail: String
    private let keyID: String
    private let key: Secret<_RSA.Signing.PrivateKey>

    /// Reads the content of the file.
    package init(json: [UInt8]) throws(Unreadable) {
        guard let value = try? JSONValue.parse(json), case .object = value else {
            throw Unreadable(reason: "it is not a JSON object")
        }
        func text(_ name: String) throws(Unreadable) -> String {
            guard case .string(let text) = value[name], !text.isEmpty else {
                throw Unreadable(reason: "it has no text \(name)")
            }
            return text
        }
        guard try text("type") == "service_account" else {
            throw Unreadable(reason: "its type is not service_account")
        }
        projectID = try text("project_id")
        guard projectID.utf8.count <= 64, projectID.utf8.allSatisfy(Self.isProjectCharacter) else {
            throw Unreadable(reason: "its project_id is not one of Google's")
        }
        clientEmail = try text("client_email")
        keyID = try text("private_key_id")
        tokenURI = try text("token_uri")
        guard let key = try? _RSA.Signing.PrivateKey(pemRepresentation: text("private_key")) else {
            throw Unreadable(reason: "its private_key is not an RSA key in PEM format")
        }
        self.key = Secret(key)
    }

    /// Returns a signed assertion, RS256 (RFC 7518, section 3.3).
    package func assertion(atSecondsSince1970 now: Int64) throws -> Secret<String> {
        try CompactJWS.token(
            header: [("alg", .string("RS256")), ("typ", .string("JWT")), ("kid", .string(keyID))],
            claims: [
                ("iss", .string(clientEmail)), ("scope", .string(Self.messagingScope)), ("aud", .string(tokenURI)),
                ("iat", .number(String(now))), ("exp", .number(String(now + Self.timeToLiveSeconds))),
            ]
        ) { try key.reveal().signature(for: SHA256.hash(data: $0), padding: .insecurePKCS1v1_5).rawRepresentation }
    }

    private static func isProjectCharacter(_ byte: UInt8) -> Bool {
        byte.isASCIIDigit || (0x61...0x7A).contains(byte) || byte == UInt8(ascii: "-")
    }
}
