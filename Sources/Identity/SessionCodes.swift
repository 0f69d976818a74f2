// Verification codes of sessions (contract, section 3, "Verification codes"). A service requests the code of a session
// and shows it at the merchant. The driver enters the code in the app. This proves that the driver is at the merchant.
// The rules are here; the store applies them in one transaction.

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
    /// The code is right. `acceptedAt` is the time of the verification. It was determined when the code was first
    /// accepted: now, or at an earlier request.
    case right(acceptedAt: Moment)
    case wrong(triesLeft: Int)
    /// No code can be accepted: the session has no code, the code has expired, its tries are used up, or the session is
    /// not in progress. A wrong code also gets this verdict if the right code was accepted before.
    case unavailable

    /// The number of wrong codes after which a code is no longer accepted. A guesser therefore succeeds with a
    /// probability of 5 in 1,000,000 per code.
    package static let triesMax = 5

    /// Judges a code. A code that was accepted stays right, so that a request whose response was lost can be repeated.
    ///
    /// - Parameter verifiedAt: the time of the verification if the code is accepted now (`verificationTime`). Nil if
    ///   the session is not in progress at `now`.
    package static func judge(
        _ code: StoredSessionCode, guess: [UInt8], verifiedAt: Moment?, at now: Moment
    ) -> SessionCodeRule {
        // The code is compared in every case, so that the response time does not show whether a code can still be
        // accepted.
        let isRight = code.digest.equalsInConstantTime(guess)
        if let acceptedAt = code.acceptedAt { return isRight ? .right(acceptedAt: acceptedAt) : .unavailable }
        guard code.wrongCount < triesMax, now <= code.expiresAt, let verifiedAt else { return .unavailable }
        return isRight ? .right(acceptedAt: verifiedAt) : .wrong(triesLeft: triesMax - code.wrongCount - 1)
    }

    /// Returns the time that the verification gets if a code is accepted at `now`. This time is usually `now`.
    ///
    /// If a clock was ahead, the time of the driver's last event may be `now` or later. In the order of events, a
    /// verification at `now` could then come before the events that began the session, and the fold would reject the
    /// verification. In this case, the verification therefore gets the millisecond after the last event, but at most
    /// the time of the session's next deadline.
    ///
    /// - Parameters:
    ///   - journey: the driver's journey at `now`. It is in a session.
    ///   - lastEventAt: the corrected time of the driver's last event; nil if that event was deleted.
    package static func verificationTime(of journey: Journey, lastEventAt: Moment?, at now: Moment) -> Moment {
        guard let lastEventAt, lastEventAt >= now else { return now }
        let next = lastEventAt.advanced(byMilliseconds: 1)
        return journey.nextDeadline.map { min(next, $0.at) } ?? next
    }
}

package enum SessionCodeIssue: Hashable, Sendable {
    /// The code replaces the earlier one. It expires with the session.
    case issued(expiresAt: Moment)
    case sessionNotFound
    /// The session is not in progress, or was already verified.
    case sessionNotActive
}

/// The port of the stored codes.
package protocol SessionCodeStore: Sendable {
    /// Stores the digest of a new code in place of the session's earlier one. The session may belong to any driver,
    /// because a service requests the code.
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
