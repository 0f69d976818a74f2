// The ports by which the account services use the store. Random values and the time are parameters.
//
// Each method that changes data returns after the change is on disk. Except for `completeErasures`, each such method
// runs one transaction. The transaction applies the rules in AccountRules.swift to the rows that it reads.
//
// Some rejections change rows: a wrong guess is counted, and the reuse of a refresh token ends the token's session.
// Such a rejection is an outcome and not an error, because an error would roll the changes back.
//
// Each method that changes data writes its audit entry in the same transaction.

package import JourneyModel

/// A sign-in session to be created.
package struct NewSignIn: Sendable {
    package var sid: String
    package var kind: SignInKind
    package var method: SignInMethod
    package var clientName: String?
    /// The time when the session ends if it is not renewed before.
    package var expiresAt: Moment
    /// Nil if the sign-in gets a single token.
    package var refreshToken: NewRefreshToken?
    /// The driver's id if a new account is created.
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
    /// The request repeats a sign-in with the same identity token (RepeatRule), so nothing was created. The session of
    /// the first sign-in still exists. Its refresh token, if it has one, is unused.
    case repeated(User)
    /// The nonce was used before, or the code is not valid.
    case refused
}

package protocol SignInStore: Sendable {
    /// Marks the nonce as used, finds or creates the account, and creates the session.
    ///
    /// For a repeat (RepeatRule) with the same identity token, returns `repeated` and creates nothing. `new.sid` is
    /// derived from the identity token, so it is the id of the first request's session.
    func signIn(
        _ identity: AppleIdentity, profile: FirstProfile, _ new: NewSignIn
    ) async throws(AccountFailure) -> SignInOutcome

    /// Stores the outcome of the exchange of Apple's authorization code. For `failed`, only writes an audit entry. For
    /// `sealed`, stores Apple's encrypted refresh token with the identity, or queues it for revocation if the identity
    /// no longer exists.
    func keep(
        _ outcome: AppleCodeExchangeOutcome, of identity: AppleIdentity, driver: DriverID, from origin: RequestOrigin
    ) async throws(AccountFailure)

    /// Stores a new code, unless a limit on sent codes is used up. If the address already has a code for this phone
    /// number, the new code replaces it.
    func issueCode(_ new: NewCode, limits: CodeSendLimits) async throws(AccountFailure) -> CodeIssue

    /// Compares the guess with the stored codes, if the limits allow one more guess. A wrong guess is counted. A
    /// correct guess uses up the phone number's codes and creates a sign-in session.
    func signIn(
        _ number: PhoneNumber, guess digest: [UInt8], _ new: NewSignIn
    ) async throws(AccountFailure) -> SignInOutcome

    /// Writes an audit entry for a rejected request whose driver is unknown.
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
    /// A limit that applies only to phone numbers without an account is reached. The code is not stored and must not be
    /// delivered; an earlier code stays valid. The client gets the same response as for `issued`.
    case heldBack([CodeSendUse])
    case limited(retryAfterSeconds: Int64)
}

package protocol SignInSessionStore: Sendable {
    /// Marks the token with this digest as spent, stores its successor `new`, and returns `renewed`. A repeat
    /// (RepeatRule) also returns `renewed`, but stores nothing. Reuse (`RefreshRule.reuse`) ends the session.
    func rotate(
        _ digest: [UInt8], to new: NewRefreshToken, from origin: RequestOrigin
    ) async throws(AccountFailure) -> RenewalOutcome

    /// Extends the session of a single token until `expiresAt`. Returns `refused` if the session is unknown or belongs
    /// to a token pair.
    func renew(
        _ sid: String, of driver: DriverID, until expiresAt: Moment, from origin: RequestOrigin
    ) async throws(AccountFailure) -> RenewalOutcome

    /// Ends those sessions in `sids` that belong to the driver. Returns false if none of them does.
    func end(
        _ sids: Set<String>, of driver: DriverID, as action: AuditAction, from origin: RequestOrigin
    ) async throws(AccountFailure) -> Bool

    func endAll(of driver: DriverID, from origin: RequestOrigin) async throws(AccountFailure)

    /// Returns the id of the session to which a refresh token belongs. The token may be spent. Returns nil for an
    /// unknown token and for a session of another driver.
    func session(ofToken digest: [UInt8], of driver: DriverID) async throws(AccountFailure) -> String?

    func sessions(of driver: DriverID, at now: Moment) async throws(AccountFailure) -> [SignInSession]
}

package enum RenewalOutcome: Hashable, Sendable {
    case renewed(User, sid: String)
    case refused
    /// The token was reused (`RefreshRule.reuse`). The renewal is refused, and the session has ended.
    case ended
}

package protocol AccountRecordStore: ErasureCompletion {
    func user(_ driver: DriverID) async throws(AccountFailure) -> User?

    /// Changes the profile. If another service issued the token, the driver may have no account. The account is then
    /// created.
    func change(
        _ change: ProfileChange, of caller: Caller, from origin: RequestOrigin
    ) async throws(AccountFailure) -> User

    /// Begins the deletion of a driver. When this method returns, no request can reach the driver's data any more.
    /// `completeErasures` removes the remaining rows.
    func erase(
        _ driver: DriverID, receipt: ErasureReceipt, pseudonym: String, from origin: RequestOrigin
    ) async throws(AccountFailure)

    /// Writes an audit entry for the export, and then returns the first piece.
    func export(of caller: Caller, from origin: RequestOrigin) async throws(AccountFailure) -> ExportPiece

    /// Processes a notification. Returns the driver that it deleted, if any.
    func take(
        _ notice: AppleServerNotification, receipt: ErasureReceipt, pseudonym: String, from origin: RequestOrigin
    ) async throws(AccountFailure) -> DriverID?
}

/// The completion of deletions that take more than one transaction.
package protocol ErasureCompletion: Sendable {
    /// Completes the unfinished deletions of this driver, or of all drivers if `driver` is nil. Returns the number of
    /// these deletions. If a deletion fails, tries the others before it throws.
    func completeErasures(of driver: DriverID?) async throws(AccountFailure) -> Int
}

package protocol DeviceStore: Sendable {
    func put(_ device: Device, of caller: Caller, from origin: RequestOrigin) async throws(AccountFailure) -> DevicePut
    func remove(pushToken: String, of caller: Caller, from origin: RequestOrigin) async throws(AccountFailure)
}

package enum DevicePut: Hashable, Sendable {
    case added
    case replaced
    /// The caller's sign-in session ended during the request.
    case sessionEnded
}
