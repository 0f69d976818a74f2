// The port by which the module API verifies tokens signed by Apple, and the reasons to reject such a token.
// AppleTokenVerifier implements the port. AppleKeySet fetches Apple's keys.

/// The verification of identity tokens and server notifications. The module API uses only this protocol, so that its
/// tests can replace the implementation.
package protocol AppleTokenVerifying: Sendable {
    /// Verifies the `identity_token` of a sign-in, with the raw nonce of the same request. Only the store checks
    /// whether the nonce was used before. May wait for one fetch of Apple's key set, which has a time limit.
    func identity(
        of token: String, rawNonce: String, atSecondsSince1970 now: Int64
    ) async throws(AppleTokenRefusal) -> AppleIdentity

    /// Verifies the `payload` of POST /apple/notifications.
    func notice(of token: String, atSecondsSince1970 now: Int64) async throws(AppleTokenRefusal)
        -> AppleServerNotification
}

package enum AppleTokenRefusal: Error, Hashable, Sendable {
    /// 401, with the same response for all reasons. The raw value of the reason is written to the audit.
    case refused(Reason)
    /// 503 with `Retry-After`: Apple's key set cannot be read, so the token cannot be checked. The token may be valid.
    case keysUnavailable(retryAfterSeconds: Int64)

    package enum Reason: String, CaseIterable, Hashable, Sendable {
        /// The token is not a compact JWS with strict JSON, or is longer than the limit (`SignedToken.bytesMax`).
        case malformed
        case wrongAlgorithm = "wrong_algorithm"
        /// The key set has no key with that `kid`.
        case unknownKey = "unknown_key"
        case wrongSignature = "wrong_signature"
        case wrongIssuer = "wrong_issuer"
        case wrongAudience = "wrong_audience"
        case expired
        case notYetValid = "not_yet_valid"
        case wrongNonce = "wrong_nonce"
        /// Another claim is missing or unusable, `sub` for example.
        case claims
    }
}
