// The services that the module API calls for sign-in and accounts (contract, section 6). The module API uses only these
// protocols, so that its tests can replace the implementation.

package import JourneyModel
package import Secrets

package protocol SignInService: Sendable {
    /// POST /auth/apple, called after the identity token was verified. Throws `unauthorized` if the nonce was used
    /// before and this request is not a repeat (RepeatRule).
    ///
    /// Exchanges the authorization code, if the exchange is configured. The sign-in succeeds even if the exchange
    /// fails.
    func signIn(
        _ identity: AppleIdentity, authorizationCode: Secret<String>?, profile: FirstProfile, from origin: RequestOrigin
    ) async throws(AccountFailure) -> TokenPair

    /// POST /api/auth/apple.
    func signInWithSingleToken(
        _ identity: AppleIdentity, profile: FirstProfile, from origin: RequestOrigin
    ) async throws(AccountFailure) -> SingleToken

    /// Writes an audit entry for a rejected identity token. The entry contains the reason, but nothing from the token.
    func identityTokenRefused(reason: String, from origin: RequestOrigin) async

    /// POST /auth/otp/start. Stores a code, or holds it back (`CodeIssue.heldBack`), and returns. A stored code is
    /// delivered after the return.
    ///
    /// Normalises `phone`. Throws `invalid` with pointer /phone if `phone` is not a phone number. Throws `limited` if a
    /// limit on sent codes is used up.
    func sendCode(to phone: String, from origin: RequestOrigin) async throws(AccountFailure)

    /// POST /auth/otp/verify and /v1/auth/otp/verify. Throws `unauthorized` if the code is not valid, whatever the
    /// reason.
    func signIn(
        phone: String, code: Secret<String>, for client: PairClient, from origin: RequestOrigin
    ) async throws(AccountFailure) -> TokenPair

    /// POST /api/auth/verify-code.
    func signInWithSingleToken(
        phone: String, code: Secret<String>, from origin: RequestOrigin
    ) async throws(AccountFailure) -> SingleToken
}

extension SignInService {
    package func signIn(
        phone: String, code: Secret<String>, from origin: RequestOrigin
    ) async throws(AccountFailure) -> TokenPair {
        try await signIn(phone: phone, code: code, for: .current, from: origin)
    }
}

package protocol SignInSessionService: Sendable {
    /// POST /auth/refresh and /v1/auth/refresh.
    func refresh(
        _ refreshToken: Secret<String>, for client: PairClient, from origin: RequestOrigin
    ) async throws(AccountFailure) -> TokenPair

    /// POST /api/auth/refresh. `token` is the access token of a single-token session. It may have expired up to 30 days
    /// ago.
    func refreshSingleToken(
        _ token: String, from origin: RequestOrigin
    ) async throws(AccountFailure) -> SingleToken

    /// POST /auth/logout: ends the session of the caller's `sid` and the session of `refreshToken`. A missing `sid`, an
    /// unknown refresh token and a refresh token of another driver cause no error.
    func signOut(
        _ caller: Caller, refreshToken: Secret<String>?, from origin: RequestOrigin
    ) async throws(AccountFailure)

    /// POST /auth/logout?all=true: ends every sign-in session of the driver.
    func signOutEverywhere(_ caller: Caller, from origin: RequestOrigin) async throws(AccountFailure)

    /// GET /auth/sessions: returns the live sessions, at most 100, the most recently used first.
    func sessions(of caller: Caller, at now: Moment) async throws(AccountFailure) -> [SignInSession]

    /// DELETE /auth/sessions/{id}. Throws `notFound` if the session does not exist, has ended or belongs to another
    /// driver.
    func endSession(_ id: String, of caller: Caller, from origin: RequestOrigin) async throws(AccountFailure)
}

extension SignInSessionService {
    package func refresh(
        _ refreshToken: Secret<String>, from origin: RequestOrigin
    ) async throws(AccountFailure) -> TokenPair {
        try await refresh(refreshToken, for: .current, from: origin)
    }
}

package protocol AccountService: Sendable {
    /// GET /auth/me, POST /api/auth/validate. If another service issued the token, the driver may have no account. The
    /// result is then only the id, and the role if the token names one.
    func user(of caller: Caller) async throws(AccountFailure) -> User

    /// PATCH /auth/me. Throws `invalid` if the name or the email is not acceptable. The pointer of each error is /name
    /// or /email.
    func change(
        _ change: ProfileChange, of caller: Caller, from origin: RequestOrigin
    ) async throws(AccountFailure) -> User

    /// DELETE /auth/me, called after the driver confirmed the deletion. When this method returns, this process rejects
    /// every token of the driver.
    func erase(_ caller: Caller, from origin: RequestOrigin) async throws(AccountFailure) -> ErasureReceipt

    /// GET /auth/me/export: returns all data stored about the driver, in pieces. Throws `exportUnderWay` while another
    /// export of the driver is in progress.
    func export(of caller: Caller, from origin: RequestOrigin) async throws(AccountFailure) -> ExportPiece
}

package protocol DeviceService: Sendable {
    /// PUT /native/devices/{token}. Returns true if the device is new to this driver. If the push token was registered
    /// for another driver, that registration is removed.
    func put(_ device: Device, of caller: Caller, from origin: RequestOrigin) async throws(AccountFailure) -> Bool

    /// DELETE /native/devices/{token}. Does nothing, without an error, if the device does not exist or belongs to
    /// another driver.
    func remove(pushToken: String, of caller: Caller, from origin: RequestOrigin) async throws(AccountFailure)
}

/// POST /apple/notifications, called after the notification was verified.
package protocol AppleNotificationService: Sendable {
    /// Processes a notification. Does nothing, without an error, if a notification with the same `jti` was processed
    /// before.
    func take(_ notice: AppleServerNotification, from origin: RequestOrigin) async throws(AccountFailure)
}
