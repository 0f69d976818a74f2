// Tests that a new optional member of an event appears in timelines, in analytics and in `dwell explain`. Also tests
// that the checklist in CONTRIBUTING.md names at most six files that must be edited to add such a member.

import Engine
import Foundation
import JourneyModel
import SQLiteStore
import Secrets
import TestSupport
import Testing

@testable import API
@testable import App
@testable import Outbound

@Suite struct NewMemberTests {
    private static let sent = SentMembers(source: "ios_native", sequence: 4, details: #"{"battery_level":80}"#)

    @Test func `a timeline, analytics and dwell explain show it`() async throws {
        let event = SessionEvent(
            id: 1, eventID: "e", idempotencyKey: "k", name: .departedCharger, sent: Self.sent, occurredAt: .sample,
            occurredAtText: "t", receivedAt: .sample, settingsVersion: "v", verdict: .none, state: .idle)
        let timeline = SessionTimeline(
            session: SessionSummary(sessionID: "s", openedAt: .sample), events: [event], hasMore: false)
        let answer = String(decoding: JourneyResponses.timeline(timeline, at: .sample), as: UTF8.self)
        #expect(answer.contains(#""sequence":4,"battery_level":80,"occurred_at""#))

        let fed = FeedEvent(
            id: 1, driver: DriverID("d"), eventID: "e", name: .departedCharger, sessionID: nil, sent: Self.sent,
            occurredAt: .sample, receivedAt: .sample, metadata: nil, settingsVersion: "v", verdict: .none, state: .idle)
        let body = String(decoding: PostHogCapture.body([fed], key: Secret("k")), as: UTF8.self)
        #expect(body.contains(#""sequence":4,"battery_level":80,"received_at""#))

        var events = try await ExplanationTests.recorded { try #require(try $0.events(ofSession: "s1")) }
        events.events[0].sent.details = Self.sent.details
        let json = ExplanationJSON(showsMetadata: false).text(of: events, session: "s1")
        #expect(json.contains(#""battery_level":80,"#))
        let text = ExplanationText(isColored: false, showsMetadata: false).lines(of: events, session: "s1")
        #expect(text.contains { $0.hasSuffix(#"{"battery_level":80}"#) })
    }

    @Test func `the checklist names at most six files, and each exists`() throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..").standardized
        let page = try String(contentsOf: root.appending(path: "CONTRIBUTING.md"), encoding: .utf8)
        let list = try #require(
            page.split(separator: "**A member of an event**").last?.split(separator: "One on which").first)
        let files = Set(list.matches(of: #/`([\w\/]+\.(?:swift|json|md|sql))`/#).map { String($0.1) })
        #expect((3...6).contains(files.count), "\(files.sorted())")
        for file in files {
            let places = ["", "Sources/", "docs/"].map { root.appending(path: $0 + file).path }
            #expect(places.contains(where: FileManager.default.fileExists), "\(file)")
        }
    }

    /// The files below name no optional member, so a new member needs no change to them (`EventDetailTests`). This test
    /// searches the files for one example, `app_state`.
    @Test func `the answers, the queries and the feed list no members of their own`() throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..").standardized
        let handlers = [
            "API/JourneyResponses.swift", "App/Commands/ExplanationJSON.swift", "Outbound/PostHogCapture.swift",
            "Engine/EventFeed.swift", "SQLiteStore/SQLiteEventStore+Feed.swift",
            "SQLiteStore/Events/StoredSessions.swift", "SQLiteStore/Records/RecordedEventRows.swift",
            "Engine/RecordedEvent.swift", "SQLiteStore/Accounts/SQLiteEventStore+Export.swift",
            "SharedTables/Accounts/AccountExport.swift",
        ]
        for file in handlers {
            let text = try String(contentsOf: root.appending(path: "Sources/\(file)"), encoding: .utf8)
            #expect(!text.contains(#/\bapp_state\b|\bappState\b/#), "\(file) names app_state")
        }
    }
}
