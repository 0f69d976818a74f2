// Who may look at the operator's figures, and what they say.

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

    private func ask(_ path: String, token: String?) async -> Response {
        let route = api.routes.first { $0.method == .get && $0.template == path }
        guard let route else { return Response(status: .notFound) }
        return await route.handler(
            Request(
                method: .get, path: path, fields: Fields(token.map { [("Authorization", "Bearer \($0)")] } ?? []),
                id: "r1", receivedAtMilliseconds: api.clock.now.millisecondsSinceEpoch,
                parameters: ["session_id": "s"]))
    }

    @Test(arguments: ["/ops/picture", "/ops/stream", "/ops/settings", "/ops/sessions/{session_id}"])
    func onlyWhoRunsTheServerMayLook(path: String) async {
        #expect(await ask(path, token: nil).status == .unauthorized)
        #expect(await ask(path, token: "bad").status == .unauthorized)
        #expect(await ask(path, token: ScriptedAPI.operatorToken + "x").status == .unauthorized)
        // A driver's.
        #expect(await ask(path, token: "good").status == .forbidden)
        #expect(await ask(path, token: ScriptedAPI.operatorToken).status == .ok)
    }

    @Test func thePictureSaysWhatTheStoreCounts() async {
        api.operators.tell(
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
        #expect(text.contains(#""forwarding":{"waiting":2,"lost":0}"#))
        #expect(text.contains(#""storage":{"database_bytes":11,"free_bytes":7}"#))
        #expect(text.components(separatedBy: #"{"minute":"#).count == 61)
    }

    @Test func aSessionThatIsNotThereIsNotFound() async {
        api.operators.forget()
        #expect(await ask("/ops/sessions/{session_id}", token: ScriptedAPI.operatorToken).status == .notFound)
    }

    /// Every figure is at most half too high, and none too low.
    @Test func durationsFallIntoTheirRanges() {
        for microseconds in [1, 2, 3, 4, 5, 7, 8, 100, 999, 1000, 12_345, 1_000_000, 4_000_000_000] as [UInt64] {
            let shown = RequestFigures.microseconds(ofRange: RequestFigures.range(microseconds: microseconds))
            #expect(shown >= Int64(microseconds) && Double(shown) <= 1.5 * Double(microseconds), "\(microseconds)")
        }
        #expect(RequestFigures.range(microseconds: .max) == 63)
    }

    @Test func fiveMinutesAreRemembered() {
        func answer(_ status: Status, milliseconds: UInt64) {
            api.figures.answered(
                AnsweredRequest(
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
        #expect(api.figures.sum() == RequestFigures.Sum(seconds: 300))
    }
}

final class ScriptedOperatorReader: OperatorReader {
    private struct State {
        var drivers: [JourneyState: Int] = [:]
        var tallies: [EventTally] = []
        var isThere = true
    }

    private let state = Mutex(State())

    func tell(drivers: [JourneyState: Int], tallies: [EventTally]) {
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
}
