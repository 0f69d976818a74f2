// Who Apple says is signing in: what is left of an identity token once every rule about it was met. It refuses to know
// how a token is verified.

/// The claims of a verified identity token (contract, section 6) that signing in needs.
package struct AppleIdentity: Hashable, Sendable {
    /// Apple's `sub`: the person, the same for all apps of one team.
    package var subject: String
    /// The one of our client ids that `aud` named.
    package var clientID: String
    package var email: String?
    /// Only a verified email becomes the account's.
    package var isEmailVerified: Bool
    /// Apple's relay address.
    package var isPrivateEmail: Bool
    /// SHA-256 of the token's `nonce` claim's bytes, 32 bytes: a nonce is good for one sign-in.
    package var nonceDigest: [UInt8]
    /// SHA-256 of the token itself: tells a repeat of a sign-in from another one with its nonce.
    package var tokenDigest: [UInt8]
    /// `exp`, whole seconds since 1970, rounded up: until then the nonce is remembered.
    package var expiresAtSeconds: Int64

    package init(
        subject: String, clientID: String, email: String?, isEmailVerified: Bool, isPrivateEmail: Bool,
        nonceDigest: [UInt8], tokenDigest: [UInt8], expiresAtSeconds: Int64
    ) {
        self.subject = subject
        self.clientID = clientID
        self.email = email
        self.isEmailVerified = isEmailVerified
        self.isPrivateEmail = isPrivateEmail
        self.nonceDigest = nonceDigest
        self.tokenDigest = tokenDigest
        self.expiresAtSeconds = expiresAtSeconds
    }
}

/// A verified notice of Apple's server (POST /apple/notifications): the `events` of its token and its `jti`.
package struct AppleServerNotification: Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        /// The person has stopped using Sign in with Apple here: `consent-revoked`.
        case consentRevoked
        /// The Apple account is gone, and ours with it: `account-delete` or `account-deleted`.
        case accountDeleted
        /// Mail to Apple's relay address is forwarded: `email-enabled`.
        case emailEnabled
        /// It is not: `email-disabled`.
        case emailDisabled
        /// One that Apple invented since. Audited, nothing else.
        case other
    }

    package var kind: Kind
    package var subject: String
    /// The notice's own name: the same one twice is one.
    package var jti: String
    /// When it happened, by Apple's clock; nil when the notice does not say.
    package var happenedAtSeconds: Int64?

    package init(kind: Kind, subject: String, jti: String, happenedAtSeconds: Int64?) {
        self.kind = kind
        self.subject = subject
        self.jti = jti
        self.happenedAtSeconds = happenedAtSeconds
    }
}
