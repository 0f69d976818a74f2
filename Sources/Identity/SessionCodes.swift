// Verification codes of sessions (contract, section 3, "Verification codes"). They prove that the driver is at the
// merchant: a service shows the code there, and the driver enters it in the app. The store applies the rules in one
// transaction.

package import JourneyModel
package import Secrets

/// The code of a session as stored.
package struct StoredSessionCode: Hashable, Sendable {
    package var digest: [UInt8]
    package var expiresAt: Moment
    /// Wrong codes so far.
    package var wrongCount: Int
    /// The time of the verification (`SessionCodeRule.verificationTime`). Nil if the driver has not yet entered the
    /// right code.
    package var acceptedAt: Moment?

    package init(digest: [UInt8], expiresAt: Moment, wrongCount: Int, acceptedAt: Moment?) {
        self.digest = digest
        self.expiresAt = expiresAt
        self.wrongCount = wrongCount
        self.acceptedAt = acceptedAt
    }
}

/// The verdict on a code that a driver enters.
package enum SessionCodeRule: Hashable, Sendable {
    /// The code is right. `acceptedAt` is the time of the verification. It is set when the code is first accepted, and
    /// a repeated request gets the same time.
    case right(acceptedAt: Moment)
    case wrong(triesLeft: Int)
    /// No code can be accepted, because the session is not in progress or has no valid code. A code is invalid after
    /// its expiry and after the last try. A wrong code also gets this verdict if the right code was accepted before.
    case unavailable

    /// The number of wrong tries after which the session's code is no longer accepted. A guesser therefore succeeds
    /// with a probability of 5 in 1,000,000 per code.
    package static let triesMax = 5

    /// Judges the code that the driver entered (`guess`). If the right code was accepted before, it is accepted again,
    /// so that a request whose response was lost can be repeated.
    ///
    /// - Parameter verifiedAt: the result of `verificationTime`, used if the code is right; nil if the session is not
    ///   in progress at `now`.
    package static func judge(
        _ code: StoredSessionCode, guess: [UInt8], verifiedAt: Moment?, at now: Moment
    ) -> SessionCodeRule {
        // The comparison is always made. Otherwise the response time would show whether a code can be accepted.
        let isRight = code.digest.equalsInConstantTime(guess)
        if let acceptedAt = code.acceptedAt { return isRight ? .right(acceptedAt: acceptedAt) : .unavailable }
        guard code.wrongCount < triesMax, now <= code.expiresAt, let verifiedAt else { return .unavailable }
        return isRight ? .right(acceptedAt: verifiedAt) : .wrong(triesLeft: triesMax - code.wrongCount - 1)
    }

    /// Returns the time that the verification gets if a code is accepted at `now`. This time is usually `now`.
    ///
    /// If a clock was ahead, the driver's last event may have the time `now` or a later time. A verification at `now`
    /// could then come before the events that began the session, and the fold would reject it.
    ///
    /// In this case, the result is the time one millisecond after the last event, or the session's next deadline if
    /// that is earlier.
    ///
    /// - Parameters:
    ///   - journey: the driver's journey at `now`, with a session in progress.
    ///   - lastEventAt: the corrected time of the driver's last event; nil if that event was deleted.
    package static func verificationTime(of journey: Journey, lastEventAt: Moment?, at now: Moment) -> Moment {
        guard let lastEventAt, lastEventAt >= now else { return now }
        let next = lastEventAt.advanced(byMilliseconds: 1)
        return journey.nextDeadline.map { min(next, $0.at) } ?? next
    }
}

package enum SessionCodeIssue: Hashable, Sendable {
    /// The code was stored, and replaces any earlier code of the session. It expires at the session's hard deadline.
    case issued(expiresAt: Moment)
    case sessionNotFound
    /// The session is not in progress, or was already verified.
    case sessionNotActive
}

/// The port of the stored codes.
package protocol SessionCodeStore: Sendable {
    /// Stores the digest of the session's new code. An earlier code becomes invalid. The session may belong to any
    /// driver, because a service requests the code.
    func issue(
        codeWithDigest digest: [UInt8], ofSession sessionID: String, at now: Moment
    ) async throws(AccountFailure) -> SessionCodeIssue

    /// Judges a code and counts it if it is wrong. Returns nil if the driver has no such session.
    func judge(
        guess: [UInt8], ofSession sessionID: String, of driver: DriverID, from origin: RequestOrigin
    ) async throws(AccountFailure) -> SessionCodeRule?
}

/// Issues and judges the codes. Only digests reach the store.
package struct SessionCodes: Sendable {
    private let store: any SessionCodeStore
    /// The keyed hash of a code of a session (`KeyedHashes.sessionCode`).
    private let digest: @Sendable (_ code: String, _ sessionID: String) -> [UInt8]

    package init(store: any SessionCodeStore, digest: @escaping @Sendable (String, String) -> [UInt8]) {
        self.store = store
        self.digest = digest
    }

    /// Returns a new code of six digits, and the store's answer `issue`. The code is valid only if `issue` is
    /// `.issued`.
    package func issue(
        forSession sessionID: String, at now: Moment
    ) async throws(AccountFailure) -> (code: Secret<String>, issue: SessionCodeIssue) {
        let code = OneTimeCode.random()
        let issue = try await store.issue(
            codeWithDigest: digest(code.reveal(), sessionID), ofSession: sessionID, at: now)
        return (code, issue)
    }

    package func judge(
        _ code: Secret<String>, ofSession sessionID: String, of driver: DriverID, from origin: RequestOrigin
    ) async throws(AccountFailure) -> SessionCodeRule? {
        try await store.judge(
            guess: digest(code.reveal(), sessionID), ofSession: sessionID, of: driver, from: origin)
    }
}
