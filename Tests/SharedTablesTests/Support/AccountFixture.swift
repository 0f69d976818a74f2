// The account services on a real database of either kind, with a manual clock. They are connected as in Wiring.swift of
// the app.

import Engine
import Foundation
import JourneyModel
import Secrets
import SharedTables
import Synchronization

@testable import Identity

struct AccountFixture {
    static let scope = TokenScope(issuer: "dwell", audience: "dwell")
    static let start = Moment.signedIn

    let database: TestDatabase
    let store: any AccountDatabase & EventStore
    private let closeStore: @Sendable () async -> Void
    let digests: KeyedHashes
    let accounts: StoredAccounts
    let memory: SessionStatusCache
    let verifier: AccessTokenVerifier
    let signIns: SignIns
    let sessions: TokenSessions
    let own: Accounts
    let devices: Devices
    let phones = DeliveredCodes()
    let exchange: ScriptedExchange

    /// Creates a database.
    init(
        _ kind: DatabaseKind, limits: CodeSendLimits = CodeSendLimits(),
        exchange: ScriptedExchange = ScriptedExchange(),
        alarm: @escaping @Sendable (CodeSendUse) -> Void = { _ in }
    ) async throws {
        try await self.init(in: TestDatabase(kind), limits: limits, exchange: exchange, alarm: alarm)
    }

    /// Opens a database. Another fixture may have it open too.
    init(
        in database: TestDatabase, limits: CodeSendLimits = CodeSendLimits(),
        exchange: ScriptedExchange = ScriptedExchange(), secret: String = "a secret of the tests, 32 bytes or more",
        alarm: @escaping @Sendable (CodeSendUse) -> Void = { _ in }
    ) async throws {
        self.database = database
        let key = try SigningKey(secret: Secret(secret))
        digests = KeyedHashes(signingKey: key)
        (store, closeStore) = try database.open(digests)
        accounts = StoredAccounts(store: store, digests: digests)
        memory = SessionStatusCache(store: accounts)
        await memory.catchUp()
        verifier = AccessTokenVerifier(
            key: key, scope: Self.scope, trustExternal: true, signInSessions: memory)
        let mint = SessionTokenIssuer(
            issuer: await AccessTokenIssuer(key: key, scope: Self.scope), lifetimes: TokenLifetimes(),
            derived: DerivedTokens(signingKey: key))
        self.exchange = exchange
        signIns = SignIns(
            store: accounts, tokens: mint, digests: digests, sendLimits: limits, delivery: phones, exchange: exchange,
            alarm: alarm)
        sessions = TokenSessions(store: accounts, memory: memory, tokens: mint, verifier: verifier)
        own = Accounts(store: accounts, memory: memory)
        devices = Devices(store: accounts)
    }

    func close() async { await closeStore() }

    // MARK: Shortcuts

    func signInWithApple(
        _ subject: String = "001.apple", nonce: String = UUID().uuidString, token: String? = nil, code: String? = nil,
        profile: FirstProfile = FirstProfile(), at now: Moment = start
    ) async throws -> TokenPair {
        try await signIns.signIn(
            .sample(subject, nonce: nonce, token: token), authorizationCode: code.map(Secret.init), profile: profile,
            from: .at(now))
    }

    func signIn(phone: String, at now: Moment = start) async throws -> TokenPair {
        try await signIns.sendCode(to: phone, from: .at(now))
        return try await signIns.signIn(phone: phone, code: Secret(phones.last(to: phone)), from: .at(now))
    }

    func caller(_ pair: TokenPair, at now: Moment = start) async throws -> Caller {
        try await verifier.verify(
            pair.accessToken.reveal(), atSecondsSince1970: now.millisecondsSinceEpoch / 1000)
    }

    func refusal(of token: Secret<String>, at now: Moment = start) async -> TokenRefusal? {
        do throws(TokenRefusal) {
            _ = try await verifier.verify(token.reveal(), atSecondsSince1970: now.millisecondsSinceEpoch / 1000)
            return nil
        } catch {
            return error
        }
    }

    /// Returns the audit's lines as `action outcome reason`, the oldest first.
    func audit() async throws -> [String] {
        try await accounts.read { db in
            try String.fetchAll(
                db, sql: "SELECT action || ' ' || outcome || coalesce(' ' || reason, '') FROM audit ORDER BY id")
        }
    }

    func count(_ table: String) async throws -> Int {
        try await accounts.read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM \(table)") ?? -1 }
    }
}
