// The rules of accounts and sign-in sessions that need no state: pure functions, called by the store inside the
// transaction that read what they judge. No time is read here and nothing is random.

package import JourneyModel

package enum AccountRules {
    /// What a client may call itself. Everything else (`ops`, `admin`) is not given by asking for it.
    static let roles: Set<String> = [roleDefault]
    package static let roleDefault = "driver"

    static let nameLengthMax = 200
    /// RFC 5321, section 4.5.3.1.3, less the angle brackets.
    static let emailBytesMax = 254
    /// Of `User-Agent`, in characters.
    static let clientNameLengthMax = 128
    /// Live sign-in sessions of one driver; the one used longest ago makes room.
    package static let sessionsPerDriverMax = 100
    package static let devicesPerDriverMax = 100
    /// Of one sign-in session, the spent ones included, by which a reuse is known: more than an hourly refresh makes in the
    /// sixty days that one lives. An older one is refused like any that is unknown.
    package static let refreshTokensPerSessionMax = 2000

    static func acceptsName(_ name: String) -> Bool {
        AccessClaims.isUsable(name, lengthMax: nameLengthMax)
    }

    /// One `@` with something on both sides, no spaces, nothing invisible. Whether it is somebody's is not known
    /// anyway.
    static func acceptsEmail(_ email: String) -> Bool {
        let parts = email.split(separator: "@", omittingEmptySubsequences: false)
        return email.utf8.count <= emailBytesMax && parts.count == 2 && !parts[0].isEmpty && !parts[1].isEmpty
            && AccessClaims.isUsable(email, lengthMax: emailBytesMax) && !email.contains(where: \.isWhitespace)
    }

    /// What is kept of a `User-Agent`: printable, and not too long to be shown in a list.
    static func clientName(_ userAgent: String?) -> String? {
        guard let userAgent else { return nil }
        let shown = userAgent.unicodeScalars.filter { AccessClaims.isUsable(String($0), lengthMax: 1) }
        let name = String(String.UnicodeScalarView(shown.prefix(clientNameLengthMax)))
        return name.isEmpty ? nil : name
    }

    /// Whether a token issued then may be one from before the erasure. Another service's clock may be ahead of ours by
    /// `AccessClaims.aheadSecondsMax`, so what it issued before says to be from as much later; all of a second count.
    package static func isErased(issuedAt: Double, erasedAtSeconds: Int64) -> Bool {
        issuedAt < Double(erasedAtSeconds) + 1 + AccessClaims.aheadSecondsMax
    }

    /// How long a request may still be under way that was admitted before its driver was erased. Until then nobody of
    /// that id comes into being again.
    static let erasureSettlesMilliseconds: Int64 = 60_000

    package static func isSettling(erasedAt: Moment, at now: Moment) -> Bool {
        now.milliseconds(since: erasedAt) < erasureSettlesMilliseconds
    }
}

/// A refresh token as it is stored, with what its session says.
package struct StoredRefreshToken: Hashable, Sendable {
    package var expiresAt: Moment
    /// Nil: never presented.
    package var spentAt: Moment?

    package init(expiresAt: Moment, spentAt: Moment?) {
        self.expiresAt = expiresAt
        self.spentAt = spentAt
    }
}

/// How long a request whose answer was lost may be sent again: counted from the first time, by the server's clock.
package enum RepeatRule {
    package static let milliseconds: Int64 = 10_000

    /// Requests wait for their turn, so that one may come up with an earlier time than the one before it. A clock that
    /// was set back by more gives nobody more time.
    package static func isRepeat(of first: Moment, at now: Moment) -> Bool {
        let elapsed = now.milliseconds(since: first)
        return -milliseconds <= elapsed && elapsed <= milliseconds
    }
}

/// What presenting a refresh token means (contract, section 6).
package enum RefreshRule: Hashable, Sendable {
    /// The successor is stored.
    case rotate
    /// The first answer was lost, or two requests raced: the successor is given again.
    case `repeat`
    /// Two have the family: somebody has a copy, and the whole session ends.
    case reuse
    /// Spent a moment ago, and its successor is none that this key makes: the key was changed in between. Nobody can say
    /// what the first answer was.
    case unrepeatable
    case expired

    /// `successor`: the one that the token leads to, if it is stored.
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

/// A one-time code as it is stored.
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
    /// Of the live code that this address asked for, from this address; nil: it asked for none.
    package var own: Int?
    /// Of codes of this number, each from the address that had asked for it, within a day.
    package var ownOfNumber: Int
    /// Of this number within a day from addresses that had not asked: all of them, and those of this one's network.
    package var strangers: Int
    package var strangersOfNetwork: Int
    /// Of any number, within an hour, from this network, by addresses that had not asked.
    package var network: Int

    package init(own: Int?, ownOfNumber: Int, strangers: Int, strangersOfNetwork: Int, network: Int) {
        self.own = own
        self.ownOfNumber = ownOfNumber
        self.strangers = strangers
        self.strangersOfNetwork = strangersOfNetwork
        self.network = network
    }
}

/// Who may guess how often. Guesses are counted before they are compared, against two codes at most: the one that the
/// address asked for, and the newest of the number.
///
/// Each code keeps its guesses for the address that asked for it, so that nobody else can use them up: the owner who
/// asks for a code and types it in is let in whatever others guess. Asking is limited (5 an hour for a number), so that
/// asking again and again is worth little: after 25 wrong ones within a day a new code is good for one guess. With the
/// defaults a number stands at most 144 such guesses a day (25, 4 more in the last full code, 115 codes of one guess)
/// and 30 of strangers: 174 guesses against two codes of a million, 1 in 2,870 a day.
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

    /// - Parameter stored: the codes that the guess may be; empty when none was sent, or it was used. The same work is
    ///   done then.
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

/// How many codes may be sent within an hour; 0 is no limit.
package struct CodeSendLimits: Hashable, Sendable {
    package var perNumber: Int
    package var perAddress: Int
    /// For an IPv6 /56 or an IPv4 /24.
    package var perNetwork: Int
    /// For an IPv6 /48.
    package var perSite: Int
    /// To numbers without an account that have their first six digits in common.
    package var perPrefix: Int
    package var total: Int
    /// Of `total`, kept for numbers that are an account's.
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

    /// What numbers without an account may have of `total`; 0 is no limit.
    package var newcomers: Int { total > 0 ? max(total - total * knownPercent / 100, 1) : 0 }

    /// `places[n]`: when the `limit`-th last send within the window was, for each limit that does not ask whether the number is
    /// known; nil while there were fewer. The seconds until the last of them makes room; nil: one more may be sent.
    package static func retryAfterSeconds(_ places: [Moment?], at now: Moment) -> Int64? {
        let milliseconds = places.compactMap { $0 }
            .map { windowMilliseconds - now.milliseconds(since: $0) }.max()
        guard let milliseconds else { return nil }
        return min(max(1, (milliseconds + 999) / 1000), windowMilliseconds / 1000)
    }
}
