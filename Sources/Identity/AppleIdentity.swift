// The person that Apple identifies: the result of an identity token that passed every check. Verification is
// elsewhere.

/// The claims of a verified identity token (contract, section 6) that signing in needs.
package struct AppleIdentity: Hashable, Sendable {
    /// Apple's `sub`: the person, the same for all apps of one team.
    package var subject: String
    /// Our client id that `aud` named.
    package var clientID: String
    package var email: String?
    /// Only a verified email becomes the account's.
    package var isEmailVerified: Bool
    /// Apple's relay address.
    package var isPrivateEmail: Bool
    /// SHA-256 of the token's `nonce` claim's bytes, 32 bytes: a nonce is valid for one sign-in.
    package var nonceDigest: [UInt8]
    /// SHA-256 of the token itself: distinguishes a repeat of a sign-in from another sign-in with its nonce.
    package var tokenDigest: [UInt8]
    /// `exp`, whole seconds since 1970, rounded up: the nonce is remembered until then.
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

/// A verified notification of Apple's server (POST /apple/notifications): the `events` of its token and its `jti`.
package struct AppleServerNotification: Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        /// The person has stopped using Sign in with Apple here: `consent-revoked`.
        case consentRevoked
        /// The Apple account is deleted, and with it ours: `account-delete` or `account-deleted`.
        case accountDeleted
        /// Mail to Apple's relay address is forwarded: `email-enabled`.
        case emailEnabled
        /// Mail to Apple's relay address is no longer forwarded: `email-disabled`.
        case emailDisabled
        /// A kind that Apple has introduced since. Only audited.
        case other
    }

    package var kind: Kind
    package var subject: String
    /// The notification's id; a repeated one is ignored.
    package var jti: String
    /// When it happened, by Apple's clock; nil when absent.
    package var happenedAtSeconds: Int64?

    package init(kind: Kind, subject: String, jti: String, happenedAtSeconds: Int64?) {
        self.kind = kind
        self.subject = subject
        self.jti = jti
        self.happenedAtSeconds = happenedAtSeconds
    }
}
