// The stateless rules of accounts and sign-in sessions: pure functions, called by the store inside the transaction
// that read their input. No clock and no randomness.

package import JourneyModel

package enum AccountRules {
    /// The roles that a client may choose. Other roles (`ops`, `admin`) are never granted on request.
    static let roles: Set<String> = [roleDefault]
    package static let roleDefault = TokenRole.driver.rawValue

    static let nameLengthMax = 200
    /// Maximum path length of RFC 5321, section 4.5.3.1.3, without the angle brackets.
    static let emailBytesMax = 254
    /// Maximum length of the stored part of `User-Agent`, in characters.
    static let clientNameLengthMax = 128
    /// Maximum number of live sign-in sessions of one driver. A further sign-in ends the least recently used one.
    package static let sessionsPerDriverMax = 100
    package static let devicesPerDriverMax = 100
    /// Maximum number of stored refresh tokens of one sign-in session, including the spent ones by which reuse is
    /// detected. More than hourly refreshes produce in a session's sixty days. An older token is rejected like an
    /// unknown one.
    package static let refreshTokensPerSessionMax = 2000

    static func acceptsName(_ name: String) -> Bool {
        AccessClaims.isUsable(name, lengthMax: nameLengthMax)
    }

    /// Returns whether the email has one `@` with text on both sides, no spaces and no invisible characters. Whether
    /// the address exists cannot be checked.
    static func acceptsEmail(_ email: String) -> Bool {
        // Split by Unicode scalars: "@" with a combining scalar after it is a different Character.
        let parts = email.unicodeScalars.split(separator: "@", omittingEmptySubsequences: false)
        let hasSpace = email.unicodeScalars.contains(where: \.properties.isWhitespace)
        return email.utf8.count <= emailBytesMax && parts.count == 2 && !parts[0].isEmpty && !parts[1].isEmpty
            && AccessClaims.isUsable(email, lengthMax: emailBytesMax) && !hasSpace
    }

    /// Returns the part of a `User-Agent` that is stored: printable characters, at most `clientNameLengthMax`.
    static func clientName(_ userAgent: String?) -> String? {
        guard let userAgent else { return nil }
        let shown = userAgent.unicodeScalars.filter { AccessClaims.isUsable(String($0), lengthMax: 1) }
        let name = String(String.UnicodeScalarView(shown.prefix(clientNameLengthMax)))
        return name.isEmpty ? nil : name
    }

    /// Returns whether a token issued at `issuedAt` may be older than the erasure. The `iat` of an older token may be
    /// later than the erasure, by up to the whole second of the erasure and `AccessClaims.aheadSecondsMax`, because
    /// another service's clock may be ahead of ours.
    package static func isErased(issuedAt: Double, erasedAtSeconds: Int64) -> Bool {
        issuedAt < Double(erasedAtSeconds) + 1 + AccessClaims.aheadSecondsMax
    }

    /// How long a request admitted before its driver's erasure may still be running. During this time no account with
    /// the same id is created.
    static let erasureSettlesMilliseconds: Int64 = 60_000

    package static func isSettling(erasedAt: Moment, at now: Moment) -> Bool {
        now.milliseconds(since: erasedAt) < erasureSettlesMilliseconds
    }
}

/// A refresh token as stored.
package struct StoredRefreshToken: Hashable, Sendable {
    package var expiresAt: Moment
    /// When the token was used; nil if never.
    package var spentAt: Moment?

    package init(expiresAt: Moment, spentAt: Moment?) {
        self.expiresAt = expiresAt
        self.spentAt = spentAt
    }
}

/// How long a client may repeat a request whose response was lost, counted from the first attempt by the server's
/// clock.
package enum RepeatRule {
    package static let milliseconds: Int64 = 10_000

    /// Returns whether `now` is within the limit before or after `first`. It may be before because queued requests can
    /// be processed out of order. A clock that was set back further does not extend the limit.
    package static func isRepeat(of first: Moment, at now: Moment) -> Bool {
        let elapsed = now.milliseconds(since: first)
        return -milliseconds <= elapsed && elapsed <= milliseconds
    }
}

/// The result of presenting a refresh token (contract, section 6).
package enum RefreshRule: Hashable, Sendable {
    /// The token was unused. It is spent, and its successor is stored.
    case rotate
    /// The first response was lost, or two requests raced. The successor from the first request is returned again.
    case `repeat`
    /// Two clients use tokens of the same session, so one of them has a stolen copy. The whole session ends.
    case reuse
    /// Spent a moment ago, but the successor derived with the current key is not stored, because the key was changed in
    /// between. The first response cannot be reproduced.
    case unrepeatable
    case expired

    /// Judges a refresh token. `successor` is the token derived from it, if stored.
    package static func judge(
        _ token: StoredRefreshToken, successor: StoredRefreshToken?, at now: Moment
    ) -> RefreshRule {
        guard now < token.expiresAt else { return .expired }
        guard let spentAt = token.spentAt else { return .rotate }
        guard RepeatRule.isRepeat(of: spentAt, at: now) else { return .reuse }
        guard let successor else { return .unrepeatable }
        // A client that has used the successor has no reason to present its predecessor.
        return successor.spentAt == nil ? .repeat : .reuse
    }
}

/// A one-time code as stored.
package struct StoredCode: Hashable, Sendable {
    package var digest: [UInt8]
    package var expiresAt: Moment

    package init(digest: [UInt8], expiresAt: Moment) {
        self.digest = digest
        self.expiresAt = expiresAt
    }
}

/// Wrong guesses so far.
package struct GuessCounts: Hashable, Sendable {
    /// For the live code that this address requested, from this address; nil if it requested none.
    package var own: Int?
    /// For this number's codes within a day, counting only guesses from the address that requested the code.
    package var ownOfNumber: Int
    /// For this number within a day, from addresses that had not requested a code.
    package var others: Int
    package var othersInNetwork: Int
    /// For any number within an hour, from this network, by addresses that had not requested a code.
    package var network: Int

    package init(own: Int?, ownOfNumber: Int, others: Int, othersInNetwork: Int, network: Int) {
        self.own = own
        self.ownOfNumber = ownOfNumber
        self.others = others
        self.othersInNetwork = othersInNetwork
        self.network = network
    }
}

/// How many wrong guesses of a code are allowed. The limit is checked before a guess is compared. A guess is compared
/// with two codes at most: the one that the address requested, and the newest of the number.
///
/// Guesses from the address that requested a code are counted separately, so that others cannot use them up: the owner
/// of the number can request a code and sign in with it whatever others guess. Requests are limited (5 an hour for a
/// number), so repeated requests gain an attacker little: after 25 wrong guesses within a day, each new code allows
/// only one guess. With the defaults, a number allows at most 144 guesses a day from requesting addresses (25, 4 more
/// in the last full code, 115 codes of one guess) and 30 from others: 174 guesses against two codes of a million, 1 in
/// 2,870 a day.
package enum GuessRule {
    package static let ownMax = 5
    package static let ownOfNumberMax = 25
    package static let othersMax = 30
    package static let othersInNetworkMax = 5
    package static let networkMax = 100
    package static let dayMilliseconds: Int64 = 86_400_000
    package static let hourMilliseconds: Int64 = 3_600_000

    package static func allows(_ counts: GuessCounts) -> Bool {
        if let own = counts.own { return own < (counts.ownOfNumber < ownOfNumberMax ? ownMax : 1) }
        return counts.others < othersMax && counts.othersInNetwork < othersInNetworkMax
            && counts.network < networkMax
    }
}

package enum CodeRule: String, Hashable, Sendable {
    case right
    case wrong
    case expired
    case tooManyGuesses = "too_many_guesses"

    package static let lifetimeSeconds = 600

    /// - Parameter stored: the codes that the guess may match. If empty (no code was sent, or it was used), the same
    ///   work is done, so that the time taken reveals nothing.
    package static func judge(
        _ stored: [StoredCode], guess digest: [UInt8], isAllowed: Bool, at now: Moment
    ) -> CodeRule {
        guard isAllowed else { return .tooManyGuesses }
        let none = StoredCode(digest: [UInt8](repeating: 0, count: 32), expiresAt: now)
        let codes = stored.prefix(2) + [StoredCode](repeating: none, count: max(0, 2 - stored.count))
        let right = codes.map { $0.digest.equalsInConstantTime(digest) }
        let found = zip(stored, right).filter { $0.1 }.map { $0.0 }
        guard !found.isEmpty else { return .wrong }
        return found.contains { now < $0.expiresAt } ? .right : .expired
    }
}

/// How many codes may be sent within an hour; 0 means no limit.
package struct CodeSendLimits: Hashable, Sendable {
    package var perNumber: Int
    package var perAddress: Int
    /// Limit for an IPv6 /56 or an IPv4 /24.
    package var perNetwork: Int
    /// Limit for an IPv6 /48.
    package var perSite: Int
    /// Limit for all numbers without an account that share the first six digits.
    package var perPrefix: Int
    package var total: Int
    /// Percentage of `total` reserved for numbers that belong to an account.
    package var knownPercent: Int

    package static let windowMilliseconds: Int64 = 3_600_000

    package init(
        perNumber: Int = 5, perAddress: Int = 20, perNetwork: Int = 60, perSite: Int = 100, perPrefix: Int = 200,
        total: Int = 1000, knownPercent: Int = 30
    ) {
        self.perNumber = perNumber
        self.perAddress = perAddress
        self.perNetwork = perNetwork
        self.perSite = perSite
        self.perPrefix = perPrefix
        self.total = total
        self.knownPercent = knownPercent
    }

    /// The part of `total` available to numbers without an account; 0 means no limit.
    package var newcomers: Int { total > 0 ? max(total - total * knownPercent / 100, 1) : 0 }

    /// Returns the seconds until one more code may be sent; nil if it may be sent now. `limitingSendTimes` has one
    /// element for each limit that applies to all numbers, with or without an account. An element is the time of the
    /// send that used up the limit (the `limit`-th last within the window), or nil while there were fewer sends.
    package static func retryAfterSeconds(_ limitingSendTimes: [Moment?], at now: Moment) -> Int64? {
        let milliseconds = limitingSendTimes.compactMap { $0 }
            .map { windowMilliseconds - now.milliseconds(since: $0) }.max()
        guard let milliseconds else { return nil }
        return min(max(1, (milliseconds + 999) / 1000), windowMilliseconds / 1000)
    }
}
