// The routes over ports that answer as they are told, without a socket. The one good token is "good"; it is driver
// "driver"'s, until it is revoked. The clock stands at the sample moment until it is moved.

import Engine
import HTTP1
import HTTPServer
import Identity
import JourneyModel
import Logging
import Synchronization
import TestSupport

@testable import API

final class ScriptedAPI: Sendable {
    let journeys = ScriptedJourneys()
    let tokens = ScriptedTokens()
    let clock = ManualClock()
    let streams: JourneyStreams
    let routes: [Route]
    static let silent = Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })

    init() {
        let settings = SettingsInForce(VersionedSettings(settings: Settings(), version: "v1"))
        let store = MemoryEventStore()
        streams = JourneyStreams(journeys: journeys, logger: Self.silent)
        let limits = RateLimits()
        let ingest = Ingest(store: store, admission: InProcessAdmission(limits: limits), settings: settings)
        routes =
            API(
                ingest: ingest, store: store, journeys: journeys, streams: streams, settings: settings, limits: limits,
                tokens: tokens, clock: { [clock] in clock.now }, logger: Self.silent
            ).routes
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
        return await route.handler(
            Request(
                method: method, path: path, query: parts.count > 1 ? String(parts[1]) : nil, fields: Fields(fields),
                id: "r1", receivedAtMilliseconds: clock.now.millisecondsSinceEpoch,
                parameters: ["session_id": name]))
    }
}

extension Response {
    /// Empty for a streamed body.
    var text: String {
        if case .bytes(let bytes) = body { String(decoding: bytes, as: UTF8.self) } else { "" }
    }
}

final class ScriptedTokens: TokenVerifier {
    private let isRevoked = Mutex(false)

    func revoke() { isRevoked.withLock { $0 = true } }

    func verify(_ token: String, atSecondsSince1970 now: Int64) async throws(TokenRefusal) -> Caller {
        guard token == "good", !isRevoked.withLock({ $0 }) else { throw .revoked }
        return Caller(driver: DriverID("driver"))
    }
}

/// Answers what it was told last; of the changes, those after the id that is asked for. Failing, it still has news.
final class ScriptedJourneys: JourneyReader {
    private struct State {
        var failure: StoreFailure?
        var journey = Journey()
        var page: SessionPage?
        var timeline = TimelineOutcome.sessionNotFound
        var changes: [JourneyChange] = []
        var asked: [String] = []
    }

    private let state = Mutex(State())

    var asked: [String] { state.withLock { $0.asked } }

    func fail(with failure: StoreFailure?) { state.withLock { $0.failure = failure } }
    func tell(_ journey: Journey) { state.withLock { $0.journey = journey } }
    func tell(_ page: SessionPage?) { state.withLock { $0.page = page } }
    func tell(_ timeline: TimelineOutcome) { state.withLock { $0.timeline = timeline } }
    func add(_ change: JourneyChange) { state.withLock { $0.changes.append(change) } }

    func journey(of driver: DriverID) async throws(StoreFailure) -> Journey {
        try answer { $0.journey }
    }

    func changes(of driver: DriverID, after id: Int64?) async throws(StoreFailure) -> JourneyChanges {
        try answer { state in
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

    func news(after id: Int64?) async throws(StoreFailure) -> JourneyNews {
        JourneyNews(newest: state.withLock { $0.changes.last?.id ?? 0 }, drivers: .any)
    }

    private func answer<Value: Sendable>(_ body: (inout State) -> Value) throws(StoreFailure) -> Value {
        try state.withLock { state -> Result<Value, StoreFailure> in
            if let failure = state.failure { return .failure(failure) }
            return .success(body(&state))
        }.get()
    }
}
