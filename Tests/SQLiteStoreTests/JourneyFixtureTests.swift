// Runs the scripted journeys of Tests/Fixtures/journeys in the real store, while the server enforces deadlines. The
// events arrive in each order that a file lists, and in random orders with repeats. Verdicts, states and stored
// expiries must equal those in the file.

import Engine
import JourneyModel
import Logging
import SQLiteStore
import TestSupport
import Testing

struct JourneyFixtureTests {
    @Test("A scripted journey is stored as its file says, however it is delivered", arguments: JourneyFixture.all)
    func play(_ fixture: JourneyFixture) async throws {
        let inOrder = Array(fixture.events.indices)
        try await play(fixture, inOrder, keepingTime: false)
        for order in fixture.deliveries { try await play(fixture, order, keepingTime: false) }
        guard fixture.isPermutable else { return }
        var random = SeededRandom(seed: 11)
        for _ in 0..<4 {
            try await play(fixture, (inOrder + inOrder.prefix(5)).shuffled(using: &random), keepingTime: true)
        }
    }

    /// Delivers the events of a fixture in the given order, and compares the results with the fixture. If `keepingTime`
    /// is true, due expiries are stored after each event. If it is false, they are stored once, after the last event.
    private func play(_ fixture: JourneyFixture, _ order: [Int], keepingTime: Bool) async throws {
        let folder = try ScratchFolder(inMemory: true)
        let store = try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
        var settings = Settings()
        settings.gracePeriodSeconds = fixture.gracePeriodSeconds
        settings.hardTimeoutSeconds = fixture.hardTimeoutSeconds
        let inForce = CurrentSettings(VersionedSettings(settings: settings, version: settings.version))
        let keeping = ExpiryScheduler(
            store: store, settings: inForce, clock: { fixture.now }, logger: Logger(label: "test"))
        for index in order {
            let event = fixture.events[index]
            let submission = try EventSubmission.decode(event.body, route: event.route, headers: event.headers)
            let outcome = try await store.appended(
                AppendRequest(
                    driver: DriverID(event.driver), submission: submission, receivedAt: fixture.now,
                    settings: inForce.read()))
            if event.expect["code"]?.text == "session_not_found" { #expect(outcome == .sessionNotFound) }
            if keepingTime { try await keeping.storeDueExpiries() }
        }
        try await keeping.storeDueExpiries()
        try await check(store, fixture, "delivered \(order)")
        await store.close()
    }

    private func check(_ store: SQLiteEventStore, _ fixture: JourneyFixture, _ place: Comment) async throws {
        for (index, event) in fixture.events.enumerated() where event.expect["code"] == nil {
            let submission = try EventSubmission.decode(event.body, route: event.route, headers: event.headers)
            let stored = try await store.timeline(of: DriverID(event.driver)).first {
                $0.idempotencyKey == submission.idempotencyKey
            }
            #expect(stored?.verdict.transition.rawValue == event.expect["transition"]?.text, "event \(index), \(place)")
            #expect(stored?.verdict.reason?.rawValue == event.expect["reason"]?.text, "event \(index), \(place)")
            #expect(stored?.state.rawValue == event.expect["state"]?.text, "event \(index), \(place)")
            let implied = event.expect["implied"]?.elements.compactMap(\.text) ?? []
            #expect(stored?.verdict.implied.names == implied, "event \(index), \(place)")
        }
        var final: [String: String] = [:]
        var expiries: [[String: String]] = []
        for driver in fixture.final.keys.sorted() {
            final[driver] = try await store.journey(of: DriverID(driver)).state.rawValue
            expiries += try await appliedExpiries(store, driver)
        }
        var endings: [String: String] = [:]
        for driver in fixture.final.keys {
            for session in try await store.sessions(of: DriverID(driver), limit: 100, after: nil)?.sessions ?? []
            where fixture.sessions[session.sessionID] != nil {
                endings[session.sessionID] = session.journey?.advanced(to: fixture.now).endedBy?.rawValue
            }
        }
        #expect(endings == fixture.sessions, place)
        #expect(final == fixture.final, place)
        #expect(expiries == fixture.serverEvents, place)
    }

    /// Returns the applied expiries in the form of a fixture's `server_events`.
    private func appliedExpiries(_ store: SQLiteEventStore, _ driver: String) async throws -> [[String: String]] {
        var expiries: [[String: String]] = []
        let sessions = try await store.sessions(of: DriverID(driver), limit: 100, after: nil)?.sessions ?? []
        for session in sessions {
            guard
                case .found(let timeline) = try await store.timeline(
                    of: session.sessionID, of: DriverID(driver), limit: 500, after: nil)
            else { continue }
            expiries += timeline.events.filter { $0.sent.source == "server" && $0.verdict == .applied }.map { event in
                [
                    "driver": driver, "event": event.name.canonical, "session_id": session.sessionID,
                    "occurred_at": RFC3339.text(of: event.occurredAt).replacing(".000Z", with: "Z"),
                ]
            }
        }
        return expiries.sorted { ($0["occurred_at"] ?? "") < ($1["occurred_at"] ?? "") }
    }
}
