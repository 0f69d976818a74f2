// All routes of the API with scripted services, called without a socket. The clock stands still at `Moment.sample`
// until a test moves it.
//
// The token "good" belongs to the driver "driver" and is valid until a test revokes it. The token "service" belongs to
// the service "partner". The status of the token "undecided" cannot be read.

import Engine
import HTTP1
import HTTPServer
import Identity
import JourneyModel
import Logging
import PrometheusExport
import RateLimiting
import Secrets
import Synchronization
import TestSupport

@testable import API

final class ScriptedAPI: Sendable {
    let journeys = ScriptedJourneys()
    let tokens = ScriptedTokens()
    let clock = ManualClock()
    let streams: JourneyStreams
    let signIn = ScriptedSignIn()
    let purchases = ScriptedPurchases()
    let operators = ScriptedOperatorReader()
    let figures: RequestStatistics
    let metrics = PrometheusMetrics()
    let bufferBudget: BufferBudget
    /// The recorded audit lines about wrong operator tokens.
    let guessed = Guessed()
    let surface: [Endpoint]
    let refusals: RefusalRenderer
    var routes: [Route] { surface.map(\.route) }
    static let operatorToken = "operator-of-these-tests"
    static let serverSettings = ServerSettings(
        instance: "a", startedAt: Moment(millisecondsSinceEpoch: 0), loadedAt: Moment(millisecondsSinceEpoch: 0),
        reload: ServerSettings.Reload(
            at: Moment(millisecondsSinceEpoch: 1000), isGood: false, problems: ["HTTP_PORT=x is not allowed"]),
        needsRestart: ["LOG_LEVEL"], unknown: [ServerSettings.Unknown(name: "LOG_LEVLE", nearest: "LOG_LEVEL")],
        settings: [
            ServerSettings.Setting(name: "LOG_LEVEL", value: "info", source: "default"),
            ServerSettings.Setting(name: "JWT_SECRET", value: "set", source: "environment"),
        ])
    static let instances = [
        InstanceState(
            instance: Instance(
                name: "b", version: "1.2.3", settingsVersion: "v1", settings: [:],
                startedAt: Moment(millisecondsSinceEpoch: 0), heartbeatAt: Moment(millisecondsSinceEpoch: 0)),
            isAlive: true, isThisOne: false, differences: ["RATE_LIMIT_AUTH"])
    ]
    static let links = AppLinks(
        appIDs: ["ABCDE12345.com.example.app", "ABCDE12345.com.example.beta"],
        paths: [
            AppLinks.Path(pattern: "/open/web/*", isExcluded: true),
            AppLinks.Path(pattern: "/open/*", isExcluded: false),
        ],
        androidApps: [
            AppLinks.AndroidApp(packageName: "com.example.app", fingerprints: ["AA:BB", "CC:DD"]),
            AppLinks.AndroidApp(packageName: "com.example.beta", fingerprints: ["EE:FF"]),
        ])
    static let silent = Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })

    /// The public pages. A test may replace them.
    let pages: PublicPages

    /// - Parameters:
    ///   - hasLinks: whether app links, their apps and the public pages are configured.
    ///   - rules: the rules that give some drivers other settings. If nil, all drivers have the same settings.
    init(
        limits: RateLimits = RateLimits(), sendsCodes: Bool = true, takesPurchases: Bool = true, hasLinks: Bool = true,
        rules: SettingsRules? = nil, bufferedBytesMax: Int = 256 << 20
    ) {
        bufferBudget = BufferBudget(bytesMax: bufferedBytesMax)
        let page = PublicPage(bytes: Array("<p>Page</p>".utf8), mediaType: "text/html; charset=utf-8")
        pages = PublicPages(hasLinks ? [.privacy: page, .terms: page, .support: page] : [:])
        let settings = CurrentSettings(VersionedSettings(settings: Settings(), version: "v1"), rules: rules)
        let store = MemoryEventStore()
        streams = JourneyStreams(journeys: journeys, logger: Self.silent)
        let admission = LocalRateLimiter(limits: limits)
        let ingest = Ingest(store: store, admission: admission, settings: settings)
        figures = RequestStatistics { [clock] in clock.now.millisecondsSinceEpoch / 1000 }
        let history = OperationHistory(
            store: operators, totals: { ["event.applied": 3, "source.web": 3, "status.200": 2, "duration.1000": 2] },
            clock: { [clock] in clock.now }, logger: Self.silent)
        let operation = OperatorParts(
            token: Secret(Self.operatorToken), guesses: guessed.guesses(admission), reader: operators, lists: operators,
            drivers: DriverCounts(reader: operators), history: history, figures: figures, admission: { "redis" },
            freeBytes: { 7 },
            outbox: {
                [OutboxStatus(queue: "analytics", waitingCount: 2, oldest: .sample, lostCount: 0)]
            }, version: "1.2.3",
            settings: { Self.serverSettings }, instances: { Self.instances })
        let api =
            API(
                ingest: ingest, store: store, journeys: journeys, streams: streams, settings: settings, limits: limits,
                admission: admission, tokens: tokens, signIn: signIn.services(sendsCodes: sendsCodes),
                purchases: takesPurchases ? purchases : nil, operation: operation,
                links: hasLinks ? Self.links : AppLinks(), pages: pages,
                bufferBudget: bufferBudget, clock: { [clock] in clock.now }, logger: Self.silent, metrics: metrics)
        surface = api.surface
        refusals = api.refusals
    }

    func askSignedIn(_ target: String, method: HTTP1.Method = .get, lastEventID: String? = nil) async -> Response {
        var fields = [("Authorization", "Bearer good")]
        if let lastEventID { fields.append(("Last-Event-ID", lastEventID)) }
        return await ask(target, method: method, fields: fields)
    }

    func ask(_ target: String, method: HTTP1.Method = .get, fields: [(String, String)]) async -> Response {
        let parts = target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let path = String(parts[0])
        let literal = routes.first { $0.method == .get && $0.template == path }
        let route = literal ?? routes.first { $0.method == .get && $0.template == "/native/sessions/{session_id}" }
        guard let route else { return Response(status: .notFound) }
        let name = path.split(separator: "/").last.map(String.init) ?? ""
        return await route.response(
            to: Request(
                method: method, path: path, query: parts.count > 1 ? String(parts[1]) : nil, fields: Fields(fields),
                id: "r1", receivedAtMilliseconds: clock.now.millisecondsSinceEpoch,
                parameters: ["session_id": name]))
    }
}

extension ScriptedAPI {
    func send(
        _ method: String, _ target: String, _ body: String, type: String? = "application/json", token: String = "good",
        address: String = "192.0.2.1", requestID: String = "r1"
    ) async -> Response {
        let parts = target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let segments = parts[0].split(separator: "/")
        var fields = [("Authorization", "Bearer \(token)")]
        if let type { fields.append(("Content-Type", type)) }
        for route in routes where route.method.rawValue == method {
            let names = route.template.split(separator: "/")
            guard names.count == segments.count,
                zip(names, segments).allSatisfy({ $0 == $1 || $0.hasPrefix("{") })
            else { continue }
            let parameters = zip(names, segments).filter { $0.0.hasPrefix("{") }
                .map { (String($0.dropFirst().dropLast()), String($1)) }
            return await route.response(
                to: Request(
                    method: route.method, path: String(parts[0]), query: parts.count > 1 ? String(parts[1]) : nil,
                    fields: Fields(fields), body: Array(body.utf8), bodyBytesMax: route.bodyBytesMax, id: requestID,
                    receivedAtMilliseconds: clock.now.millisecondsSinceEpoch, remoteAddress: address,
                    parameters: Dictionary(uniqueKeysWithValues: parameters)))
        }
        return Response(status: .notFound)
    }
}

/// A recorder of the lines that the audit log would contain.
final class Guessed: Sendable {
    private let state = Mutex<[String]>([])

    var lines: [String] { state.withLock { $0 } }

    func guesses(_ admission: any Admission) -> OperatorGuesses {
        OperatorGuesses(admission: admission) { [self] token, origin in
            state.withLock { $0.append("\(token) \(origin.address)") }
        }
    }
}

extension RateLimits {
    static let off = RateLimits(
        sessionEvents: 0, preSessionEvents: 0, serviceEvents: 0, auth: 0, registrations: 0, devices: 0, account: 0,
        reads: 0, pings: 0, purchases: 0, notifications: 0, operatorGuesses: 0)
}

extension Response {
    /// The body as text; empty for a streamed body.
    var text: String {
        if case .bytes(let bytes) = body { String(decoding: bytes, as: UTF8.self) } else { "" }
    }
}

final class ScriptedTokens: TokenVerifier {
    private let isRevoked = Mutex(false)

    func revoke() { isRevoked.withLock { $0 = true } }

    func judge(_ token: UnsafeRawBufferPointer, atSecondsSince1970 now: Int64) -> TokenVerdict {
        if token.elementsEqual("service".utf8) {
            return .known(Caller(driver: DriverID("partner"), role: TokenRole.service.rawValue))
        }
        guard token.elementsEqual("good".utf8) else {
            let refusal: TokenRefusal = token.elementsEqual("undecided".utf8) ? .undecided : .revoked
            return .needsLookup { () async throws(TokenRefusal) in throw refusal }
        }
        return isRevoked.withLock { $0 } ? .refused(.revoked) : .known(Caller(driver: DriverID("driver")))
    }
}

/// A reader that returns stubbed values. After `fail(with:)`, reads throw, but `committedChanges` does not.
final class ScriptedJourneys: JourneyReader {
    private struct State {
        var failure: StoreFailure?
        var journey = Journey()
        var page: SessionPage?
        var timeline = TimelineOutcome.sessionNotFound
        var changes: [JourneyChange] = []
        var refolded: Journey?
        var asked: [String] = []
    }

    private let state = Mutex(State())

    var asked: [String] { state.withLock { $0.asked } }

    func fail(with failure: StoreFailure?) { state.withLock { $0.failure = failure } }
    func stub(_ journey: Journey) { state.withLock { $0.journey = journey } }
    func stub(_ page: SessionPage?) { state.withLock { $0.page = page } }
    func stub(_ timeline: TimelineOutcome) { state.withLock { $0.timeline = timeline } }
    func add(_ change: JourneyChange) { state.withLock { $0.changes.append(change) } }

    func refold(to journey: Journey) { state.withLock { ($0.refolded, $0.changes) = (journey, []) } }

    func journey(of driver: DriverID) async throws(StoreFailure) -> Journey {
        try answer { $0.journey }
    }

    func changes(of driver: DriverID, after id: Int64?) async throws(StoreFailure) -> JourneyChanges {
        try answer { state in
            if let refolded = state.refolded, state.changes.isEmpty {
                return .newest(JourneyChange(id: 0, journey: refolded, cause: nil))
            }
            if let id, id <= state.changes.last?.id ?? 0 { return .all(state.changes.filter { $0.id > id }) }
            return .newest(state.changes.last ?? JourneyChange(id: 0, journey: Journey(), cause: nil))
        }
    }

    func sessions(of driver: DriverID, limit: Int, after cursor: String?) async throws(StoreFailure) -> SessionPage? {
        try answer { state in
            state.asked.append("sessions \(limit) \(cursor ?? "-")")
            return state.page
        }
    }

    func timeline(
        of sessionID: String, of driver: DriverID, limit: Int, after cursor: Int64?
    ) async throws(StoreFailure) -> TimelineOutcome {
        try answer { state in
            state.asked.append("timeline \(sessionID) \(limit) \(cursor.map { String($0) } ?? "-")")
            return state.timeline
        }
    }

    func committedChanges(
        after id: Int64?, among drivers: Set<DriverID>
    ) async throws(StoreFailure) -> CommittedChanges {
        CommittedChanges(newest: state.withLock { $0.changes.last?.id ?? 0 }, drivers: .any)
    }

    func driversAwaitingRefold(among drivers: Set<DriverID>) async throws(StoreFailure) -> Set<DriverID> { [] }

    func correctedJourneys(after id: Int64?) async throws(StoreFailure) -> CommittedChanges {
        CommittedChanges(newest: 0, drivers: .these([]))
    }

    private func answer<Value: Sendable>(_ body: (inout State) -> Value) throws(StoreFailure) -> Value {
        try state.withLock { state -> Result<Value, StoreFailure> in
            if let failure = state.failure { return .failure(failure) }
            return .success(body(&state))
        }.get()
    }
}
