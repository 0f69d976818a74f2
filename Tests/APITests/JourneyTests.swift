// Tests of the routes that read journeys, without a socket: authorization, page sizes, and the exact bytes of
// responses.

import Engine
import HTTP1
import HTTPServer
import Identity
import JourneyModel
import Logging
import TestSupport
import Testing

@testable import API

struct PageQueryTests {
    private func read(_ query: String?) throws -> PageQuery {
        try PageQuery(query, limitDefault: 20, limitMax: 100)
    }

    @Test(
        arguments: [
            (nil, 20), ("", 20), ("limit=1", 1), ("limit=100", 100), ("other=x&limit=7", 7), ("limit=007", 7),
            ("&&", 20),
        ] as [(String?, Int)])
    func `limits from 1 to 100 pass, and unknown parameters`(_ query: String?, _ limit: Int) throws {
        #expect(try read(query).limit == limit)
    }

    @Test(arguments: [
        "limit=0", "limit=101", "limit=-1", "limit=+5", "limit=", "limit", "limit=1.0", "limit=5&limit=5", "limit=%35",
        "limit=99999999999999999999999",
    ])
    func `other limits are 400 with a pointer`(_ query: String) {
        #expect(pointers(query) == ["/limit"])
    }

    @Test(arguments: [
        "x", "", "e", "e0", "s", "ZTU=", "%00", "ZQ", "ZTA", "ZS0x", String(repeating: "A", count: 800),
        // The session_id in these cursors contains a NUL.
        "cwA", "c3MxAA",
    ])
    func `a cursor that was never given out is 400 with a pointer`(_ text: String) {
        #expect(pointers("cursor=\(text)") == ["/cursor"])
    }

    @Test func `a cursor that was given out is accepted`() {
        #expect(pointers("cursor=czE") == [])
    }

    @Test func `all errors are told at once`() {
        #expect(pointers("limit=0&cursor=!") == ["/limit", "/cursor"])
    }

    @Test(arguments: ["s1", "\u{301}b", "\u{e9}\u{1F600}", "a/b?c=d&e", String(repeating: "x", count: 128)])
    func `a cursor comes back as what it was`(_ sessionID: String) {
        let text = PageCursor.session(sessionID).text
        #expect(PageCursor(text) == .session(sessionID))
        #expect(text.utf8.allSatisfy { $0.isASCIIAlphanumeric || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_") })
        #expect(PageCursor(PageCursor.event(.max).text) == .event(.max))
    }

    private func pointers(_ query: String) -> [String] {
        do {
            _ = try read(query)
            return []
        } catch let refused as ProblemResponse {
            #expect(refused.problem.code == .validationFailed)
            return refused.problem.errors.map(\.pointer)
        } catch {
            return ["\(error)"]
        }
    }
}

extension UInt8 {
    fileprivate var isASCIIAlphanumeric: Bool {
        (0x30...0x39).contains(self) || (0x41...0x5A).contains(self) || (0x61...0x7A).contains(self)
    }
}

struct JourneyRouteTests {
    private static let paths = ["/native/session", "/native/sessions", "/native/sessions/s1", "/native/session/stream"]

    @Test(arguments: paths) func `no route is read without a token`(_ path: String) async throws {
        let api = ScriptedAPI()
        for fields in [[], [("Authorization", "Bearer bad")]] as [[(String, String)]] {
            let response = await api.ask(path, fields: fields)
            #expect(response.status == .unauthorized)
        }
        #expect(api.streams.count == 0)
    }

    @Test(arguments: paths) func `a store that cannot be read is 503, to be asked again`(_ path: String) async throws {
        let api = ScriptedAPI()
        api.journeys.fail(with: .unavailable("disk"))
        let response = await api.askSignedIn(path)
        #expect(response.status == .serviceUnavailable)
        #expect(response.fields.first("Retry-After") == "5")
        #expect(!response.text.contains("disk"))
        #expect(api.streams.count == 0)
    }

    @Test func `the session shows state, target, deadlines and what is left of them`() async throws {
        let api = ScriptedAPI()
        api.journeys.stub(
            Journey(
                state: .inTransit, sessionID: "s1", targetChargerID: "c1",
                graceDeadline: .sample.advanced(byMilliseconds: 899_001),
                hardDeadline: .sample.advanced(byMilliseconds: 3_000_000)))
        let response = await api.askSignedIn("/native/session")
        #expect(response.fields.first("Cache-Control") == "no-store")
        #expect(
            response.text == """
                {"state":"IN_TRANSIT","session_id":"s1","target_charger_id":"c1","deadlines":\
                {"grace":{"at":"2026-11-16T20:14:59.001Z","seconds_left":900},\
                "hard":{"at":"2026-11-16T20:50:00.000Z","seconds_left":3000}},\
                "settings_version":"v1","as_of":"2026-11-16T20:00:00.000Z"}
                """)
    }

    @Test func `a deadline that has passed ends the session in the answer, stored or not`() async throws {
        let api = ScriptedAPI()
        api.journeys.stub(
            Journey(state: .sessionActive, sessionID: "s1", hardDeadline: .sample.advanced(byMilliseconds: -1)))
        let text = await api.askSignedIn("/native/session").text
        #expect(
            text.hasPrefix(#"{"state":"SESSION_ENDED","ended_by":"hard_timeout","session_id":"s1","deadlines":{},"#))
    }

    @Test func `who has no events stands in IDLE`() async throws {
        let text = await ScriptedAPI().askSignedIn("/native/session").text
        #expect(
            text == #"{"state":"IDLE","deadlines":{},"settings_version":"v1","as_of":"2026-11-16T20:00:00.000Z"}"#)
    }

    @Test func `a page of sessions names the next one only when there is one`() async throws {
        let api = ScriptedAPI()
        let session = SessionSummary(
            sessionID: "s1", openedAt: .sample, registeredAt: .sample, chargerID: "c", merchantID: "m",
            journey: Journey(state: .atMerchant, sessionID: "s1", hardDeadline: .sample.advanced(bySeconds: 60)))
        let members = """
            "session_id":"s1","state":"AT_MERCHANT","charger_id":"c","merchant_id":"m",\
            "opened_at":"2026-11-16T20:00:00.000Z","registered_at":"2026-11-16T20:00:00.000Z"
            """
        api.journeys.stub(SessionPage(sessions: [session], hasMore: false))
        #expect(await api.askSignedIn("/native/sessions").text == "{\"sessions\":[{\(members)}]}")
        api.journeys.stub(SessionPage(sessions: [session], hasMore: true))
        #expect(
            await api.askSignedIn("/native/sessions?limit=1").text
                == "{\"sessions\":[{\(members)}],\"next_cursor\":\"c3Mx\"}")
        #expect(api.journeys.asked == ["sessions 20 -", "sessions 1 -"])
    }

    @Test func `a long page of sessions is charged as several reads`() async throws {
        let api = ScriptedAPI()
        let sessions = (0..<100).map { number in
            SessionSummary(
                sessionID: "s\(number)", openedAt: .sample, registeredAt: nil, chargerID: nil, merchantID: nil,
                journey: nil)
        }
        api.journeys.stub(SessionPage(sessions: sessions, hasMore: false))
        _ = await api.askSignedIn("/native/sessions?limit=100")
        let response = await api.askSignedIn("/native/session")
        #expect(response.fields.first("RateLimit")?.hasPrefix("\"reads\";r=594;") == true)
    }

    @Test func `a cursor is handed on, and one that names nothing is 400`() async throws {
        let api = ScriptedAPI()
        api.journeys.stub(nil as SessionPage?)
        let response = await api.askSignedIn("/native/sessions?cursor=c3Mx")
        #expect(response.status == .badRequest)
        #expect(response.text.contains(#""pointer":"/cursor""#))
        #expect(api.journeys.asked == ["sessions 20 s1"])
        for path in ["/native/sessions?cursor=ZTU", "/native/sessions/s1?cursor=c3Mx"] {
            #expect(await api.askSignedIn(path).status == .badRequest, "a cursor of the other list")
        }
        #expect(api.journeys.asked.count == 1)
    }

    @Test func `a timeline tells each event with its verdict`() async throws {
        let api = ScriptedAPI()
        let event = SessionEvent(
            id: 5, eventID: "e", idempotencyKey: "k", name: .departedCharger,
            sent: SentMembers(source: "ios_native", appState: "background", sequence: 3), occurredAt: .sample,
            occurredAtText: "2026-11-16T21:00:00+01:00", receivedAt: .sample.advanced(bySeconds: 1),
            settingsVersion: "v0", verdict: .rejected(.noSuchTransition), state: .idle)
        let session = SessionSummary(sessionID: "s1", openedAt: .sample)
        api.journeys.stub(.found(SessionTimeline(session: session, events: [event], hasMore: true)))
        let response = await api.askSignedIn("/native/sessions/s1?limit=1")
        #expect(
            response.text == """
                {"session_id":"s1","opened_at":"2026-11-16T20:00:00.000Z","events":[{"event_id":"e",\
                "idempotency_key":"k","event":"exitedChargerAnchorZone","source":"ios_native",\
                "app_state":"background","sequence":3,"occurred_at":"2026-11-16T20:00:00.000Z",\
                "occurred_at_sent":"2026-11-16T21:00:00+01:00","received_at":"2026-11-16T20:00:01.000Z",\
                "settings_version":"v0","transition":"rejected","reason":"no_such_transition","state":"IDLE"}],\
                "next_cursor":"ZTU"}
                """)
        #expect(api.journeys.asked == ["timeline s1 1 -"])
    }

    @Test func `another driver's session is 404, as one that never was`() async throws {
        let response = await ScriptedAPI().askSignedIn("/native/sessions/theirs")
        #expect(response.status == .notFound)
        #expect(response.text.contains(#""code":"session_not_found""#))
    }
}
