// The stores' ports of accounts. Every method that changes something is one transaction, decided by the rules in
// AccountRules.swift on the rows that it read, and returns once it is on disk. Random values, and the time, come
// with the request. A rejection that is counted (a guess, a reuse) is an outcome, not an error: what it wrote is
// committed.
//
// Each of them writes its audit entry in the same transaction.

package import JourneyModel

/// A sign-in session to be created.
package struct NewSignIn: Sendable {
    package var sid: String
    package var kind: SignInKind
    package var method: SignInMethod
    package var clientName: String?
    /// The session is over after this time unless it is renewed before.
    package var expiresAt: Moment
    /// Nil for a single token.
    package var refreshToken: NewRefreshToken?
    /// Becomes the driver's id if the person is new.
    package var newDriver: DriverID
    package var origin: RequestOrigin
}

package struct NewRefreshToken: Hashable, Sendable {
    /// `plainDigest` of the token.
    package var digest: [UInt8]
    package var expiresAt: Moment

    package init(digest: [UInt8], expiresAt: Moment) {
        self.digest = digest
        self.expiresAt = expiresAt
    }
}

package enum SignInOutcome: Hashable, Sendable {
    case signedIn(User)
    /// The same sign-in was made within the last seconds, and its session is unchanged: nothing was created now.
    case repeated(User)
    /// The nonce was used, or the code is not valid.
    case refused
}

package protocol SignInStore: Sendable {
    /// Uses up the nonce, finds or creates the account, creates the session. A repeat (RepeatRule) with the same
    /// identity token finds the session of `new.sid`.
    func signIn(
        _ identity: AppleIdentity, profile: FirstProfile, _ new: NewSignIn
    ) async throws(AccountFailure) -> SignInOutcome

    /// Stores a sealed token with the identity; if the identity no longer exists, the token goes to the queue of
    /// revocations. A failed exchange is audited.
    func keep(
        _ outcome: AppleCodeExchangeOutcome, of identity: AppleIdentity, driver: DriverID, from origin: RequestOrigin
    ) async throws(AccountFailure)

    /// Replaces the code that this address requested, unless a limit rejects it.
    func issueCode(_ new: NewCode, limits: CodeSendLimits) async throws(AccountFailure) -> CodeIssue

    /// Counts the guess before it is compared. A correct code is used up and signs in.
    func signIn(
        _ number: PhoneNumber, guess digest: [UInt8], _ new: NewSignIn
    ) async throws(AccountFailure) -> SignInOutcome

    /// Writes an audit entry without a known driver.
    func recordRefusal(_ action: AuditAction, reason: String, from origin: RequestOrigin) async throws(AccountFailure)
}

package struct NewCode: Sendable {
    package var number: PhoneNumber
    package var digest: [UInt8]
    package var expiresAt: Moment
    package var origin: RequestOrigin
}

package enum CodeIssue: Hashable, Sendable {
    case issued([CodeSendUse])
    /// A share that excludes this number is used up: the code is stored as usual, but must not be delivered. The
    /// client must not be able to distinguish this from `issued`.
    case heldBack([CodeSendUse])
    case limited(retryAfterSeconds: Int64)
}

/// How much of a limit on codes is used up within the hour.
package struct CodeSendUse: Hashable, Sendable {
    package enum Limit: String, Hashable, Sendable, CaseIterable {
        /// OTP_SENDS_TOTAL
        case total
        /// The part of it available to numbers without an account.
        case newcomers
        /// OTP_SENDS_PER_PREFIX, for the prefix in question; if there is none, for the most used one.
        case prefix
    }

    package var limit: Limit
    package var count: Int
    /// 0: no limit.
    package var max: Int

    package init(_ limit: Limit, count: Int, max: Int) {
        self.limit = limit
        self.count = count
        self.max = max
    }

    /// Worth an alarm: at most a fifth is left.
    package var isNearlyAll: Bool { max > 0 && count * 5 >= max * 4 }
}

package protocol SignInSessionStore: Sendable {
    /// Spends the token of that digest and stores its successor, in the same session. A repeat finds the successor
    /// stored. A reuse ends the session.
    func rotate(
        _ digest: [UInt8], to new: NewRefreshToken, from origin: RequestOrigin
    ) async throws(AccountFailure) -> RenewalOutcome

    /// Extends a single token's session until `expiresAt`. Refused for a session of another kind.
    func renew(
        _ sid: String, of driver: DriverID, until expiresAt: Moment, from origin: RequestOrigin
    ) async throws(AccountFailure) -> RenewalOutcome

    /// Ends that session of the driver; false when it does not exist.
    func end(
        _ sid: String, of driver: DriverID, as action: AuditAction, from origin: RequestOrigin
    ) async throws(AccountFailure) -> Bool

    func endAll(of driver: DriverID, from origin: RequestOrigin) async throws(AccountFailure)

    /// The session of a refresh token, spent or not, if it is this driver's.
    func session(ofToken digest: [UInt8], of driver: DriverID) async throws(AccountFailure) -> String?

    func sessions(of driver: DriverID, at now: Moment) async throws(AccountFailure) -> [SignInSession]
}

package enum RenewalOutcome: Hashable, Sendable {
    case renewed(User, sid: String)
    case refused
    /// Refused, and the session has ended.
    case ended
}

package protocol AccountRecordStore: ErasureCompletion {
    func user(_ driver: DriverID) async throws(AccountFailure) -> User?

    /// Creates the account if there is none, as for a driver of another service.
    func change(
        _ change: ProfileChange, of caller: Caller, from origin: RequestOrigin
    ) async throws(AccountFailure) -> User

    /// Nobody reaches the driver any more when this returns. What is left of its rows: `completeErasures`.
    func erase(
        _ driver: DriverID, receipt: ErasureReceipt, pseudonym: String, from origin: RequestOrigin
    ) async throws(AccountFailure)

    /// Audits the export, then reads the first piece.
    func export(of caller: Caller, from origin: RequestOrigin) async throws(AccountFailure) -> ExportPiece

    /// Returns the driver who was deleted by it, if any.
    func take(
        _ notice: AppleServerNotification, receipt: ErasureReceipt, pseudonym: String, from origin: RequestOrigin
    ) async throws(AccountFailure) -> DriverID?
}

/// The rest of deletions that take more than one transaction.
package protocol ErasureCompletion: Sendable {
    /// Completes the deletions that have begun, of this driver or (nil) of all, in many short transactions among other
    /// work. Returns how many there were, when nothing is left of them.
    func completeErasures(of driver: DriverID?) async throws(AccountFailure) -> Int
}

package protocol DeviceStore: Sendable {
    func put(_ device: Device, of caller: Caller, from origin: RequestOrigin) async throws(AccountFailure) -> DevicePut
    func remove(pushToken: String, of caller: Caller, from origin: RequestOrigin) async throws(AccountFailure)
}

package enum DevicePut: Hashable, Sendable {
    case added
    case replaced
    /// The caller's sign-in session has ended meanwhile.
    case sessionEnded
}

package typealias AccountStore = SignInStore & SignInSessionStore & AccountRecordStore & DeviceStore
