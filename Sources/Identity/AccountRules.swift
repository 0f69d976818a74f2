// The stateless rules of accounts and sign-in sessions: pure functions without a clock or randomness. The store calls
// them inside the transaction that has read their input.

package import JourneyModel

package enum AccountRules {
    /// The roles that a client may ask for when it signs in. No other role (`ops`, `admin`) is ever granted on request.
    static let roles: Set<String> = [roleDefault]
    package static let roleDefault = TokenRole.driver.rawValue

    static let nameLengthMax = 200
    /// Maximum length of an email address in bytes. RFC 5321, section 4.5.3.1.3, limits a path to 256 bytes, which
    /// include two angle brackets.
    static let emailBytesMax = 254
    /// Maximum length of the stored part of `User-Agent`, in Unicode scalars.
    static let clientNameLengthMax = 128
    /// Maximum number of live sign-in sessions of one driver. At this limit, a new sign-in ends the driver's least
    /// recently used session.
    package static let sessionsPerDriverMax = 100
    package static let devicesPerDriverMax = 100
    /// Maximum number of stored refresh tokens of one sign-in session. Spent tokens are stored too, so that their reuse
    /// is detected. A session lasts sixty days and needs 1440 tokens if it is refreshed every hour.
    ///
    /// Beyond the limit, the oldest spent tokens are deleted. A deleted token is rejected like an unknown token.
    package static let refreshTokensPerSessionMax = 2000

    static func acceptsName(_ name: String) -> Bool {
        AccessClaims.isUsable(name, lengthMax: nameLengthMax)
    }

    /// Returns whether the email has one `@` with text on both sides, no white space and no control characters.
    static func acceptsEmail(_ email: String) -> Bool {
        // An "@" followed by a combining scalar is one Character, which differs from "@". The text is therefore split
        // by Unicode scalars.
        let parts = email.unicodeScalars.split(separator: "@", omittingEmptySubsequences: false)
        let hasSpace = email.unicodeScalars.contains(where: \.properties.isWhitespace)
        return email.utf8.count <= emailBytesMax && parts.count == 2 && !parts[0].isEmpty && !parts[1].isEmpty
            && AccessClaims.isUsable(email, lengthMax: emailBytesMax) && !hasSpace
    }

    static func clientName(_ userAgent: String?) -> String? {
        guard let userAgent else { return nil }
        let shown = userAgent.unicodeScalars.filter { AccessClaims.isUsable(String($0), lengthMax: 1) }
        let name = String(String.UnicodeScalarView(shown.prefix(clientNameLengthMax)))
        return name.isEmpty ? nil : name
    }

    /// Returns whether a token with this `iat` may be older than the erasure. The `iat` of such a token may be later
    /// than `erasedAtSeconds`, for two reasons:
    /// - The time of the erasure is rounded down to a whole second.
    /// - The clock of another service may be ahead of ours by up to `AccessClaims.aheadSecondsMax`.
    package static func isErased(issuedAt: Double, erasedAtSeconds: Int64) -> Bool {
        issuedAt < Double(erasedAtSeconds) + 1 + AccessClaims.aheadSecondsMax
    }

    /// The time after an erasure during which no account with the same id is created. A request that was admitted
    /// before the erasure may still be running then, and must not create the account again.
    package static let erasureSettlesMilliseconds: Int64 = 60_000

    /// Returns whether `now` is within `erasureSettlesMilliseconds` after the erasure. If `erasedAt` is later than
    /// `ServerClocks.latest(at: now)`, the clock was set back, and the result is false.
    package static func isSettling(erasedAt: Moment, at now: Moment) -> Bool {
        erasedAt <= ServerClocks.latest(at: now) && now.milliseconds(since: erasedAt) < erasureSettlesMilliseconds
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

/// The rule for a request that a client repeats because the response was lost. The server's clock measures the time
/// since the first attempt.
package enum RepeatRule {
    package static let milliseconds: Int64 = 10_000

    /// Returns whether `now` is at most `milliseconds` before or after `first`. Queued requests can be processed out of
    /// order, so `now` may be before `first`.
    ///
    /// If `now` is more than `milliseconds` before `first`, the clock was set back, and the result is false. If it were
    /// true, all requests would count as repeats until the clock reaches `first`.
    package static func isRepeat(of first: Moment, at now: Moment) -> Bool {
        let elapsed = now.milliseconds(since: first)
        return -milliseconds <= elapsed && elapsed <= milliseconds
    }
}

/// The clocks of the servers that use the same database.
package enum ServerClocks {
    /// The maximum difference between two of these clocks, in milliseconds.
    package static let differenceMillisecondsMax: Int64 = 60_000

    /// Returns the latest time that any server of the database can have stored by `now`. If a stored time is later than
    /// this, a clock was set back. Callers ignore such a stored time, and do not wait until the clock reaches it.
    package static func latest(at now: Moment) -> Moment { now.advanced(byMilliseconds: differenceMillisecondsMax) }
}

/// The result of presenting a refresh token (contract, section 6).
package enum RefreshRule: Hashable, Sendable {
    /// The token was unused. The token is marked as spent, and its successor is stored.
    case rotate
    /// The token was spent within the time of RepeatRule. The first response was lost, or the client sent two requests
    /// at the same time. The client gets the same successor again.
    case `repeat`
    /// A spent token was presented after the time of RepeatRule, or after its successor was spent. This shows that two
    /// clients have the token, one of them a stolen copy. The whole session ends.
    case reuse
    /// The request is a repeat, but the successor cannot be returned again. The successor is derived with the signing
    /// key, which was changed after the first request.
    case unrepeatable
    case expired

    /// Judges a refresh token. `successor` is the stored token that is derived from `token`; nil if none is stored.
    package static func judge(
        _ token: StoredRefreshToken, successor: StoredRefreshToken?, at now: Moment
    ) -> RefreshRule {
        let isExpired = token.expiresAt <= now
        guard let spentAt = token.spentAt else { return isExpired ? .expired : .rotate }
        // A repeat gets the result of the first request, even if the token has expired since then.
        guard RepeatRule.isRepeat(of: spentAt, at: now) else { return isExpired ? .expired : .reuse }
        guard let successor else { return .unrepeatable }
        // If the successor is spent, the client has received the first response, and has no reason to present the old
        // token. The old token therefore comes from a second client.
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

/// The numbers of wrong guesses so far. They decide whether an address may guess once more at a phone number's code.
package struct GuessCounts: Hashable, Sendable {
    /// Wrong guesses from this address at its own code, which it requested for this phone number. Nil if the address
    /// requested no such code in the last two code lifetimes. In that case, the limits of `others`, `othersInNetwork`
    /// and `network` apply.
    package var own: Int?
    /// Wrong guesses within a day at codes of this phone number, from addresses that had requested a code.
    package var ownOfNumber: Int
    /// Wrong guesses within a day at codes of this phone number, from addresses that had not requested a code.
    package var others: Int
    /// The number of guesses in `others` that came from this address's network: an IPv6 /48 or an IPv4 /24.
    package var othersInNetwork: Int
    /// Wrong guesses within an hour at codes of any phone number, from addresses in this network that had not requested
    /// a code.
    package var network: Int

    package init(own: Int?, ownOfNumber: Int, others: Int, othersInNetwork: Int, network: Int) {
        self.own = own
        self.ownOfNumber = ownOfNumber
        self.others = others
        self.othersInNetwork = othersInNetwork
        self.network = network
    }
}

/// The limits on wrong guesses of a code, checked before a guess is compared. A guess is compared with at most two
/// codes of the phone number: the newest code, and the newest that the guessing address requested.
///
/// An address that requested a code has a limit of its own, which guesses from other addresses do not use up. The owner
/// of the phone number can therefore always request a code and sign in.
///
/// An attacker gains little by requesting codes. A phone number gets at most 5 codes an hour. After 25 wrong guesses
/// within a day, each new code allows only one guess.
///
/// With the default limits, at most 175 guesses are compared for one phone number within 24 hours:
///
/// - 25 guesses from the addresses that requested five codes just before the 24 hours. These guesses reach the daily
///   limit (`ownOfNumberMax`).
/// - 120 guesses from the addresses that requested the 120 codes sent within the 24 hours. Each code allows only one
///   guess, because the daily limit is reached.
/// - 30 guesses from other addresses (`othersMax`).
///
/// Each guess is compared with at most two of the million possible codes. An attacker's chance to guess a code is
/// therefore 1 in 2,850 a day.
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

    /// - Parameter stored: the codes that the guess may match; empty if no code was sent or the code was used. If there
    ///   are fewer than two codes, dummy codes are compared in their place. The response time therefore does not reveal
    ///   whether there are codes.
    package static func judge(
        _ stored: [StoredCode], guess digest: [UInt8], isAllowed: Bool, at now: Moment
    ) -> CodeRule {
        guard isAllowed else { return .tooManyGuesses }
        let none = StoredCode(digest: [UInt8](repeating: 0, count: 32), expiresAt: now)
        let codes = stored.prefix(2) + [StoredCode](repeating: none, count: max(0, 2 - stored.count))
        let right = codes.map { $0.digest.equalsInConstantTime(digest) }
        let found = zip(stored, right).filter { $0.1 }.map { $0.0 }
        guard !found.isEmpty else { return .wrong }
        let latest = latestExpiry(at: now)
        return found.contains { now < $0.expiresAt && $0.expiresAt <= latest } ? .right : .expired
    }

    /// Returns the latest possible expiry of a code that was issued by `now`. A later expiry shows that the clock was
    /// set back. The code counts as expired, because it would otherwise be valid far too long.
    package static func latestExpiry(at now: Moment) -> Moment {
        ServerClocks.latest(at: now).advanced(bySeconds: lifetimeSeconds)
    }
}

/// The limits on codes sent within an hour; 0 means no limit.
package struct CodeSendLimits: Hashable, Sendable {
    package var perNumber: Int
    package var perAddress: Int
    /// Limit for an IPv6 /56 or an IPv4 /24.
    package var perNetwork: Int
    /// Limit for an IPv6 /48.
    package var perSite: Int
    /// Limit for the codes to all phone numbers without an account that begin with the same six digits.
    package var perPrefix: Int
    package var total: Int
    /// Percentage of `total` that is reserved for phone numbers with an account.
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

    /// The part of `total` that is available to phone numbers without an account; 0 means no limit.
    package var newcomers: Int { total > 0 ? max(total - total * knownPercent / 100, 1) : 0 }

    /// Returns the seconds until one more code may be sent, or nil if it may be sent now.
    ///
    /// - Parameter limitingSendTimes: one element for each limit that applies to all phone numbers. For a limit of n
    ///   codes, the element is the time of the n-th most recent send in the window. The element is nil if the window
    ///   has fewer than n sends, or if n is 0.
    package static func retryAfterSeconds(_ limitingSendTimes: [Moment?], at now: Moment) -> Int64? {
        let milliseconds = limitingSendTimes.compactMap { $0 }
            .map { windowMilliseconds - now.milliseconds(since: $0) }.max()
        guard let milliseconds else { return nil }
        return min(max(1, (milliseconds + 999) / 1000), windowMilliseconds / 1000)
    }
}
