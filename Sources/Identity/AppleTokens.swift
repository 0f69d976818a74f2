// What API asks about tokens that Apple signed, and why one is refused. It refuses to know how they are verified
// (AppleTokenVerifier) and where Apple's keys are read.

/// The port by which API learns who an identity token is about, and what a notice says. Implemented in this module; API
/// sees this alone, so that its tests can script it.
package protocol AppleTokenVerifying: Sendable {
    /// The `identity_token` of a sign-in, with the raw nonce of the same request. Whether the nonce was used before is
    /// the store's to say. Waits for Apple's key set at most as long as one fetch may take.
    func identity(
        of token: String, rawNonce: String, atSecondsSince1970 now: Int64
    ) async throws(AppleTokenRefusal) -> AppleIdentity

    /// The `payload` of POST /apple/notifications.
    func notice(of token: String, atSecondsSince1970 now: Int64) async throws(AppleTokenRefusal)
        -> AppleServerNotification
}

package enum AppleTokenRefusal: Error, Hashable, Sendable {
    /// 401, one answer for all reasons. The reason's raw value is for the audit.
    case refused(Reason)
    /// 503 with `Retry-After`: Apple's key set cannot be read, and without it nobody can tell. The token may be good.
    case keysUnavailable(retryAfterSeconds: Int64)

    package enum Reason: String, CaseIterable, Hashable, Sendable {
        /// No compact JWS of strict JSON, or longer than any of Apple's.
        case malformed
        case wrongAlgorithm = "wrong_algorithm"
        /// The key set has no key of that `kid`.
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
