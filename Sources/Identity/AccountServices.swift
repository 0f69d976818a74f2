// What API asks for when somebody signs in, or wants something about their account. The routes are the contract's,
// section 6. Implemented in this module, on the stores' ports; API sees these protocols only, so that its tests can
// script them.

package import JourneyModel
package import Telemetry

package protocol SigningIn: Sendable {
    /// POST /auth/apple, once the token is verified. The same nonce a second time is `unauthorized`. The authorization
    /// code is exchanged when that is configured; an exchange that fails does not fail the sign-in.
    func signIn(
        _ identity: AppleIdentity, authorizationCode: Secret<String>?, profile: FirstProfile, from origin: RequestOrigin
    ) async throws(AccountFailure) -> TokenPair

    /// POST /api/auth/apple.
    func signInWithSingleToken(
        _ identity: AppleIdentity, profile: FirstProfile, from origin: RequestOrigin
    ) async throws(AccountFailure) -> SingleToken

    /// An identity token was refused: audited, without anything of the token but the reason's name.
    func identityTokenRefused(reason: String, from origin: RequestOrigin) async

    /// POST /auth/otp/start. `phone` as sent: normalised here, `invalid` with pointer /phone when it is no number.
    /// Returns once the code is decided; it is delivered off the request. `limited` beyond the send limits.
    func sendCode(to phone: String, from origin: RequestOrigin) async throws(AccountFailure)

    /// POST /auth/otp/verify and /v1/auth/otp/verify. `unauthorized` for every reason that a code is not good.
    func signIn(
        phone: String, code: Secret<String>, for client: PairClient, from origin: RequestOrigin
    ) async throws(AccountFailure) -> TokenPair

    /// POST /api/auth/verify-code.
    func signInWithSingleToken(
        phone: String, code: Secret<String>, from origin: RequestOrigin
    ) async throws(AccountFailure) -> SingleToken
}

extension SigningIn {
    package func signIn(
        phone: String, code: Secret<String>, from origin: RequestOrigin
    ) async throws(AccountFailure) -> TokenPair {
        try await signIn(phone: phone, code: code, for: .current, from: origin)
    }
}

package protocol SignInSessionKeeping: Sendable {
    /// POST /auth/refresh and /v1/auth/refresh.
    func refresh(
        _ refreshToken: Secret<String>, for client: PairClient, from origin: RequestOrigin
    ) async throws(AccountFailure) -> TokenPair

    /// POST /api/auth/refresh: `token` is an access token of a single-token session, up to 30 days past its `exp`.
    func refreshSingleToken(
        _ token: String, from origin: RequestOrigin
    ) async throws(AccountFailure) -> SingleToken

    /// POST /auth/logout: ends the caller's sign-in session. With a refresh token, that one's session ends too when it
    /// is the caller's; another's, or an unknown one, changes nothing and is no error. A caller without `sid` has none.
    func signOut(
        _ caller: Caller, refreshToken: Secret<String>?, from origin: RequestOrigin
    ) async throws(AccountFailure)

    /// POST /auth/logout?all=true: ends every sign-in session of the driver.
    func signOutEverywhere(_ caller: Caller, from origin: RequestOrigin) async throws(AccountFailure)

    /// GET /auth/sessions: the live ones, last used first, at most 100.
    func sessions(of caller: Caller, at now: Moment) async throws(AccountFailure) -> [SignInSession]

    /// DELETE /auth/sessions/{id}: `notFound` when there is none, it has ended or is another driver's.
    func endSession(_ id: String, of caller: Caller, from origin: RequestOrigin) async throws(AccountFailure)
}

extension SignInSessionKeeping {
    package func refresh(
        _ refreshToken: Secret<String>, from origin: RequestOrigin
    ) async throws(AccountFailure) -> TokenPair {
        try await refresh(refreshToken, for: .current, from: origin)
    }
}

package protocol AccountKeeping: Sendable {
    /// GET /auth/me, POST /api/auth/validate. An external token's driver has an id and a role at most.
    func user(of caller: Caller) async throws(AccountFailure) -> User

    /// PATCH /auth/me: `invalid` with pointers /name and /email.
    func change(
        _ change: ProfileChange, of caller: Caller, from origin: RequestOrigin
    ) async throws(AccountFailure) -> User

    /// DELETE /auth/me, once it was confirmed. Every token of the driver is refused when this returns.
    func erase(_ caller: Caller, from origin: RequestOrigin) async throws(AccountFailure) -> ErasureReceipt

    /// GET /auth/me/export: everything held about the driver. `exportUnderWay` while another export of the driver is read.
    func export(of caller: Caller, from origin: RequestOrigin) async throws(AccountFailure) -> ExportPiece
}

package protocol DeviceKeeping: Sendable {
    /// PUT /native/devices/{token}; true when it is new to this driver. The push token moves here from the driver who had it.
    func put(_ device: Device, of caller: Caller, from origin: RequestOrigin) async throws(AccountFailure) -> Bool

    /// DELETE /native/devices/{token}: no error when it is not there, or another driver's, which stays.
    func remove(pushToken: String, of caller: Caller, from origin: RequestOrigin) async throws(AccountFailure)
}

/// POST /apple/notifications, once the notice is verified.
package protocol AppleNotificationService: Sendable {
    /// The same `jti` again does nothing and is no error.
    func take(_ notice: AppleServerNotification, from origin: RequestOrigin) async throws(AccountFailure)
}
