// Renews, lists and ends sign-in sessions. When a session ends, SessionStatusCache is updated before the response is
// sent, so that the session's tokens are rejected from then on.

package import JourneyModel
package import Secrets

package struct TokenSessions: SignInSessionService {
    private let store: any SignInSessionStore
    private let memory: SessionStatusCache
    private let tokens: SessionTokenIssuer
    private let verifier: AccessTokenVerifier

    package init(
        store: any SignInSessionStore, memory: SessionStatusCache, tokens: SessionTokenIssuer,
        verifier: AccessTokenVerifier
    ) {
        self.store = store
        self.memory = memory
        self.tokens = tokens
        self.verifier = verifier
    }

    // MARK: Renewing

    package func refresh(
        _ refreshToken: Secret<String>, for client: PairClient, from origin: RequestOrigin
    ) async throws(AccountFailure) -> TokenPair {
        let next = tokens.derived.successor(of: refreshToken)
        let outcome = try await store.rotate(
            plainDigest(refreshToken.reveal()), to: tokens.newRefreshToken(next, at: origin.at), from: origin)
        let (user, sid) = try await renewed(outcome)
        return try await tokens.pair(of: user, sid: sid, refreshToken: next, for: client, at: origin.at)
    }

    package func refreshSingleToken(
        _ token: String, from origin: RequestOrigin
    ) async throws(AccountFailure) -> SingleToken {
        let caller: Caller
        do throws(TokenRefusal) {
            caller = try await verifier.verifyForRenewal(
                token, atSecondsSince1970: origin.at.millisecondsSinceEpoch / 1000,
                pastExpirySeconds: TokenLifetimes.legacyRenewalSeconds)
        } catch {
            throw error == .undecided ? .unavailable("the sign-in session could not be read") : .unauthorized
        }
        guard let sid = caller.signInSession else { throw .unauthorized }
        let outcome = try await store.renew(
            sid, of: caller.driver, until: tokens.legacyExpiry(at: origin.at), from: origin)
        let (user, _) = try await renewed(outcome)
        return try await tokens.singleToken(of: user, sid: sid, at: origin.at)
    }

    private func renewed(_ outcome: RenewalOutcome) async throws(AccountFailure) -> (User, sid: String) {
        switch outcome {
        case .renewed(let user, let sid): return (user, sid)
        case .refused: throw .unauthorized
        case .ended:
            await memory.catchUp()
            throw .unauthorized
        }
    }

    // MARK: Ending

    package func signOut(
        _ caller: Caller, refreshToken: Secret<String>?, from origin: RequestOrigin
    ) async throws(AccountFailure) {
        var sids = Set(caller.signInSession.map { [$0] } ?? [])
        if let refreshToken {
            let named = try await store.session(ofToken: plainDigest(refreshToken.reveal()), of: caller.driver)
            if let named { sids.insert(named) }
        }
        if sids.isEmpty { return }
        _ = try await store.end(sids, of: caller.driver, as: .signOut, from: origin)
        await memory.catchUp()
    }

    package func signOutEverywhere(_ caller: Caller, from origin: RequestOrigin) async throws(AccountFailure) {
        try await store.endAll(of: caller.driver, from: origin)
        await memory.catchUp()
    }

    package func endSession(
        _ id: String, of caller: Caller, from origin: RequestOrigin
    ) async throws(AccountFailure) {
        guard try await store.end([id], of: caller.driver, as: .sessionEnded, from: origin) else { throw .notFound }
        await memory.catchUp()
    }

    // MARK: Reading

    package func sessions(of caller: Caller, at now: Moment) async throws(AccountFailure) -> [SignInSession] {
        try await store.sessions(of: caller.driver, at: now)
    }
}
