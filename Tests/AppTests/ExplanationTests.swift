// Tests the output of `dwell explain` for a small database. The expected text follows from the rules of the contract.

import Engine
import Foundation
import JourneyModel
import SQLiteStore
import TestSupport
import Testing

@testable import App

@Suite struct ExplanationTests {
    private static let driver = DriverID("jonas")

    /// A request with one event. The first two requests in `bodies` belong to an earlier journey, which `dwell explain`
    /// omits. The other requests come from a phone whose clock is two hours ahead.
    typealias Body = (receivedAt: String, sentAt: String?, body: String)

    static let bodies: [Body] = [
        (
            "2026-11-16T18:00:00.000Z", nil,
            #"{"event_id":"e0","event":"enteredChargerIntentZone","occurred_at":"2026-11-16T17:59:59Z"}"#
        ),
        (
            "2026-11-16T18:01:00.000Z", nil,
            #"{"event_id":"e1","event":"exitedChargerIntentZone","occurred_at":"2026-11-16T18:00:59Z"}"#
        ),
        (
            "2026-11-16T19:00:00.250Z", "2026-11-16T21:00:00Z",
            #"{"event_id":"e2","event":"entered_charger_intent_zone","charger_id":"c1","sequence":1,"#
                + #""occurred_at":"2026-11-16T22:00:00+01:00"}"#
        ),
        (
            "2026-11-16T19:02:00.400Z", "2026-11-16T21:02:00Z",
            #"{"event_id":"e3","event":"exclusive_activated","session_id":"s0","occurred_at":"2026-11-16T21:01:59Z"}"#
        ),
        (
            "2026-11-16T19:05:00.250Z", "2026-11-16T21:05:00Z",
            #"{"event_id":"e4","event":"anchorDwellComplete","app_state":"background","#
                + #""occurred_at":"2026-11-16T21:05:00Z","metadata":{"lat":52.5,"lon":13.4}}"#
        ),
        (
            "2026-11-16T19:06:00.250Z", "2026-11-16T21:06:00Z",
            #"{"event_id":"e5","event":"exclusiveActivatedByWeb","session_id":"s1","merchant_id":"m1","#
                + #""occurred_at":"2026-11-16T21:06:00Z"}"#
        ),
        (
            "2026-11-16T19:10:00.250Z", "2026-11-16T21:10:00Z",
            #"{"event_id":"e6","idempotency_key":"k6","event":"exitedChargerAnchorZone","session_id":"s1","#
                + #""occurred_at":"2026-11-16T21:10:00Z"}"#
        ),
    ]

    private static func moment(_ text: String) throws -> Moment {
        try #require(RFC3339.moment(from: text))
    }

    /// Stores the events of `bodies` and `more` in a new database, and passes the database's records to `body`.
    static func recorded<Value>(
        with more: [Body] = [], _ body: (EventRecords) throws -> Value
    ) async throws -> Value {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("dwell-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appendingPathComponent("dwell.sqlite3").path
        let store = try SQLiteEventStore(path: path, nowMilliseconds: 0)
        for event in bodies + more {
            let submission = try EventSubmission.decode(
                Array(event.body.utf8), route: .native, headers: EventHeaders(sentAt: event.sentAt))
            let outcome = try await store.appended(
                AppendRequest(
                    driver: driver, submission: submission, receivedAt: try moment(event.receivedAt),
                    settings: VersionedSettings(settings: Settings(), version: "v1")))
            guard case .stored = outcome else { throw Unstored() }
        }
        await store.close()
        let records = try EventRecords(path: path)
        defer { records.close() }
        return try body(records)
    }

    private struct Unstored: Error {}

    @Test("the journey of a session, from the arrival at the charger on")
    func text() async throws {
        let lines = try await Self.recorded { records in
            let events = try #require(try records.events(ofSession: "s1"))
            return ExplanationText(isColored: false, showsMetadata: false).lines(of: events, session: "s1")
        }
        #expect(lines.joined(separator: "\n") == Self.expected)
    }

    private static let expected = """
        Session s1 of driver jonas: 5 events, in the order of the fold

         1  enteredChargerIntentZone  applied
            state      IDLE -> NEAR_CHARGER
            occurred   2026-11-16T22:00:00+01:00 as sent
            corrected  2026-11-16T19:00:00.250Z, by -7199.750 s
            sent       2026-11-16T21:00:00.000Z
            received   2026-11-16T19:00:00.250Z, skew -7199.750 s
            clock      skew taken from X-Sent-At
            from       ios_native, sequence 1, spelled entered_charger_intent_zone
            place      charger c1
            event id   e2
            settings   v1: grace period 900 s, hard timeout 3600 s

         2  exclusiveActivatedByWeb   rejected: not_anchored
            state      NEAR_CHARGER, as before
            why        a session can be activated only in ANCHORED
            occurred   2026-11-16T21:01:59Z as sent
            corrected  2026-11-16T19:01:59.250Z, by -7199.750 s
            sent       2026-11-16T21:02:00.000Z
            received   2026-11-16T19:02:00.400Z, skew -7199.600 s
            clock      same skew as this driver's clock before
            from       ios_native, spelled exclusive_activated
            session    s0
            event id   e3
            settings   v1: grace period 900 s, hard timeout 3600 s

         3  anchorDwellComplete       applied
            state      NEAR_CHARGER -> ANCHORED
            occurred   2026-11-16T21:05:00Z as sent
            corrected  2026-11-16T19:05:00.250Z, by -7199.750 s
            sent       2026-11-16T21:05:00.000Z
            received   2026-11-16T19:05:00.250Z, skew -7199.750 s
            clock      same skew as this driver's clock before
            from       ios_native, background
            event id   e4
            settings   v1: grace period 900 s, hard timeout 3600 s
            metadata   23 bytes, shown with --metadata

         4  exclusiveActivatedByWeb   applied
            state      ANCHORED -> SESSION_ACTIVE
            deadline   hard timeout 2026-11-16T20:06:00.250Z started
            occurred   2026-11-16T21:06:00Z as sent
            corrected  2026-11-16T19:06:00.250Z, by -7199.750 s
            sent       2026-11-16T21:06:00.000Z
            received   2026-11-16T19:06:00.250Z, skew -7199.750 s
            clock      same skew as this driver's clock before
            from       ios_native
            place      merchant m1
            event id   e5
            settings   v1: grace period 900 s, hard timeout 3600 s

         5  exitedChargerAnchorZone   applied
            state      SESSION_ACTIVE -> IN_TRANSIT
            deadline   grace period 2026-11-16T19:25:00.250Z started
            occurred   2026-11-16T21:10:00Z as sent
            corrected  2026-11-16T19:10:00.250Z, by -7199.750 s
            sent       2026-11-16T21:10:00.000Z
            received   2026-11-16T19:10:00.250Z, skew -7199.750 s
            clock      same skew as this driver's clock before
            from       ios_native
            event id   e6
            key        k6
            settings   v1: grace period 900 s, hard timeout 3600 s

        Afterwards: IN_TRANSIT, grace period until 2026-11-16T19:25:00.250Z, hard timeout at
        2026-11-16T20:06:00.250Z
        """

    @Test("as JSON, metadata only when it is asked for")
    func json() async throws {
        let events = try await Self.recorded { try #require(try $0.events(ofSession: "s1")) }
        func parsed(showsMetadata: Bool) throws -> JSONValue {
            let text = ExplanationJSON(showsMetadata: showsMetadata).text(of: events, session: "s1")
            return try JSONValue.parse(Array(text.utf8))
        }
        let plain = try parsed(showsMetadata: false)
        guard case .array(let shown)? = plain["events"] else { throw Unstored() }
        #expect(shown.count == 5)
        #expect(shown[2]["metadata"] == nil)
        #expect(shown[0]["occurred_at_sent"] == .string("2026-11-16T22:00:00+01:00"))
        #expect(shown[0]["occurred_at"] == .string("2026-11-16T19:00:00.250Z"))
        #expect(shown[0]["correction_ms"] == .number("-7199750"))
        #expect(shown[0]["clock_rule"] == .string("sent_at"))
        #expect(shown[4]["clock_rule"] == .string("known_correction"))
        #expect(shown[1]["reason"] == .string("not_anchored"))
        #expect(shown[3]["state_before"] == .string("ANCHORED"))
        #expect(shown[3]["hard_deadline"] == .string("2026-11-16T20:06:00.250Z"))
        #expect(shown[4]["settings"]?["gracePeriodSeconds"] == .number("900"))
        let whole = try parsed(showsMetadata: true)
        guard case .array(let all)? = whole["events"] else { throw Unstored() }
        #expect(all[2]["metadata"]?["lat"] == .number("52.5"))
    }

    @Test("a driver's last events, with what came before taken into account")
    func lastOfDriver() async throws {
        let events = try await Self.recorded { try #require(try $0.events(of: Self.driver, last: 2)) }
        #expect(events.events.map(\.eventID) == ["e5", "e6"])
        #expect(events.isCut)
        #expect(events.events[0].before.state == .anchored)
    }

    @Test("a session that another one closed is explained up to the event that closed it")
    func superseded() async throws {
        let activation: Body = (
            "2026-11-16T19:12:00.250Z", "2026-11-16T21:12:00Z",
            #"{"event_id":"e7","event":"exclusive_activated","session_id":"s2","#
                + #""occurred_at":"2026-11-16T21:12:00Z","metadata":{"previous_state":"ANCHORED"}}"#
        )
        let verification: Body = (
            "2026-11-16T19:13:00.250Z", "2026-11-16T21:13:00Z",
            #"{"event_id":"e8","event":"visit_verified","session_id":"s2","#
                + #""occurred_at":"2026-11-16T21:13:00Z","metadata":{"previous_state":"IN_TRANSIT"}}"#
        )
        let (first, second) = try await Self.recorded(with: [activation, verification]) { records in
            (try #require(try records.events(ofSession: "s1")), try #require(try records.events(ofSession: "s2")))
        }
        let text = ExplanationText(isColored: false, showsMetadata: false)
        #expect(first.events.map(\.eventID).suffix(2) == ["e6", "e7"])
        let lines = text.lines(of: first, session: "s1")
        #expect(lines.contains("    closed     session s1, superseded"))
        #expect(lines.last == "Afterwards: SESSION_ENDED, superseded")

        let others = text.lines(of: second, session: "s2")
        #expect(others.last == "Afterwards: SESSION_ENDED, verified")
        #expect(
            others.joined(separator: " ").contains(
                "implied    exitedChargerAnchorZone, enteredMerchantZone: the phone was in IN_TRANSIT, and the"))
    }

    @Test("an end of a session that has ended is explained by that")
    func endedSession() async throws {
        let more: [Body] = [
            (
                "2026-11-16T19:13:00.250Z", "2026-11-16T21:13:00Z",
                #"{"event_id":"e7","event":"visit_verified","session_id":"s1","occurred_at":"2026-11-16T21:13:00Z"}"#
            ),
            (
                "2026-11-16T19:20:00.250Z", "2026-11-16T21:20:00Z",
                #"{"event_id":"e8","event":"entered_charger_intent_zone","occurred_at":"2026-11-16T21:20:00Z"}"#
            ),
            (
                "2026-11-16T19:21:00.250Z", "2026-11-16T21:21:00Z",
                #"{"event_id":"e9","event":"web_requested_end","session_id":"s1","occurred_at":"2026-11-16T21:21:00Z"}"#
            ),
        ]
        let events = try await Self.recorded(with: more) { try #require(try $0.events(of: Self.driver, last: 1)) }
        #expect(events.events.map(\.verdict) == [.rejected(.noSuchTransition)])
        #expect(events.events.map(\.why) == ["session s1 has ended"])
    }

    @Test("an activation of the session that ended last is explained by that")
    func endedSessionInEnded() async throws {
        let more: [Body] = [
            (
                "2026-11-16T19:13:00.250Z", "2026-11-16T21:13:00Z",
                #"{"event_id":"e7","event":"visit_verified","session_id":"s1","occurred_at":"2026-11-16T21:13:00Z"}"#
            ),
            (
                "2026-11-16T19:14:00.250Z", "2026-11-16T21:14:00Z",
                #"{"event_id":"e8","event":"exclusive_activated","session_id":"s1","#
                    + #""occurred_at":"2026-11-16T21:14:00Z","metadata":{"previous_state":"ANCHORED"}}"#
            ),
        ]
        let events = try await Self.recorded(with: more) { try #require(try $0.events(of: Self.driver, last: 1)) }
        #expect(events.events.map(\.verdict) == [.rejected(.noSuchTransition)])
        #expect(events.events.map(\.why) == ["session s1 has ended"])
    }

    @Test("no session and no driver of that name is no events")
    func unknown() async throws {
        let found = try await Self.recorded { records in
            [try records.events(ofSession: "s2"), try records.events(of: DriverID("nobody"), last: 5)]
        }
        #expect(found == [nil, nil])
    }

    @Test("the longest texts that a phone can send stay within 100 columns, and control no terminal")
    func fitsTheTerminal() async throws {
        var events = try await Self.recorded { try #require(try $0.events(ofSession: "s1")) }
        let long = String(repeating: "x", count: 128)
        for index in events.events.indices {
            events.events[index].name = .diagnostic(String(long.prefix(64)))
            events.events[index].spelling = String(long.suffix(63))
            events.events[index].verdict = .rejected(.noSuchTransition)
            events.events[index].eventID = long
            events.events[index].sent.chargerID = long
            events.events[index].sessionID = long
            events.events[index].sent.source = "\u{202E}\u{1B}[31m\(long)"
            events.events[index].metadata = "{\"a\":\"\u{9B}2J\(String(repeating: long, count: 60))\"}"
        }
        let lines = ExplanationText(isColored: false, showsMetadata: true).lines(of: events, session: long + "y")
        #expect(lines.allSatisfy { $0.count <= 100 }, "\(lines.filter { $0.count > 100 })")
        let scalars = lines.joined().unicodeScalars
        #expect(!scalars.contains { $0.properties.generalCategory == .control || $0.value == 0x202E })
    }

    @Test("colours are there when they are wanted, and nothing else changes")
    func colors() async throws {
        let events = try await Self.recorded { try #require(try $0.events(ofSession: "s1")) }
        let plain = ExplanationText(isColored: false, showsMetadata: false).lines(of: events, session: "s1")
        let colored = ExplanationText(isColored: true, showsMetadata: false).lines(of: events, session: "s1")
        let escape = /\u{1B}\[[0-9]+m/
        #expect(colored.map { $0.replacing(escape, with: "") } == plain)
        #expect(colored.contains { $0.contains(escape) })
        #expect(!plain.contains { $0.contains("\u{1B}") })
    }
}
