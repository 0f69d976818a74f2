// Tests of the operator routes: the credentials that they accept, and the data that they return.

import Engine
import Foundation
import HTTP1
import HTTPServer
import JourneyModel
import Synchronization
import TestSupport
import Testing

@testable import API

@Suite struct OperatorTests {
    private let api = ScriptedAPI()

    private func ask(_ path: String, query: String? = nil, token: String?) async -> Response {
        let route = api.routes.first { $0.method == .get && $0.template == path }
        guard let route else { return Response(status: .notFound) }
        return await route.response(
            to: Request(
                method: .get, path: path, query: query,
                fields: Fields(token.map { [("Authorization", "Bearer \($0)")] } ?? []),
                id: "r1", receivedAtMilliseconds: api.clock.now.millisecondsSinceEpoch,
                parameters: ["session_id": "s", "driver_id": "d"]))
    }

    @Test(arguments: [
        "/ops/picture", "/ops/stream", "/ops/settings", "/ops/config", "/ops/history", "/ops/drivers",
        "/ops/drivers/{driver_id}", "/ops/sessions", "/ops/sessions/{session_id}", "/ops/events", "/ops/refusals",
    ])
    func onlyWhoRunsTheServerMayLook(path: String) async {
        #expect(await ask(path, token: nil).status == .unauthorized)
        #expect(await ask(path, token: "bad").status == .unauthorized)
        #expect(await ask(path, token: ScriptedAPI.operatorToken + "x").status == .unauthorized)
        // "good" is a driver's valid token.
        #expect(await ask(path, token: "good").status == .forbidden)
        #expect(await ask(path, token: ScriptedAPI.operatorToken).status == .ok)
    }

    @Test func guessesAreLimitedByAddressAndAudited() async {
        func status(_ token: String, from address: String = "192.0.2.1") async -> Int {
            await api.send("GET", "/ops/picture", "", type: nil, token: token, address: address).status.code
        }
        for guess in 0..<9 { #expect(await status("guess-\(guess)") == 401) }
        // Only wrong tokens count as guesses. Requests with the correct token and requests without a token are never
        // counted.
        for _ in 0..<20 { #expect(await status(ScriptedAPI.operatorToken) == 200) }
        for _ in 0..<20 { #expect(await ask("/ops/picture", token: nil).status == .unauthorized) }
        #expect(await status("guess-9") == 401)
        let refused = await api.send("GET", "/ops/settings", "", type: nil, token: "guess-10")
        #expect(refused.status == .tooManyRequests && refused.fields.first("Retry-After") != nil)
        // This address is over its limit. Tokens from it are no longer checked, so even the correct token is rejected.
        #expect(await status(ScriptedAPI.operatorToken) == 429)
        #expect(await status("guess", from: "192.0.2.2") == 401)
        #expect(await status("guess", from: "2001:db8::1") == 401)
        #expect(
            api.guessed.lines == [
                "ops_token 192.0.2.1", "ops_token 192.0.2.1", "ops_token 192.0.2.2", "ops_token 2001:db8::1",
            ])
    }

    @Test func aTokenThatCannotBeCheckedIsNoGuess() async {
        for _ in 0..<20 { #expect(await ask("/ops/picture", token: "undecided").status == .serviceUnavailable) }
        #expect(await ask("/ops/picture", token: ScriptedAPI.operatorToken).status == .ok)
        #expect(api.guessed.lines.isEmpty)
    }

    @Test func guessesAtOnceAreNoMoreThanTheLimit() async {
        let statuses = await withTaskGroup(of: Int.self) { group in
            for guess in 0..<1000 {
                group.addTask { [api] in
                    await api.send("GET", "/ops/picture", "", type: nil, token: "guess-\(guess)").status.code
                }
            }
            return await group.reduce(into: [:]) { $0[$1, default: 0] += 1 }
        }
        #expect(statuses == [401: 10, 429: 990])
        #expect(api.guessed.lines.count == 2)
    }

    @Test func thePictureSaysWhatTheStoreCounts() async {
        api.operators.stub(
            drivers: [.anchored: 3],
            tallies: [
                EventTally(
                    minute: api.clock.now.millisecondsSinceEpoch / 60_000, name: "anchorDwellComplete",
                    verdict: .applied, state: .anchored, count: 4),
                EventTally(
                    minute: api.clock.now.millisecondsSinceEpoch / 60_000 - 3, name: "visitVerifiedByWeb",
                    verdict: .rejected(.notAtMerchant), state: .anchored, count: 2),
            ])
        let text = await ask("/ops/picture", token: ScriptedAPI.operatorToken).text
        #expect(text.contains(#""ANCHORED":3"#))
        #expect(text.contains(#""flow":[{"event":"anchorDwellComplete","to":"ANCHORED","count":4}]"#))
        #expect(
            text.contains(
                #""rejections":[{"event":"visitVerifiedByWeb","reason":"not_at_merchant","count":2}]"#))
        #expect(text.contains(#""admission":"redis""#))
        let oldest = RFC3339.text(of: .sample)
        #expect(text.contains(#""outbox":[{"queue":"analytics","waiting":2,"oldest_at":"\#(oldest)","lost":0}]"#))
        #expect(text.contains(#""storage":{"database_bytes":11,"free_bytes":7}"#))
        #expect(text.components(separatedBy: #"{"minute":"#).count == 61)
    }

    @Test func `the picture and the settings say how the last reload went, and who differs`() async {
        let reload =
            #""settings_reload":{"loaded_at":"1970-01-01T00:00:00.000Z","#
            + #""last_attempt_at":"1970-01-01T00:00:01.000Z","is_good":false,"#
            + #""problems":["HTTP_PORT=x is not allowed"],"needs_restart":["LOG_LEVEL"],"#
            + #""unknown":[{"name":"LOG_LEVLE","nearest":"LOG_LEVEL"}]}"#
        let picture = await ask("/ops/picture", token: ScriptedAPI.operatorToken).text
        #expect(picture.contains(reload))
        #expect(picture.contains(#""is_alive":true,"is_this_one":false,"differences":["RATE_LIMIT_AUTH"]}]"#))
        let settings = await ask("/ops/config", token: ScriptedAPI.operatorToken).text
        #expect(settings.contains(reload))
        #expect(
            settings.contains(
                #"{"name":"LOG_LEVEL","value":"info","source":"default","needs_restart":true},"#
                    + #"{"name":"JWT_SECRET","value":"set","source":"environment"}"#))
    }

    @Test func `the settings say who changed them, when, and why`() async {
        let text = await ask("/ops/settings", token: ScriptedAPI.operatorToken).text
        let at = RFC3339.text(of: .sample)
        let note = #""changed_by":"Ann","reason":"too many false starts","#
        #expect(text.hasPrefix(#"{"settings_version":"v1","in_force_since":"\#(at)","# + note), "\(text)")
        #expect(text.contains(#""changes":[{"at":"\#(at)","settings_version":"v1","# + note + #""settings":{"#))
        #expect(text.contains(#"{"at":"\#(at)","settings_version":"v0","settings":{"#))
        #expect(
            text.contains(
                #""reloads":[{"at":"\#(at)","instance":"one","is_good":false,"#
                    + #""details":["HTTP_PORT=x is not allowed"]}]"#))
    }

    @Test func aSessionThatIsNotThereIsNotFound() async {
        api.operators.forget()
        #expect(await ask("/ops/sessions/{session_id}", token: ScriptedAPI.operatorToken).status == .notFound)
    }

    @Test(arguments: [
        ("/ops/history", "range=2h", "/range"), ("/ops/drivers", "state=idle", "/state"),
        ("/ops/drivers", "limit=201", "/limit"), ("/ops/sessions", "ended=maybe", "/ended"),
        ("/ops/sessions", "from=yesterday", "/from"), ("/ops/sessions", "cursor=x", "/cursor"),
        ("/ops/sessions", "charger=%ff", "/charger"), ("/ops/events", "reason=unknown&reason=x", "/reason"),
        ("/ops/refusals", "status=200", "/status"), ("/ops/sessions", "charger=%00", "/charger"),
        ("/ops/events", "event=reset%00", "/event"), ("/ops/refusals", "driver=%C2%85", "/driver"),
    ])
    func whatIsWrongWithAListIsTold(path: String, query: String, pointer: String) async {
        let answer = await ask(path, query: query, token: ScriptedAPI.operatorToken)
        #expect(answer.status == .badRequest)
        #expect(answer.text.contains(#""pointer":"\#(pointer)""#), "\(answer.text)")
    }

    @Test func whatIsCountedSinceTheLastMinuteIsInTheHistory() async {
        let text = await ask("/ops/history", query: "range=15m", token: ScriptedAPI.operatorToken).text
        #expect(
            text.contains(
                #""events":{"applied":3},"sources":{"web":3},"statuses":{"200":2},"p50_us":500,"p90_us":900"#),
            "\(text)")
    }

    @Test func aRefusalIsThatOfItsDriver() async {
        for path in ["/native/sessions", "/native/sessions", "/native/sessions/{session_id}"] {
            _ = await ask(path, query: "limit=0", token: "good")
        }
        _ = await ask("/native/sessions", token: "bad")
        let all = await ask("/ops/refusals", token: ScriptedAPI.operatorToken).text
        #expect(all.contains(#""route":"/native/sessions","status":400,"count":2"#), "\(all)")
        #expect(all.contains(#"{"route":"/native/sessions","status":401,"count":1"#), "\(all)")
        let some = await ask("/ops/refusals", query: "status=401", token: ScriptedAPI.operatorToken).text
        #expect(!some.contains(#""status":400"#))
    }

    @Test func refusalsAreBoundedAndTheOldestGoFirst() {
        let refused = RefusedRequests()
        for number in 0...RefusedRequests.rowsMax {
            refused.note(
                .notFound, DriverID("d\(number)"), route: "/r", requestID: "r",
                at: Moment(millisecondsSinceEpoch: Int64(number)))
        }
        let rows = refused.list(of: nil, status: nil, limit: .max)
        #expect(rows.count == RefusedRequests.rowsMax)
        #expect(rows.first?.key.driver == DriverID("d\(RefusedRequests.rowsMax)"))
        #expect(rows.last?.key.driver == DriverID("d1"))
    }

    /// Every shown duration is at least the measured duration and at most 1.5 times the measured duration.
    @Test func durationsFallIntoTheirRanges() {
        for microseconds in [1, 2, 3, 4, 5, 7, 8, 100, 999, 1000, 12_345, 1_000_000, 4_000_000_000] as [UInt64] {
            let shown = RequestStatistics.microseconds(ofRange: RequestStatistics.range(microseconds: microseconds))
            #expect(shown >= Int64(microseconds) && Double(shown) <= 1.5 * Double(microseconds), "\(microseconds)")
        }
        #expect(RequestStatistics.range(microseconds: .max) == 63)
    }

    @Test func fiveMinutesAreRemembered() {
        func answer(_ status: Status, milliseconds: UInt64) {
            api.figures.answered(
                CompletedRequest(
                    requestID: "r", method: .get, routeTemplate: "/native/config", status: status,
                    durationNanoseconds: milliseconds * 1_000_000, bytesIn: 1, bytesOut: 1, remoteAddress: ""))
        }
        for milliseconds in 1...100 { answer(.ok, milliseconds: UInt64(milliseconds)) }
        answer(.notFound, milliseconds: 1)
        let sum = api.figures.sum()
        #expect(sum.statuses == [200: 100, 404: 1])
        #expect((50_000...75_000).contains(sum.p50Microseconds ?? 0))
        #expect((99_000...150_000).contains(sum.p99Microseconds ?? 0))
        api.clock.advance(bySeconds: 299)
        #expect(api.figures.sum().count == 101)
        api.clock.advance(bySeconds: 11)
        #expect(api.figures.sum() == RequestStatistics.Sum(seconds: 300))
    }
}

final class ScriptedOperatorReader: OperatorReader, OperatorListReader, HistoryStore {
    private struct State {
        var drivers: [JourneyState: Int] = [:]
        var tallies: [EventTally] = []
        var isThere = true
    }

    private let state = Mutex(State())

    func stub(drivers: [JourneyState: Int], tallies: [EventTally]) {
        state.withLock { ($0.drivers, $0.tallies) = (drivers, tallies) }
    }

    func forget() { state.withLock { $0.isThere = false } }

    func driverCounts() async throws(StoreFailure) -> [JourneyState: Int] { state.withLock { $0.drivers } }

    func tallies(after id: Int64?, since start: Moment) async throws(StoreFailure) -> EventTallies {
        EventTallies(last: 1, tallies: state.withLock { $0.tallies }, isWhole: true)
    }

    func storageBytes() async throws(StoreFailure) -> Int64 { 11 }

    func settingsVersions(limit: Int) async throws(StoreFailure) -> [SettingsVersionUse] { [] }

    func operatorTimeline(of sessionID: String, limit: Int) async throws(StoreFailure) -> OperatorTimeline? {
        guard state.withLock({ $0.isThere }) else { return nil }
        let session = SessionSummary(
            sessionID: sessionID, openedAt: .sample, registeredAt: nil, chargerID: nil, merchantID: nil, journey: nil)
        return OperatorTimeline(
            driver: DriverID("d"), timeline: SessionTimeline(session: session, events: [], hasMore: false))
    }

    func settingsHistory(limit: Int) async throws(StoreFailure) -> SettingsHistory {
        let settings = VersionedSettings(settings: Settings(), version: "v1")
        let wire = String(decoding: settings.settings.wireJSON, as: UTF8.self)
        return SettingsHistory(
            changes: [
                SettingsChange(
                    at: .sample, version: "v1", settings: wire,
                    note: SettingsChangeNote(changedBy: "Ann", reason: "too many false starts")),
                SettingsChange(at: .sample, version: "v0", settings: wire, note: SettingsChangeNote()),
            ],
            reloads: [
                SettingsReloadOf(
                    instance: "one",
                    reload: SettingsReloadRecord(at: .sample, isGood: false, details: ["HTTP_PORT=x is not allowed"]))
            ])
    }

    private static let driver = DriverSummary(
        driver: DriverID("d"), state: .idle, lastEventAt: nil, sessionID: nil, targetChargerID: nil,
        firstSeenAt: .sample)

    func drivers(
        in state: JourneyState?, before cursor: Int64?, limit: Int
    ) async throws(StoreFailure) -> ListPage<DriverSummary> { ListPage([Self.driver], next: 7) }

    func driver(_ driver: DriverID, sessions: Int, events: Int) async throws(StoreFailure) -> DriverDetail? {
        state.withLock(\.isThere) ? DriverDetail(summary: Self.driver, sessions: [], events: []) : nil
    }

    func sessions(
        _ filter: SessionFilter, before cursor: Int64?, limit: Int, at now: Moment
    ) async throws(StoreFailure) -> ListPage<OperatorSession> { ListPage([], next: nil) }

    func events(
        _ filter: EventFilter, before cursor: Int64?, limit: Int
    ) async throws(StoreFailure) -> ListPage<EventCase> { ListPage([], next: nil) }

    func search(_ text: String, limit: Int) async throws(StoreFailure) -> SearchResult {
        SearchResult(drivers: [Self.driver], sessions: [], chargerIDs: [])
    }

    func add(_ minutes: [HistoryStep], at now: Moment) async throws(StoreFailure) {}

    func history(since start: Moment, in range: HistoryRange) async throws(StoreFailure) -> [HistoryStep] { [] }
}
