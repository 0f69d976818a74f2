// The services that API calls for sign-in and accounts. The routes are in the contract, section 6. This module
// implements the services on the stores' ports. API sees only these protocols, so that its tests can replace the
// implementation.

package import JourneyModel
package import Secrets

package protocol SignInService: Sendable {
    /// POST /auth/apple, called once the token is verified. Throws `unauthorized` for a nonce that was used before.
    /// Exchanges the authorization code if the exchange is configured; a failed exchange does not fail the sign-in.
    func signIn(
        _ identity: AppleIdentity, authorizationCode: Secret<String>?, profile: FirstProfile, from origin: RequestOrigin
    ) async throws(AccountFailure) -> TokenPair

    /// POST /api/auth/apple.
    func signInWithSingleToken(
        _ identity: AppleIdentity, profile: FirstProfile, from origin: RequestOrigin
    ) async throws(AccountFailure) -> SingleToken

    /// Audits that an identity token was rejected: the name of the reason, and nothing else about the token.
    func identityTokenRefused(reason: String, from origin: RequestOrigin) async

    /// POST /auth/otp/start. Normalises `phone`, and throws `invalid` with pointer /phone when it is not a number, or
    /// `limited` beyond the send limits. Returns once the code is stored; delivery is asynchronous.
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

    /// POST /api/auth/refresh. `token` is the access token of a single-token session, at most 30 days past its `exp`.
    func refreshSingleToken(
        _ token: String, from origin: RequestOrigin
    ) async throws(AccountFailure) -> SingleToken

    /// POST /auth/logout: ends the caller's sign-in session, if the caller has a `sid`. Also ends the session of
    /// `refreshToken` if that token is the caller's; an unknown token, or another driver's, is ignored without an
    /// error.
    func signOut(
        _ caller: Caller, refreshToken: Secret<String>?, from origin: RequestOrigin
    ) async throws(AccountFailure)

    /// POST /auth/logout?all=true: ends every sign-in session of the driver.
    func signOutEverywhere(_ caller: Caller, from origin: RequestOrigin) async throws(AccountFailure)

    /// GET /auth/sessions: returns the live sessions, last used first, at most 100.
    func sessions(of caller: Caller, at now: Moment) async throws(AccountFailure) -> [SignInSession]

    /// DELETE /auth/sessions/{id}. Throws `notFound` when the session does not exist, has ended or is another driver's.
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
    /// GET /auth/me, POST /api/auth/validate. An external token's driver has only an id and perhaps a role.
    func user(of caller: Caller) async throws(AccountFailure) -> User

    /// PATCH /auth/me. Throws `invalid` with pointers /name and /email.
    func change(
        _ change: ProfileChange, of caller: Caller, from origin: RequestOrigin
    ) async throws(AccountFailure) -> User

    /// DELETE /auth/me, called once the deletion is confirmed. Every token of the driver is rejected when this method
    /// returns.
    func erase(_ caller: Caller, from origin: RequestOrigin) async throws(AccountFailure) -> ErasureReceipt

    /// GET /auth/me/export: returns all data held about the driver. Throws `exportUnderWay` while another export of the
    /// driver is in progress.
    func export(of caller: Caller, from origin: RequestOrigin) async throws(AccountFailure) -> ExportPiece
}

package protocol DeviceService: Sendable {
    /// PUT /native/devices/{token}. Returns true when the device is new to this driver. If another driver had the push
    /// token, that driver loses it.
    func put(_ device: Device, of caller: Caller, from origin: RequestOrigin) async throws(AccountFailure) -> Bool

    /// DELETE /native/devices/{token}. A device that does not exist is no error, nor is another driver's, which is
    /// kept.
    func remove(pushToken: String, of caller: Caller, from origin: RequestOrigin) async throws(AccountFailure)
}

/// POST /apple/notifications, called once the notification is verified.
package protocol AppleNotificationService: Sendable {
    /// Processes a notification. One with a repeated `jti` has no effect and is no error.
    func take(_ notice: AppleServerNotification, from origin: RequestOrigin) async throws(AccountFailure)
}
