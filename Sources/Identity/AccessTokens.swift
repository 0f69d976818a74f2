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

/// What is known of a token without waiting.
package enum TokenVerdict: Sendable {
    case known(Caller)
    /// The reasons are for the log and the audit, the client hears one 401.
    case refused(TokenRefusal)
    /// Memory does not decide: its signature has to be verified, or the store asked. The closure does that, and throws for
    /// every reason there is to refuse it.
    case needsLookup(@Sendable () async throws(TokenRefusal) -> Caller)
}

/// The port by which API asks who is calling.
package protocol TokenVerifier: Sendable {
    /// Judges a compact JWT at that time (whole seconds since 1970), from memory. Any bytes are fine.
    func judge(_ token: UnsafeRawBufferPointer, atSecondsSince1970 now: Int64) -> TokenVerdict
}

extension TokenVerifier {
    /// Judges it and waits for the look-up where one is needed.
    package func verify(_ token: String, atSecondsSince1970 now: Int64) async throws(TokenRefusal) -> Caller {
        var token = token
        let verdict = token.withUTF8 { judge(UnsafeRawBufferPointer($0), atSecondsSince1970: now) }
        switch verdict {
        case .known(let caller): return caller
        case .refused(let refusal): throw refusal
        case .needsLookup(let lookUp): return try await lookUp()
        }
    }
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
