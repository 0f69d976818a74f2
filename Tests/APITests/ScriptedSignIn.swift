// Scripted sign-in services that record their calls. The valid credentials are "good" and the one-time code 123456.
// Calls with a wrong credential fail; all other calls succeed until `fail(with:)` is called.

import Identity
import JourneyModel
import Secrets
import Synchronization

@testable import API

final class ScriptedSignIn: SignInService, SignInSessionService, AccountService, DeviceService, AppleTokenVerifying,
    AppleNotificationService
{
    /// Every piece of an export except the last is 256 KiB long.
    let exportPieces = Atomic(1)
    static let user = User(
        id: DriverID("driver"), name: "Ada", email: nil, phone: "+491511234567", role: "driver")
    static let at = Moment(millisecondsSinceEpoch: 1_800_000_000_000)
    static let pair = TokenPair(
        accessToken: Secret("access"), refreshToken: Secret("refresh"), expiresInSeconds: 3600, user: user)

    private struct State {
        var failure: AccountFailure?
        var asked: [String] = []
        var deviceIsNew = true
    }

    private let state = Mutex(State())

    func services(sendsCodes: Bool) -> SignInServices {
        SignInServices(
            signIns: self, sessions: self, accounts: self, devices: self,
            sessionCodes: SessionCodes(store: self) { code, session in Array((code + session).utf8) },
            appleTokens: self, appleNotices: self,
            sendsCodes: sendsCodes, publicKeySet: Array(#"{"keys":[]}"#.utf8))
    }

    /// The recorded calls, in order.
    var asked: [String] { state.withLock { $0.asked } }

    func fail(with failure: AccountFailure?) { state.withLock { $0.failure = failure } }
    func stub(deviceIsNew: Bool) { state.withLock { $0.deviceIsNew = deviceIsNew } }

    private func answer<Value: Sendable>(_ question: String, _ value: Value) throws(AccountFailure) -> Value {
        try state.withLock { state -> Result<Value, AccountFailure> in
            state.asked.append(question)
            if let failure = state.failure { return .failure(failure) }
            return .success(value)
        }.get()
    }

    private func judged<Value: Sendable>(
        _ credential: String, _ question: String, _ value: Value
    ) throws(AccountFailure) -> Value {
        let value = try answer(question, value)
        guard credential == "good" else { throw .unauthorized }
        return value
    }

    // MARK: Signing in

    func signIn(
        _ identity: AppleIdentity, authorizationCode: Secret<String>?, profile: FirstProfile, from origin: RequestOrigin
    ) async throws(AccountFailure) -> TokenPair {
        try answer("apple \(identity.subject) \(authorizationCode?.reveal() ?? "-") \(profile.name ?? "-")", Self.pair)
    }

    func signInWithSingleToken(
        _ identity: AppleIdentity, profile: FirstProfile, from origin: RequestOrigin
    ) async throws(AccountFailure) -> SingleToken {
        try answer("single \(identity.subject)", SingleToken(token: Secret("single"), user: Self.user))
    }

    func identityTokenRefused(reason: String, from origin: RequestOrigin) async {
        state.withLock { $0.asked.append("refused \(reason)") }
    }

    func sendCode(to phone: String, from origin: RequestOrigin) async throws(AccountFailure) {
        try answer("send \(phone) \(origin.address)", ())
    }

    func signIn(
        phone: String, code: Secret<String>, for client: PairClient, from origin: RequestOrigin
    ) async throws(AccountFailure) -> TokenPair {
        let question = client == .v1 ? "verify \(phone) v1" : "verify \(phone)"
        return try judged(code.reveal() == "123456" ? "good" : "bad", question, Self.pair)
    }

    func signInWithSingleToken(
        phone: String, code: Secret<String>, from origin: RequestOrigin
    ) async throws(AccountFailure) -> SingleToken {
        try judged(
            code.reveal() == "123456" ? "good" : "bad", "verify single \(phone)",
            SingleToken(token: Secret("single"), user: Self.user))
    }

    // MARK: Apple

    func identity(
        of token: String, rawNonce: String, atSecondsSince1970 now: Int64
    ) async throws(AppleTokenRefusal) -> AppleIdentity {
        try judge(token)
        return AppleIdentity(
            subject: "subject", clientID: "app", email: nil, isEmailVerified: false, isPrivateEmail: false,
            nonceDigest: Array(rawNonce.utf8), tokenDigest: Array(token.utf8), expiresAtSeconds: now + 600)
    }

    func notice(of token: String, atSecondsSince1970 now: Int64) async throws(AppleTokenRefusal)
        -> AppleServerNotification
    {
        try judge(token)
        return AppleServerNotification(kind: .consentRevoked, subject: "subject", jti: "jti", happenedAtSeconds: nil)
    }

    private func judge(_ token: String) throws(AppleTokenRefusal) {
        switch token {
        case "good": return
        case "unknown": throw .keysUnavailable(retryAfterSeconds: 7)
        default: throw .refused(.wrongSignature)
        }
    }

    func take(_ notice: AppleServerNotification, from origin: RequestOrigin) async throws(AccountFailure) {
        try answer("notice \(notice.jti)", ())
    }

    // MARK: Sessions

    func refresh(
        _ refreshToken: Secret<String>, for client: PairClient, from origin: RequestOrigin
    ) async throws(AccountFailure) -> TokenPair {
        try judged(refreshToken.reveal(), client == .v1 ? "refresh v1" : "refresh", Self.pair)
    }

    func refreshSingleToken(_ token: String, from origin: RequestOrigin) async throws(AccountFailure) -> SingleToken {
        try judged(token, "renew", SingleToken(token: Secret("single"), user: Self.user))
    }

    func signOut(
        _ caller: Caller, refreshToken: Secret<String>?, from origin: RequestOrigin
    ) async throws(AccountFailure) {
        try answer("sign out \(refreshToken?.reveal() ?? "-")", ())
    }

    func signOutEverywhere(_ caller: Caller, from origin: RequestOrigin) async throws(AccountFailure) {
        try answer("sign out everywhere", ())
    }

    func sessions(of caller: Caller, at now: Moment) async throws(AccountFailure) -> [SignInSession] {
        let session = SignInSession(
            id: "sid_1", method: .otp, clientName: nil, createdAt: Self.at,
            lastUsedAt: Self.at.advanced(byMilliseconds: 1))
        return try answer("sessions", [session])
    }

    func endSession(_ id: String, of caller: Caller, from origin: RequestOrigin) async throws(AccountFailure) {
        try answer("end \(id)", ())
    }

    // MARK: Accounts and devices

    func user(of caller: Caller) async throws(AccountFailure) -> User { try answer("user", Self.user) }

    func change(
        _ change: ProfileChange, of caller: Caller, from origin: RequestOrigin
    ) async throws(AccountFailure) -> User {
        try answer("change \(change.name) \(change.email)", Self.user)
    }

    func erase(_ caller: Caller, from origin: RequestOrigin) async throws(AccountFailure) -> ErasureReceipt {
        try answer("erase \(caller.driver)", ErasureReceipt(id: "rcp_1", deletedAt: Self.at))
    }

    func export(of caller: Caller, from origin: RequestOrigin) async throws(AccountFailure) -> ExportPiece {
        try answer("export", Self.export(pieces: exportPieces.load(ordering: .relaxed)))
    }

    private static func export(pieces: Int) -> ExportPiece {
        if pieces <= 1 { return ExportPiece(json: Array(#"{"driver":{}}"#.utf8), rest: nil) }
        return ExportPiece(json: Array(repeating: 32, count: 256 << 10)) { () async throws(AccountFailure) in
            export(pieces: pieces - 1)
        }
    }

    func put(_ device: Device, of caller: Caller, from origin: RequestOrigin) async throws(AccountFailure) -> Bool {
        let isNew = state.withLock { $0.deviceIsNew }
        return try answer("put \(device.pushToken) \(device.platform) \(device.appVersion ?? "-")", isNew)
    }

    func remove(pushToken: String, of caller: Caller, from origin: RequestOrigin) async throws(AccountFailure) {
        try answer("remove \(pushToken)", ())
    }
}

extension ScriptedSignIn: SessionCodeStore {
    func issue(
        codeWithDigest digest: [UInt8], ofSession sessionID: String, at now: Moment
    ) async throws(AccountFailure) -> SessionCodeIssue {
        let issues: [String: SessionCodeIssue] = ["other": .sessionNotFound, "ended": .sessionNotActive]
        return try answer("issue a code", issues[sessionID] ?? .issued(expiresAt: Self.at))
    }

    func judge(
        guess: [UInt8], ofSession sessionID: String, of driver: DriverID, from origin: RequestOrigin
    ) async throws(AccountFailure) -> SessionCodeRule? {
        let verdicts: [String: SessionCodeRule] = ["ended": .unavailable, "wrong": .wrong(triesLeft: 4)]
        let verdict: SessionCodeRule? = sessionID == "other" ? nil : verdicts[sessionID] ?? .right(acceptedAt: Self.at)
        return try answer("judge a code", verdict)
    }
}
