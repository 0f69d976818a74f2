package import JourneyModel

/// The author of a request, from its verified token.
package struct Caller: Hashable, Sendable {
    package var driver: DriverID
    /// The sign-in session (`sid`); nil for a token that an operator or another service minted.
    package var signInSession: String?
    package var role: String?

    package init(driver: DriverID, signInSession: String? = nil, role: String? = nil) {
        self.driver = driver
        self.signInSession = signInSession
        self.role = role
    }
}

/// The port by which API authenticates a caller.
package protocol TokenVerifier: Sendable {
    /// Verifies a compact JWT at that time (whole seconds since 1970). Throws a separate error for every reason to
    /// reject it; the reasons are for the log and the audit, the client gets the same 401 for all.
    func verify(_ token: String, atSecondsSince1970 now: Int64) async throws(TokenRefusal) -> Caller

    /// The same from memory only; nil on a cache miss, whatever the bytes are. Does not wait.
    func verifyAtOnce(_ token: UnsafeRawBufferPointer, atSecondsSince1970 now: Int64) throws(TokenRefusal) -> Caller?
}

extension TokenVerifier {
    package func verifyAtOnce(
        _ token: UnsafeRawBufferPointer, atSecondsSince1970 now: Int64
    ) throws(TokenRefusal) -> Caller? { nil }
}

package enum TokenRefusal: Error, Hashable, Sendable {
    case malformed
    case wrongAlgorithm
    case wrongSignature
    case expired
    case notYetValid
    case wrongIssuer
    case wrongAudience
    /// A member is missing or unusable, `sub` for example.
    case claims
    /// The sign-in session is unknown or revoked, or the driver deleted.
    case revoked
    /// `JWT_TRUST_EXTERNAL=false` and the token has no `sid`.
    case external
    /// Whether the session is live cannot be determined now: the token may be valid. Not a 401, which would sign a
    /// driver out because a disk is full, but a 503.
    case undecided
}
