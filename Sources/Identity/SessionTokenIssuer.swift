// Makes the tokens of a sign-in: identifiers, secrets and expiry times. The callers decide which users get tokens.

import JourneyModel
import Secrets

/// Lifetimes of tokens.
package struct TokenLifetimes: Hashable, Sendable {
    package var accessSeconds: Int64
    package var refreshSeconds: Int64
    /// Lifetime of an access token from the v1 sign-in routes.
    package var v1AccessSeconds: Int64
    /// Lifetime of a single token.
    package var legacySeconds: Int64

    package init(
        accessSeconds: Int64 = 3600, v1AccessSeconds: Int64 = 86_400, refreshDays: Int64 = 60, legacyDays: Int64 = 30
    ) {
        self.accessSeconds = accessSeconds
        self.v1AccessSeconds = v1AccessSeconds
        refreshSeconds = refreshDays * 86_400
        legacySeconds = legacyDays * 86_400
    }

    /// How long after its expiry a single token can still be exchanged for a new one (contract, section 6).
    static let legacyRenewalSeconds: Int64 = 30 * 86_400

    func accessSeconds(for client: PairClient) -> Int64 {
        switch client {
        case .current: accessSeconds
        case .v1: v1AccessSeconds
        }
    }
}

/// The kind of client that gets a token pair. The kind determines the lifetime of the access token, because not every
/// app can renew an expired access token at once.
package enum PairClient: Hashable, Sendable {
    /// An app that can renew its pair whenever needed.
    case current
    /// A shipped v1 app. Its web view signs in and renews the tokens. Its native part posts events with the last access
    /// token that it got from the web view.
    ///
    /// A suspended web view cannot renew the token, but the native part continues to post events. The token must
    /// therefore be valid for longer.
    case v1
}

package struct SessionTokenIssuer: Sendable {
    private let issuer: AccessTokenIssuer
    private let lifetimes: TokenLifetimes
    let derived: DerivedTokens

    package init(issuer: AccessTokenIssuer, lifetimes: TokenLifetimes, derived: DerivedTokens) {
        self.issuer = issuer
        self.lifetimes = lifetimes
        self.derived = derived
    }

    func newSignIn(
        _ kind: SignInKind, by method: SignInMethod, sid: String = RandomID.text(prefix: "sid_"),
        refreshToken: RefreshToken?, from origin: RequestOrigin
    ) -> NewSignIn {
        NewSignIn(
            sid: sid, kind: kind, method: method,
            clientName: AccountRules.clientName(origin.userAgent),
            expiresAt: kind == .pair ? refreshExpiry(at: origin.at) : legacyExpiry(at: origin.at),
            refreshToken: refreshToken.map { newRefreshToken($0, at: origin.at) },
            newDriver: DriverID(RandomID.text(prefix: "drv_")), origin: origin)
    }

    func newRefreshToken(_ token: RefreshToken, at now: Moment) -> NewRefreshToken {
        NewRefreshToken(digest: token.digest, expiresAt: refreshExpiry(at: now))
    }

    /// A refresh token never expires before the access token that is issued together with it.
    private func refreshExpiry(at now: Moment) -> Moment {
        let seconds = max(lifetimes.refreshSeconds, lifetimes.accessSeconds, lifetimes.v1AccessSeconds)
        return now.advanced(byMilliseconds: seconds * 1000)
    }

    func legacyExpiry(at now: Moment) -> Moment {
        now.advanced(byMilliseconds: (lifetimes.legacySeconds + TokenLifetimes.legacyRenewalSeconds) * 1000)
    }

    func pair(
        of user: User, sid: String, refreshToken: RefreshToken, for client: PairClient, at now: Moment
    ) async throws(AccountFailure) -> TokenPair {
        let seconds = lifetimes.accessSeconds(for: client)
        let access = try await accessToken(of: user, sid: sid, seconds: seconds, at: now)
        return TokenPair(
            accessToken: access, refreshToken: refreshToken.text, expiresInSeconds: seconds, user: user)
    }

    func singleToken(of user: User, sid: String, at now: Moment) async throws(AccountFailure) -> SingleToken {
        SingleToken(
            token: try await accessToken(of: user, sid: sid, seconds: lifetimes.legacySeconds, at: now), user: user)
    }

    private func accessToken(
        of user: User, sid: String, seconds: Int64, at now: Moment
    ) async throws(AccountFailure) -> Secret<String> {
        do {
            return Secret(
                try await issuer.mint(
                    driver: user.id, sid: sid, role: user.role, ttlSeconds: seconds,
                    now: now.millisecondsSinceEpoch / 1000))
        } catch {
            throw .unknown("no access token could be signed")
        }
    }
}

/// A refresh token: 256 bits in base64url. The text is sent to the client, and the digest is stored.
package struct RefreshToken: Sendable {
    let text: Secret<String>
    let digest: [UInt8]

    init() { self.init(bytes: (0..<32).map { _ in UInt8.random(in: 0 ... .max) }) }

    init(bytes: [UInt8]) {
        let text = Base64URL.text(of: bytes)
        self.text = Secret(text)
        digest = plainDigest(text)
    }
}

package enum RandomID {
    /// Returns the prefix, followed by 130 random bits. The bits are written as 26 lower-case characters of the base32
    /// alphabet (RFC 4648, section 6).
    package static func text(prefix: String) -> String {
        text(prefix: prefix, bytes: (0..<26).map { _ in UInt8.random(in: 0 ... .max) })
    }

    /// Returns the prefix and 26 characters, each from the lower five bits of one byte.
    static func text(prefix: String, bytes: [UInt8]) -> String {
        let letters = Array("abcdefghijklmnopqrstuvwxyz234567".unicodeScalars)
        var text = prefix
        for byte in bytes.prefix(26) { text.unicodeScalars.append(letters[Int(byte & 31)]) }
        return text
    }
}
