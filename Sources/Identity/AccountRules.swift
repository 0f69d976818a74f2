// The stateless rules of accounts and sign-in sessions: pure functions, called by the store inside the transaction
// that read their input. No clock and no randomness.

package import JourneyModel

package enum AccountRules {
    /// The roles that a client may choose. Others (`ops`, `admin`) are never granted on request.
    static let roles: Set<String> = [roleDefault]
    package static let roleDefault = TokenRole.driver.rawValue

    static let nameLengthMax = 200
    /// RFC 5321, section 4.5.3.1.3, less the angle brackets.
    static let emailBytesMax = 254
    /// Of `User-Agent`, in characters.
    static let clientNameLengthMax = 128
    /// Live sign-in sessions of one driver; beyond that the least recently used one is ended.
    package static let sessionsPerDriverMax = 100
    package static let devicesPerDriverMax = 100
    /// Refresh tokens of one sign-in session, including spent ones, by which reuse is detected: more than an hourly
    /// refresh makes in a session's sixty days. An older one is rejected like an unknown token.
    package static let refreshTokensPerSessionMax = 2000

    static func acceptsName(_ name: String) -> Bool {
        AccessClaims.isUsable(name, lengthMax: nameLengthMax)
    }

    /// One `@` with something on both sides, no spaces, no invisible characters. Whether the address exists cannot
    /// be known anyway.
    static func acceptsEmail(_ email: String) -> Bool {
        // By scalars: as a character, "@" followed by a combining one is not "@".
        let parts = email.unicodeScalars.split(separator: "@", omittingEmptySubsequences: false)
        let hasSpace = email.unicodeScalars.contains(where: \.properties.isWhitespace)
        return email.utf8.count <= emailBytesMax && parts.count == 2 && !parts[0].isEmpty && !parts[1].isEmpty
            && AccessClaims.isUsable(email, lengthMax: emailBytesMax) && !hasSpace
    }

    /// The stored part of a `User-Agent`: printable, and short enough for a list.
    static func clientName(_ userAgent: String?) -> String? {
        guard let userAgent else { return nil }
        let shown = userAgent.unicodeScalars.filter { AccessClaims.isUsable(String($0), lengthMax: 1) }
        let name = String(String.UnicodeScalarView(shown.prefix(clientNameLengthMax)))
        return name.isEmpty ? nil : name
    }

    /// Whether a token issued then may predate the erasure. Another service's clock may be ahead of ours by
    /// `AccessClaims.aheadSecondsMax`, so the `iat` of its older tokens may be later by as much; the whole second
    /// of the erasure counts.
    package static func isErased(issuedAt: Double, erasedAtSeconds: Int64) -> Bool {
        issuedAt < Double(erasedAtSeconds) + 1 + AccessClaims.aheadSecondsMax
    }

    /// How long a request that was admitted before its driver's erasure may still be running. Until then no account
    /// with that id is created again.
    static let erasureSettlesMilliseconds: Int64 = 60_000

    package static func isSettling(erasedAt: Moment, at now: Moment) -> Bool {
        now.milliseconds(since: erasedAt) < erasureSettlesMilliseconds
    }
}

/// A refresh token as stored, with the data of its session.
package struct StoredRefreshToken: Hashable, Sendable {
    package var expiresAt: Moment
    /// Nil: never used.
    package var spentAt: Moment?

    package init(expiresAt: Moment, spentAt: Moment?) {
        self.expiresAt = expiresAt
        self.spentAt = spentAt
    }
}

/// How long a request whose response was lost may be repeated: counted from the first attempt, by the server's
/// clock.
package enum RepeatRule {
    package static let milliseconds: Int64 = 10_000

    /// Requests queue, so one may carry an earlier time than the one before it. A clock that was set back further
    /// extends nothing.
    package static func isRepeat(of first: Moment, at now: Moment) -> Bool {
        let elapsed = now.milliseconds(since: first)
        return -milliseconds <= elapsed && elapsed <= milliseconds
    }
}

/// The result of presenting a refresh token (contract, section 6).
package enum RefreshRule: Hashable, Sendable {
    /// The successor is stored.
    case rotate
    /// The first response was lost, or two requests raced: the same successor is returned again.
    case `repeat`
    /// Two parties use the token family: someone has a copy, and the whole session ends.
    case reuse
    /// Spent a moment ago, but the successor that this key derives is not stored: the key was changed in between.
    /// The first response cannot be reproduced.
    case unrepeatable
    case expired

    /// `successor`: the token derived from this one, if it is stored.
    package static func judge(
        _ token: StoredRefreshToken, successor: StoredRefreshToken?, at now: Moment
    ) -> RefreshRule {
        guard now < token.expiresAt else { return .expired }
        guard let spentAt = token.spentAt else { return .rotate }
        guard RepeatRule.isRepeat(of: spentAt, at: now) else { return .reuse }
        guard let successor else { return .unrepeatable }
        // A client that has the successor does not present its predecessor.
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
    /// For the live code that this address requested, from this address; nil: it requested none.
    package var own: Int?
    /// For codes of this number, each from the address that requested it, within a day.
    package var ownOfNumber: Int
    /// For this number within a day from addresses that had not requested a code: in total, and from this address's
    /// network.
    package var strangers: Int
    package var strangersOfNetwork: Int
    /// For any number, within an hour, from this network, by addresses that had not requested a code.
    package var network: Int

    package init(own: Int?, ownOfNumber: Int, strangers: Int, strangersOfNetwork: Int, network: Int) {
        self.own = own
        self.ownOfNumber = ownOfNumber
        self.strangers = strangers
        self.strangersOfNetwork = strangersOfNetwork
        self.network = network
    }
}

/// Who may guess how often. Guesses are counted before they are compared, with two codes at most: the one that the
/// address requested, and the newest of the number.
///
/// Each code keeps its guesses for the address that requested it, so that others cannot use them up: the owner who
/// requests a code and enters it is admitted whatever others guess. Requests are limited (5 an hour for a number),
/// so that repeated requests gain little: after 25 wrong guesses within a day a new code is good for one guess.
/// With the defaults a number allows at most 144 such guesses a day (25, 4 more in the last full code, 115 codes of
/// one guess) and 30 by strangers: 174 guesses against two codes of a million, 1 in 2,870 a day.
package enum GuessRule {
    package static let ownMax = 5
    package static let ownOfNumberMax = 25
    package static let strangersMax = 30
    package static let strangersOfNetworkMax = 5
    package static let networkMax = 100
    package static let dayMilliseconds: Int64 = 86_400_000
    package static let hourMilliseconds: Int64 = 3_600_000

    package static func allows(_ counts: GuessCounts) -> Bool {
        if let own = counts.own { return own < (counts.ownOfNumber < ownOfNumberMax ? ownMax : 1) }
        return counts.strangers < strangersMax && counts.strangersOfNetwork < strangersOfNetworkMax
            && counts.network < networkMax
    }
}

package enum CodeRule: String, Hashable, Sendable {
    case right
    case wrong
    case expired
    case tooManyGuesses = "too_many_guesses"

    package static let lifetimeSeconds = 600

    /// - Parameter stored: the codes that the guess may match; empty when none was sent, or it was used. The same
    ///   work is done then.
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
    /// For an IPv6 /56 or an IPv4 /24.
    package var perNetwork: Int
    /// For an IPv6 /48.
    package var perSite: Int
    /// To numbers without an account that share their first six digits.
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

    /// Returns the seconds until one more code may be sent; nil: it may be sent now. `places` has one element for
    /// each limit that does not depend on whether the number is known: the time of its `limit`-th last send within
    /// the window, nil while there were fewer.
    package static func retryAfterSeconds(_ places: [Moment?], at now: Moment) -> Int64? {
        let milliseconds = places.compactMap { $0 }
            .map { windowMilliseconds - now.milliseconds(since: $0) }.max()
        guard let milliseconds else { return nil }
        return min(max(1, (milliseconds + 999) / 1000), windowMilliseconds / 1000)
    }
}
