// A compact JWS (RFC 7515, section 7.1) signed with RS256, split into its parts. One strict parser reads both JSON
// parts and rejects duplicate members. The claims that are checked are therefore exactly the claims that were signed.
//
// The caller looks up the key by `keyName` and passes the key to `claims(signedBy:)`.

import Crypto
import Foundation
import JourneyModel

struct SignedToken: Sendable {
    /// Maximum length of a token, checked before any parsing. Apple's identity tokens have about 1 KiB, and its
    /// notifications have less.
    static let bytesMax = 8192
    /// Maximum length of `kid`. Apple's key ids have ten characters.
    static let keyNameBytesMax = 256

    /// `kid`, by which the key is looked up in the key set. It comes from the client, so it must never become a part of
    /// a URL or a path.
    let keyName: String
    private let payload: [UInt8]
    private let signature: [UInt8]
    /// SHA-256 of the signing input.
    private let digest: SHA256.Digest

    /// Splits the token and checks its form and header. `alg` must be RS256, because a token must not choose the
    /// algorithm (RFC 8725, section 3.1). `crit` must be absent, because no extensions are supported.
    init(_ text: String) throws(AppleTokenRefusal) {
        guard let jws = CompactJWS(text, bytesMax: Self.bytesMax) else { throw .refused(.malformed) }
        guard jws.header["alg"]?.text == "RS256" else { throw .refused(.wrongAlgorithm) }
        guard jws.header["crit"] == nil else { throw .refused(.malformed) }
        guard let keyName = jws.header["kid"]?.text, (1...Self.keyNameBytesMax).contains(keyName.utf8.count) else {
            throw .refused(.unknownKey)
        }
        self.keyName = keyName
        payload = jws.payload
        signature = jws.signature
        digest = SHA256.hash(data: Data(jws.signingInput))
    }

    /// Verifies the signature. This is the only way to get the claims of a client's token.
    func claims(signedBy key: RSAVerificationKey) throws(AppleTokenRefusal) -> JSONValue {
        guard key.verifies(signature, of: digest) else { throw .refused(.wrongSignature) }
        guard let claims = try? JSONValue.parse(payload), case .object = claims else { throw .refused(.malformed) }
        return claims
    }

    /// Returns the claims of a token without verifying its signature. Use it only for a token received over TLS from
    /// the token's issuer (OpenID Connect Core, section 3.1.3.7, rule 6), never for client input.
    static func claimsOfTrustedSender(_ text: String) -> JSONValue? {
        let parts = text.split(separator: ".", maxSplits: 3, omittingEmptySubsequences: false)
        guard text.utf8.count <= bytesMax, parts.count == 3, let payload = CompactJWS.bytes(parts[1]) else {
            return nil
        }
        return try? JSONValue.parse(payload)
    }
}

extension JSONValue {
    var text: String? {
        guard case .string(let text) = self else { return nil }
        return text
    }

    /// The value of a number that fits a Double, for example seconds since 1970; nil for anything else.
    var finiteNumber: Double? {
        guard case .number(let text) = self, let number = Double(text), number.isFinite else { return nil }
        return number
    }
}
