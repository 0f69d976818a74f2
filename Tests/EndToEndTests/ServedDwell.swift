// A server made of the real parts, wired as in App/Server/Wiring.swift. It has a real database, and serves real HTTP on
// a free loopback port. The clock is manual, so that an hour of driving takes seconds.

import API
import Engine
import Foundation
import HTTPServer
import Identity
import JourneyModel
import Logging
import RateLimiting
import SQLiteStore
import Secrets
import SharedTables
import Sockets
import TestSupport

final class ServedDwell: Sendable {
    let url: String
    let address: SocketAddress
    let streams: JourneyStreams
    let store: SQLiteEventStore
    let settings: Settings
    private let clock: ManualClock
    private let server: Server
    private let deadlines: ExpiryScheduler
    private let issuer: AccessTokenIssuer
    private let folder: String

    static func start(
        clock: ManualClock, settings: Settings = Settings(), admission: (any Admission)? = nil
    ) async throws -> ServedDwell {
        try await ServedDwell(clock: clock, settings: settings, admission: admission)
    }

    private init(clock: ManualClock, settings: Settings, admission: (any Admission)?) async throws {
        self.clock = clock
        self.settings = settings
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("dwell-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let quiet = Logger(label: "dwell") { _ in SwiftLogNoOpLogHandler() }
        let key = try SigningKey(secret: Secret("end-to-end-tests-sign-with-this-secret"))
        let digests = KeyedHashes(signingKey: key)
        store = try SQLiteEventStore(
            path: "\(folder)/dwell.sqlite3", nowMilliseconds: clock.now.millisecondsSinceEpoch, digests: digests)
        let inForce = CurrentSettings(VersionedSettings(settings: settings, version: settings.version))
        // The rate limits are off. They use real time, and the drive is much faster than real time.
        let limits = RateLimits(
            sessionEvents: 0, preSessionEvents: 0, auth: 0, registrations: 0, reads: 0, windowSeconds: 60)
        let scope = TokenScope(issuer: "dwell", audience: "dwell")
        issuer = await AccessTokenIssuer(key: key, scope: scope)
        let now: @Sendable () -> Moment = { clock.now }
        let admission = admission ?? LocalRateLimiter(limits: limits)
        streams = JourneyStreams(journeys: store, logger: quiet)
        let accounts = StoredAccounts(store: store, digests: digests)
        let memory = SessionStatusCache(store: accounts)
        let verifier = AccessTokenVerifier(key: key, scope: scope, trustExternal: true, signInSessions: memory)
        let mint = SessionTokenIssuer(
            issuer: issuer, lifetimes: TokenLifetimes(), derived: DerivedTokens(signingKey: key))
        let signIn = SignInServices(
            signIns: SignIns(
                store: accounts, tokens: mint, digests: digests, sendLimits: CodeSendLimits(),
                delivery: NobodyIsSent(), exchange: nil),
            sessions: TokenSessions(store: accounts, memory: memory, tokens: mint, verifier: verifier),
            accounts: Accounts(store: accounts, memory: memory), devices: Devices(store: accounts),
            sessionCodes: SessionCodes(store: accounts, digest: digests.sessionCode),
            appleTokens: AppleTokenVerifier(clientIDs: [], keys: AppleKeySet(source: NoKeySet(), clock: now)),
            appleNotices: Accounts(store: accounts, memory: memory), sendsCodes: false,
            publicKeySet: key.publicKeySet)
        let api = API(
            ingest: Ingest(store: store, admission: admission, settings: inForce),
            store: store, journeys: store, streams: streams, settings: inForce,
            limits: limits, admission: admission, tokens: verifier, signIn: signIn,
            operation: OperatorParts(
                token: nil, guesses: OperatorGuesses(admission: admission) { _, _ in }, reader: store, lists: store,
                drivers: DriverCounts(reader: store),
                history: OperationHistory(store: store, totals: { [:] }, clock: now, logger: quiet),
                figures: RequestStatistics { 0 }, admission: { "process" }, freeBytes: { nil }, outbox: { [] },
                version: "test"), bufferBudget: BufferBudget(bytesMax: 256 << 20), clock: now, logger: quiet)
        deadlines = ExpiryScheduler(store: store, settings: inForce, clock: now, logger: quiet)
        server = Server(
            configuration: ServerConfiguration(addresses: [.ip(host: "127.0.0.1", port: 0)]),
            routes: api.routes.map { Self.told(clock, $0) }, refusals: api.refusals, observer: NobodyLooks(),
            logger: quiet)
        let addresses = try await server.start()
        address = addresses[0]
        url = "http://\(address)"
    }

    /// In the returned route, the arrival times of requests come from the test's clock. Nothing else differs from
    /// production.
    private static func told(_ clock: ManualClock, _ route: Route) -> Route {
        var route = route
        route.responder = { [responder = route.responder] in responder(Self.told(clock, $0)) }
        if let check = route.credential {
            let judge = check.judge.map { judge -> RequestJudge in { await judge(Self.told(clock, $0)) } }
            route.credential = CredentialCheck(judge: judge, responder: { check.responder(Self.told(clock, $0)) })
        }
        return route
    }

    private static func told(_ clock: ManualClock, _ request: Request) -> Request {
        var request = request
        request.receivedAtMilliseconds = clock.now.millisecondsSinceEpoch
        return request
    }

    func storeDueExpiries() async throws {
        try await deadlines.storeDueExpiries()
    }

    func token(of driver: DriverID) async throws -> String {
        let now = clock.now.millisecondsSinceEpoch / 1000
        return try await issuer.mint(driver: driver, role: nil, ttlSeconds: 86_400, now: now)
    }

    func stop() async {
        await server.drain(withinSeconds: 1)
        await store.close()
        try? FileManager.default.removeItem(atPath: folder)
    }
}

private struct NoKeySet: AppleKeySetSource {
    func fetch() async -> FetchedKeySet? { nil }
}

private struct NobodyIsSent: CodeDelivery {
    func deliver(_ code: OutgoingCode) {}
}

private final class NobodyLooks: RequestObserver {
    func answered(_ request: CompletedRequest) {}
}
