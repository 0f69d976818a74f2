package import JourneyModel

/// The roles that this server uses. A token from another service may name other roles, which grant nothing.
package enum TokenRole: String, Hashable, Sendable, CaseIterable {
    case driver
    /// The role of a caller who may read /ops.
    case ops
    /// The role of a service that posts events for drivers and requests verification codes, for example the web's
    /// backend or a partner's server. Such a service may do nothing else.
    case service
}

/// The caller of a request. All values come from the verified access token.
package struct Caller: Hashable, Sendable {
    package var driver: DriverID
    /// The sign-in session (`sid`). Nil for a token that an operator or another service issued.
    package var signInSession: String?
    package var role: String?

    package var isService: Bool { role == TokenRole.service.rawValue }

    package init(driver: DriverID, signInSession: String? = nil, role: String? = nil) {
        self.driver = driver
        self.signInSession = signInSession
        self.role = role
    }
}

/// The result of a token look-up in memory, which verifies no signature and does not read the store.
package enum TokenVerdict: Sendable {
    case known(Caller)
    /// For `undecided`, the client gets 503. For every other reason, the client gets the same 401. Only the access log
    /// contains the reason.
    case refused(TokenRefusal)
    /// A cache miss. The closure verifies the signature or reads the store, and throws if the token is refused.
    case needsLookup(@Sendable () async throws(TokenRefusal) -> Caller)
}

/// The port by which the module API identifies the caller.
package protocol TokenVerifier: Sendable {
    /// Judges a compact JWT at `now` (whole seconds since 1970). Reads only memory. `token` may be any bytes.
    func judge(_ token: UnsafeRawBufferPointer, atSecondsSince1970 now: Int64) -> TokenVerdict
}

extension TokenVerifier {
    /// Judges the token, and throws if it is refused. On a cache miss, calls the closure of `needsLookup`.
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
    /// A claim is missing or unusable, `sub` for example.
    case claims
    /// The sign-in session is unknown or revoked, or the driver was deleted.
    case revoked
    /// The token has no `sid`. If `JWT_TRUST_EXTERNAL=false`, such a token is always refused. Otherwise it is refused
    /// only if a client wants to exchange it for a new token.
    case external
    /// The store cannot be read, so it is unknown whether the session is live. The response is 503, because clients
    /// would sign the driver out after a 401.
    case undecided
}
