// The real parts of a server, wired as App/Wiring.swift does it, on a free loopback port and with a clock that a test
// moves: what takes a drive an hour takes the test seconds, over real HTTP and a real database.

import API
import Engine
import Foundation
import HTTPServer
import Identity
import JourneyModel
import Logging
import SQLiteStore
import Sockets
import Telemetry
import TestSupport

final class ServedDwell: Sendable {
    let url: String
    let store: SQLiteEventStore
    let settings: Settings
    private let clock: ManualClock
    private let server: Server
    private let deadlines: DeadlineKeeping
    private let issuer: AccessTokenIssuer
    private let folder: String

    static func start(clock: ManualClock, settings: Settings = Settings()) async throws -> ServedDwell {
        try await ServedDwell(clock: clock, settings: settings)
    }

    private init(clock: ManualClock, settings: Settings) async throws {
        self.clock = clock
        self.settings = settings
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("dwell-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let quiet = Logger(label: "dwell") { _ in SwiftLogNoOpLogHandler() }
        store = try SQLiteEventStore(
            path: "\(folder)/dwell.sqlite3", nowMilliseconds: clock.now.millisecondsSinceEpoch)
        let inForce = SettingsInForce(VersionedSettings(settings: settings, version: settings.version))
        // Limits are counted by another clock, which does not run as fast as this drive.
        let limits = RateLimits(sessionEvents: 0, preSessionEvents: 0, windowSeconds: 60)
        let key = try SigningKey(secret: Secret("end-to-end-tests-sign-with-this-secret"))
        let scope = TokenScope(issuer: "dwell", audience: "dwell")
        issuer = await AccessTokenIssuer(key: key, scope: scope)
        let now: @Sendable () -> Moment = { clock.now }
        let api = API(
            ingest: Ingest(store: store, admission: InProcessAdmission(limits: limits), settings: inForce),
            store: store, journeys: store, streams: JourneyStreams(journeys: store, logger: quiet), settings: inForce,
            limits: limits,
            tokens: await AccessTokenVerifier(key: key, scope: scope, trustExternal: true, signInSessions: nil),
            clock: now, logger: quiet)
        deadlines = DeadlineKeeping(store: store, settings: inForce, clock: now, logger: quiet)
        server = Server(
            configuration: ServerConfiguration(addresses: [.ip(host: "127.0.0.1", port: 0)]),
            routes: api.routes.map { Self.told(clock, $0) }, refusals: api.refusals, observer: NobodyLooks(),
            logger: quiet)
        let addresses = try await server.start()
        url = "http://\(addresses[0])"
    }

    /// The one thing that is not as it is in production: when a request came is read from the test's clock.
    private static func told(_ clock: ManualClock, _ route: Route) -> Route {
        var route = route
        route.handler = { [handler = route.handler] request in
            var request = request
            request.receivedAtMilliseconds = clock.now.millisecondsSinceEpoch
            return await handler(request)
        }
        return route
    }

    /// What the server's deadline service does when it wakes.
    func storeWhatIsDue() async throws {
        try await deadlines.storeWhatIsDue()
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

private struct NobodyLooks: RequestObserver {
    func answered(_ request: AnsweredRequest) {}
}
