// Signs identity tokens in Apple's form with a substitute for Apple's key. `dwell simulate` signs in with such tokens.
// The server's APPLE_JWKS_URL must serve the public half of the substitute key. The server never uses this signer.

import Crypto
import CryptoExtras
import JourneyModel
import Secrets

package struct AppleTokenSigner: Sendable {
    private let key: _RSA.Signing.PrivateKey
    private let keyID: String
    private let clientID: String

    /// Lifetime of a token in seconds. Apple's identity tokens have the same lifetime.
    private static let secondsToUse: Int64 = 600

    /// - Parameter pem: an RSA private key.
    /// - Throws: the library's error if `pem` is not a key.
    package init(pem: String, keyID: String, clientID: String) throws {
        key = try _RSA.Signing.PrivateKey(pemRepresentation: pem)
        self.keyID = keyID
        self.clientID = clientID
    }

    /// Returns a compact JWT that is signed with RS256 (RFC 7518, section 3.3). `now` is in seconds since 1970.
    package func identityToken(subject: String, rawNonce: String, now: Int64) throws -> String {
        try CompactJWS.token(
            header: [("alg", .string("RS256")), ("kid", .string(keyID))],
            claims: [
                ("iss", .string(AppleClaims.issuers[0])), ("aud", .string(clientID)), ("sub", .string(subject)),
                ("iat", .number(String(now))), ("exp", .number(String(now + Self.secondsToUse))),
                ("nonce", .string(AppleClaims.nonceClaim(rawNonce))),
                ("jti", .string(String(UInt128.random(in: 0 ... .max), radix: 16))),
            ]
        ) { try key.signature(for: SHA256.hash(data: $0), padding: .insecurePKCS1v1_5).rawRepresentation }
        .reveal()
    }
}
