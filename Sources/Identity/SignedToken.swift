// A compact JWS (RFC 7515, section 7.1) signed with RS256, split into its parts. Both JSON parts are read by the
// one strict parser, so that what is checked is what was signed: no duplicate members, no second decoder that reads
// differently. Knows keys only by their id, and not what claims mean.

import Crypto
import Foundation
import JourneyModel

struct SignedToken: Sendable {
    /// Apple's identity tokens have about 1 KiB, its notifications less. Checked before any parsing.
    static let bytesMax = 8192
    /// Apple's have ten characters.
    static let keyNameBytesMax = 256

    /// `kid`: an id to look up in the key set, never part of a URL or a path.
    let keyName: String
    private let payload: [UInt8]
    private let signature: [UInt8]
    /// SHA-256 of the signing input.
    private let digest: SHA256.Digest

    /// Checks form and header: `alg` is RS256 whatever key there is (RFC 8725, section 3.1), and there are no
    /// extensions that must be understood (`crit`), because none is supported.
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

    /// Returns the claims, which are not accessible before the signature is verified.
    func claims(signedBy key: RSAVerificationKey) throws(AppleTokenRefusal) -> JSONValue {
        guard key.verifies(signature, of: digest) else { throw .refused(.wrongSignature) }
        guard let claims = try? JSONValue.parse(payload), case .object = claims else { throw .refused(.malformed) }
        return claims
    }

    /// The claims of a token that only its transport vouches for: one that came over TLS from the endpoint itself
    /// (OpenID Connect Core, section 3.1.3.7, rule 6). Must not be used for client input.
    static func claimsOfTrustedSender(_ text: String) -> JSONValue? {
        let parts = text.split(separator: ".", maxSplits: 3, omittingEmptySubsequences: false)
        guard text.utf8.count <= bytesMax, parts.count == 3, let payload = CompactJWS.bytes(parts[1]) else {
            return nil
        }
        return try? JSONValue.parse(payload)
    }
}

extension JSONValue {
    /// The text of a string; nil for anything else.
    var text: String? {
        guard case .string(let text) = self else { return nil }
        return text
    }

    /// A number that fits a Double: seconds since 1970 and the like. Nil for anything else.
    var finiteNumber: Double? {
        guard case .number(let text) = self, let number = Double(text), number.isFinite else { return nil }
        return number
    }
}
