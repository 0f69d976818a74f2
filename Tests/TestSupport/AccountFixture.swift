// The account services on a database, connected as in the app's SignInWiring.swift.

import Foundation
package import JourneyModel
package import Secrets
package import SharedTables

@testable package import Identity

/// `Store` is the type of the opened store. `Place` says where the store's database is.
package struct AccountFixture<Store: Sendable, Place: Sendable>: Sendable {
    package static var scope: TokenScope { TokenScope(issuer: "dwell", audience: "dwell") }
    package static var start: Moment { .signedIn }

    package let place: Place
    package let store: Store
    private let closeStore: @Sendable () async -> Void
    package let digests: KeyedHashes
    package let accounts: StoredAccounts
    package let memory: SessionStatusCache
    package let verifier: AccessTokenVerifier
    package let signIns: SignIns
    package let sessions: TokenSessions
    package let own: Accounts
    package let devices: Devices
    package let phones = DeliveredCodes()
    package let exchange: ScriptedExchange

    /// A store, the tables of accounts in it, and the function that closes it.
    package typealias Opened = (store: Store, accounts: StoredAccounts, close: @Sendable () async -> Void)

    /// - Parameter open: opens the store in `place`. Its argument makes digests with the signing key.
    package init(
        in place: Place, secret: String, limits: CodeSendLimits, exchange: ScriptedExchange,
        alarm: @escaping @Sendable (CodeSendUse) -> Void, open: (KeyedHashes) throws -> Opened
    ) async throws {
        let key = try SigningKey(secret: Secret(secret))
        digests = KeyedHashes(signingKey: key)
        self.place = place
        (store, accounts, closeStore) = try open(digests)
        self.exchange = exchange
        memory = SessionStatusCache(store: accounts)
        await memory.catchUp()
        verifier = AccessTokenVerifier(
            key: key, scope: Self.scope, trustExternal: true, signInSessions: memory)
        let issuer = SessionTokenIssuer(
            issuer: await AccessTokenIssuer(key: key, scope: Self.scope), lifetimes: TokenLifetimes(),
            derived: DerivedTokens(signingKey: key))
        signIns = SignIns(
            store: accounts, tokens: issuer, digests: digests, sendLimits: limits, delivery: phones,
            exchange: exchange, alarm: alarm, revoked: memory.catchUp)
        sessions = TokenSessions(store: accounts, memory: memory, tokens: issuer, verifier: verifier)
        own = Accounts(store: accounts, memory: memory)
        devices = Devices(store: accounts)
    }

    package func close() async { await closeStore() }

    // MARK: Shortcuts

    package func signInWithApple(
        _ subject: String = "001.apple", nonce: String = UUID().uuidString, token: String? = nil, code: String? = nil,
        profile: FirstProfile = FirstProfile(), at now: Moment = .signedIn
    ) async throws -> TokenPair {
        try await signIns.signIn(
            .sample(subject, nonce: nonce, token: token), authorizationCode: code.map(Secret.init), profile: profile,
            from: .at(now))
    }

    package func signIn(phone: String, at now: Moment = .signedIn) async throws -> TokenPair {
        try await signIns.sendCode(to: phone, from: .at(now))
        return try await signIns.signIn(phone: phone, code: Secret(phones.last(to: phone)), from: .at(now))
    }

    package func caller(_ pair: TokenPair, at now: Moment = .signedIn) async throws -> Caller {
        try await verifier.verify(
            pair.accessToken.reveal(), atSecondsSince1970: now.millisecondsSinceEpoch / 1000)
    }

    package func refusal(of token: Secret<String>, at now: Moment = .signedIn) async -> TokenRefusal? {
        do throws(TokenRefusal) {
            _ = try await verifier.verify(token.reveal(), atSecondsSince1970: now.millisecondsSinceEpoch / 1000)
            return nil
        } catch {
            return error
        }
    }

    /// Returns the audit's lines as `action outcome reason`, the oldest first.
    package func audit() async throws -> [String] {
        try await accounts.read { db in
            try String.fetchAll(
                db, sql: "SELECT action || ' ' || outcome || coalesce(' ' || reason, '') FROM audit ORDER BY id")
        }
    }

    package func count(_ table: String) async throws -> Int {
        try await accounts.read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM \(table)") ?? -1 }
    }
}
