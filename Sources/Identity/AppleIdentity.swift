// The verified contents of Apple's identity tokens and notifications. AppleTokenVerifier makes all checks.

/// The claims of a verified identity token (contract, section 6) that are needed to sign in.
package struct AppleIdentity: Hashable, Sendable {
    /// Apple's `sub`, which identifies the person and is the same for all apps of one team.
    package var subject: String
    /// The client id of our app, from `aud`.
    package var clientID: String
    package var email: String?
    /// Whether Apple verified the email. Only a verified email is stored in the account.
    package var isEmailVerified: Bool
    /// Whether the email is Apple's relay address.
    package var isPrivateEmail: Bool
    /// SHA-256 (32 bytes) of the token's `nonce` claim. A nonce is valid for one sign-in.
    package var nonceDigest: [UInt8]
    /// SHA-256 of the whole token. If a nonce is used again, the request counts as a repeat only if the token is the
    /// same.
    package var tokenDigest: [UInt8]
    /// The expiry (`exp`) in whole seconds since 1970, rounded up. The nonce is stored until a day after this time.
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

/// A verified notification of Apple's server (POST /apple/notifications): the `events` and the `jti` of its token.
package struct AppleServerNotification: Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        /// The person has stopped using Sign in with Apple here: `consent-revoked`.
        case consentRevoked
        /// The Apple account was deleted, and the driver's account here is deleted too: `account-delete` or
        /// `account-deleted`.
        case accountDeleted
        /// Mail to Apple's relay address is forwarded: `email-enabled`.
        case emailEnabled
        /// Mail to Apple's relay address is no longer forwarded: `email-disabled`.
        case emailDisabled
        /// A kind unknown to this release. The notification is only audited.
        case other
    }

    package var kind: Kind
    package var subject: String
    /// The notification's id. A notification is ignored if one with the same id was processed before.
    package var jti: String
    /// When the event happened, by Apple's clock, in seconds since 1970. Nil if the notification has no time.
    package var happenedAtSeconds: Int64?

    package init(kind: Kind, subject: String, jti: String, happenedAtSeconds: Int64?) {
        self.kind = kind
        self.subject = subject
        self.jti = jti
        self.happenedAtSeconds = happenedAtSeconds
    }
}
