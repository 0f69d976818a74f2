// Signs drivers in with a verified Apple identity or with a one-time code. Random values and expiry times are made
// here. The store applies the rules in one transaction.

import JourneyModel
package import Secrets

package struct SignIns: SignInService {
    private let store: any SignInStore
    private let tokens: SessionTokenIssuer
    private let digests: KeyedHashes
    private let sendLimits: CodeSendLimits
    private let delivery: any CodeDelivery
    private let alarm: @Sendable (CodeSendUse) -> Void
    private let exchange: (any AppleCodeExchange)?
    private let revoked: @Sendable () async -> Void

    /// - Parameters:
    ///   - exchange: nil if authorization codes are not exchanged.
    ///   - alarm: called after an accepted request for a code, once for each limit on sent codes that is nearly used
    ///     up.
    ///   - revoked: called after every sign-in that creates a session. Such a sign-in may end the driver's least
    ///     recently used session. The call must not return before this process rejects the tokens of the ended session.
    package init(
        store: any SignInStore, tokens: SessionTokenIssuer, digests: KeyedHashes, sendLimits: CodeSendLimits,
        delivery: any CodeDelivery, exchange: (any AppleCodeExchange)?,
        alarm: @escaping @Sendable (CodeSendUse) -> Void = { _ in },
        revoked: @escaping @Sendable () async -> Void = {}
    ) {
        self.store = store
        self.tokens = tokens
        self.digests = digests
        self.sendLimits = sendLimits
        self.delivery = delivery
        self.exchange = exchange
        self.alarm = alarm
        self.revoked = revoked
    }

    // MARK: Apple

    package func signIn(
        _ identity: AppleIdentity, authorizationCode: Secret<String>?, profile: FirstProfile, from origin: RequestOrigin
    ) async throws(AccountFailure) -> TokenPair {
        let refreshToken = tokens.derived.refreshToken(of: identity)
        let new = tokens.newSignIn(
            .pair, by: .apple, sid: tokens.derived.sid(of: identity, .pair), refreshToken: refreshToken, from: origin)
        let user: User
        switch try await store.signIn(identity, profile: profile.usable, new) {
        case .signedIn(let signedIn):
            user = signedIn
            await revoked()
            if let authorizationCode { await exchange(authorizationCode, of: identity, driver: user.id, from: origin) }
        // The first request has already exchanged the authorization code. Apple accepts a code only once.
        case .repeated(let signedIn): user = signedIn
        case .refused: throw .unauthorized
        }
        return try await tokens.pair(
            of: user, sid: new.sid, refreshToken: refreshToken, for: .current, at: origin.at)
    }

    package func signInWithSingleToken(
        _ identity: AppleIdentity, profile: FirstProfile, from origin: RequestOrigin
    ) async throws(AccountFailure) -> SingleToken {
        let new = tokens.newSignIn(
            .legacy, by: .apple, sid: tokens.derived.sid(of: identity, .legacy), refreshToken: nil, from: origin)
        switch try await store.signIn(identity, profile: profile.usable, new) {
        case .signedIn(let user), .repeated(let user):
            await revoked()
            return try await tokens.singleToken(of: user, sid: new.sid, at: origin.at)
        case .refused: throw .unauthorized
        }
    }

    /// Exchanges the authorization code. If the exchange fails, the driver stays signed in, and an audit entry records
    /// the failure. An error of the store is ignored, because the next request will report it.
    private func exchange(
        _ authorizationCode: Secret<String>, of identity: AppleIdentity, driver: DriverID, from origin: RequestOrigin
    ) async {
        guard let exchange else { return }
        // If the phone disconnects, the request's task is cancelled. This unstructured task still stores the outcome,
        // because a code can be exchanged only once.
        await Task { [store] in
            let outcome = await exchange.exchange(authorizationCode, of: identity)
            try? await store.keep(outcome, of: identity, driver: driver, from: origin)
        }.value
    }

    package func identityTokenRefused(reason: String, from origin: RequestOrigin) async {
        try? await store.recordRefusal(.signInApple, reason: reason, from: origin)
    }

    // MARK: One-time codes

    package func sendCode(to phone: String, from origin: RequestOrigin) async throws(AccountFailure) {
        let number = try number(phone)
        let code = OneTimeCode.random()
        let expiresAt = origin.at.advanced(bySeconds: CodeRule.lifetimeSeconds)
        let new = NewCode(
            number: number, digest: digests.code(code.reveal(), for: number), expiresAt: expiresAt, origin: origin)
        switch try await store.issueCode(new, limits: sendLimits) {
        case .issued(let uses):
            delivery.deliver(
                OutgoingCode(phone: Secret(number.e164), code: code, issuedAt: origin.at, expiresAt: expiresAt))
            uses.filter(\.isNearLimit).forEach(alarm)
        case .heldBack(let uses): uses.filter(\.isNearLimit).forEach(alarm)
        case .limited(let seconds): throw .limited(retryAfterSeconds: seconds)
        }
    }

    package func signIn(
        phone: String, code: Secret<String>, for client: PairClient, from origin: RequestOrigin
    ) async throws(AccountFailure) -> TokenPair {
        let refreshToken = RefreshToken()
        let new = tokens.newSignIn(.pair, by: .otp, refreshToken: refreshToken, from: origin)
        let user = try await user(phone: phone, code: code, new)
        return try await tokens.pair(of: user, sid: new.sid, refreshToken: refreshToken, for: client, at: origin.at)
    }

    package func signInWithSingleToken(
        phone: String, code: Secret<String>, from origin: RequestOrigin
    ) async throws(AccountFailure) -> SingleToken {
        let new = tokens.newSignIn(.legacy, by: .otp, refreshToken: nil, from: origin)
        let user = try await user(phone: phone, code: code, new)
        return try await tokens.singleToken(of: user, sid: new.sid, at: origin.at)
    }

    private func user(
        phone: String, code: Secret<String>, _ new: NewSignIn
    ) async throws(AccountFailure) -> User {
        let number = try number(phone)
        let guess = digests.code(code.reveal(), for: number)
        guard case .signedIn(let user) = try await store.signIn(number, guess: guess, new) else {
            throw .unauthorized
        }
        await revoked()
        return user
    }

    private func number(_ phone: String) throws(AccountFailure) -> PhoneNumber {
        guard let number = PhoneNumber(phone) else {
            throw .invalid([
                FieldError(
                    pointer: "/phone",
                    detail: "must be a phone number with its country, in E.164: + and 8 to 15 digits")
            ])
        }
        return number
    }
}

extension FirstProfile {
    /// The profile without the values that PATCH /auth/me would reject. An unusable name must not prevent a sign-in.
    var usable: FirstProfile {
        FirstProfile(
            name: name.flatMap { AccountRules.acceptsName($0) ? $0 : nil },
            email: email.flatMap { AccountRules.acceptsEmail($0) ? $0 : nil },
            role: role.flatMap { AccountRules.roles.contains($0) ? $0 : nil } ?? AccountRules.roleDefault)
    }
}
