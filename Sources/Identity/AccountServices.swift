// The services that API calls for sign-in and accounts. The routes are the contract's, section 6. Implemented in
// this module, on the stores' ports; API sees only these protocols, so that its tests can script them.

package import JourneyModel
package import Secrets

package protocol SignInService: Sendable {
    /// POST /auth/apple, once the token is verified. A repeated nonce is `unauthorized`. The authorization code is
    /// exchanged if that is configured; a failed exchange does not fail the sign-in.
    func signIn(
        _ identity: AppleIdentity, authorizationCode: Secret<String>?, profile: FirstProfile, from origin: RequestOrigin
    ) async throws(AccountFailure) -> TokenPair

    /// POST /api/auth/apple.
    func signInWithSingleToken(
        _ identity: AppleIdentity, profile: FirstProfile, from origin: RequestOrigin
    ) async throws(AccountFailure) -> SingleToken

    /// An identity token was rejected: audits the name of the reason and nothing else of the token.
    func identityTokenRefused(reason: String, from origin: RequestOrigin) async

    /// POST /auth/otp/start. `phone` as sent: normalised here, `invalid` with pointer /phone when it is not a
    /// number. Returns once the code is decided; it is delivered asynchronously. `limited` beyond the send limits.
    func sendCode(to phone: String, from origin: RequestOrigin) async throws(AccountFailure)

    /// POST /auth/otp/verify and /v1/auth/otp/verify. `unauthorized` for every reason that a code is not valid.
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

    /// POST /api/auth/refresh: `token` is an access token of a single-token session, up to 30 days past its `exp`.
    func refreshSingleToken(
        _ token: String, from origin: RequestOrigin
    ) async throws(AccountFailure) -> SingleToken

    /// POST /auth/logout: ends the caller's sign-in session. With a refresh token of the caller, that one's session
    /// ends too; an unknown one, or another driver's, changes nothing and is no error. A caller without `sid` has
    /// no session.
    func signOut(
        _ caller: Caller, refreshToken: Secret<String>?, from origin: RequestOrigin
    ) async throws(AccountFailure)

    /// POST /auth/logout?all=true: ends every sign-in session of the driver.
    func signOutEverywhere(_ caller: Caller, from origin: RequestOrigin) async throws(AccountFailure)

    /// GET /auth/sessions: the live ones, last used first, at most 100.
    func sessions(of caller: Caller, at now: Moment) async throws(AccountFailure) -> [SignInSession]

    /// DELETE /auth/sessions/{id}: `notFound` when it does not exist, has ended or is another driver's.
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

    /// PATCH /auth/me: `invalid` with pointers /name and /email.
    func change(
        _ change: ProfileChange, of caller: Caller, from origin: RequestOrigin
    ) async throws(AccountFailure) -> User

    /// DELETE /auth/me, once confirmed. Every token of the driver is rejected when this returns.
    func erase(_ caller: Caller, from origin: RequestOrigin) async throws(AccountFailure) -> ErasureReceipt

    /// GET /auth/me/export: all data held about the driver. `exportUnderWay` while another export of the driver is
    /// in progress.
    func export(of caller: Caller, from origin: RequestOrigin) async throws(AccountFailure) -> ExportPiece
}

package protocol DeviceService: Sendable {
    /// PUT /native/devices/{token}; true when it is new to this driver. The push token moves here from the driver
    /// who had it.
    func put(_ device: Device, of caller: Caller, from origin: RequestOrigin) async throws(AccountFailure) -> Bool

    /// DELETE /native/devices/{token}: no error when it does not exist or is another driver's; the latter is kept.
    func remove(pushToken: String, of caller: Caller, from origin: RequestOrigin) async throws(AccountFailure)
}

/// POST /apple/notifications, once the notification is verified.
package protocol AppleNotificationService: Sendable {
    /// A repeated `jti` has no effect and is no error.
    func take(_ notice: AppleServerNotification, from origin: RequestOrigin) async throws(AccountFailure)
}
