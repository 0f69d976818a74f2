// Runs the scripted journeys of Tests/Fixtures/journeys without a server. Decodes, corrects, orders and folds the
// events. Verdicts, states and expiries must equal those in the file.
//
// The events arrive in the order of the file, and in each order that `deliveries` lists. If the file permits other
// orders, the events also arrive in random orders with repeats. If the journey is also short, every possible order is
// tested.

import Foundation
import JourneyModel
import TestSupport
import Testing

struct FixtureTests {
    @Test("All are read")
    func count() throws {
        let files = try FileManager.default.contentsOfDirectory(atPath: JourneyFixture.folder.path)
        #expect(JourneyFixture.all.count == files.count { $0.hasSuffix(".json") })
        #expect(JourneyFixture.all.count >= 30)
        #expect(JourneyFixture.all.allSatisfy { !$0.events.isEmpty && !$0.final.isEmpty })
    }

    @Test("A scripted journey ends as its file says, however it is delivered", arguments: JourneyFixture.all)
    func play(_ fixture: JourneyFixture) throws {
        let inOrder = Array(fixture.events.indices)
        var orders = [inOrder] + fixture.deliveries
        if fixture.isPermutable {
            var random = SeededRandom(seed: 7)
            orders += (0..<20).map { _ in (inOrder + inOrder.prefix(5)).shuffled(using: &random) }
            if inOrder.count <= Self.everyOrderEventsMax { orders += Self.everyOrder(of: inOrder) }
        }
        for order in orders {
            var server = FixtureServer(fixture)
            for index in order { try server.receive(index) }
            server.endOfDay()
            check(server, fixture, order)
        }
    }

    /// The largest number of events for which a permutable journey is tested in every order. Six events have 720
    /// orders.
    private static let everyOrderEventsMax = 6

    private static func everyOrder(of events: [Int]) -> [[Int]] {
        guard !events.isEmpty else { return [[]] }
        return events.indices.flatMap { index in
            var rest = events
            let first = rest.remove(at: index)
            return everyOrder(of: rest).map { [first] + $0 }
        }
    }

    private func check(_ server: FixtureServer, _ fixture: JourneyFixture, _ order: [Int]) {
        for (index, event) in fixture.events.enumerated() {
            let place: Comment = "event \(index), delivered \(order)"
            if let code = event.expect["code"]?.text {
                #expect(server.refusals[index]?.rawValue == code, place)
                continue
            }
            guard let point = server.point(of: index) else {
                Issue.record("event \(index) is not stored, delivered \(order)")
                continue
            }
            #expect(point.verdict.transition.rawValue == event.expect["transition"]?.text, place)
            #expect(point.verdict.reason?.rawValue == event.expect["reason"]?.text, place)
            #expect(point.verdict.implied.names == event.expect["implied"]?.elements.compactMap(\.text) ?? [], place)
            #expect(point.journey.state.rawValue == event.expect["state"]?.text, place)
            if let ending = event.expect["ended_by"]?.text {
                #expect(point.journey.endedBy?.rawValue == ending, place)
            }
        }
        let final = server.logs.mapValues { $0.journey.advanced(to: fixture.now).state.rawValue }
        #expect(final == fixture.final, "delivered \(order)")
        #expect(server.expiries == fixture.serverEvents, "delivered \(order)")
    }
}

/// The parts of a server that a fixture needs: the owners of sessions, the used keys, and one log for each driver.
private struct FixtureServer {
    let fixture: JourneyFixture
    private(set) var logs: [String: JourneyLog] = [:]
    private(set) var refusals: [Int: ProblemCode] = [:]
    private var keys: [Int: String] = [:]
    private var submissions: [String: EventSubmission] = [:]
    private var owners: [String: String] = [:]
    private var clocks: [String: ClockMemory] = [:]

    init(_ fixture: JourneyFixture) {
        self.fixture = fixture
    }

    mutating func receive(_ index: Int) throws {
        let event = fixture.events[index]
        let submission = try EventSubmission.decode(event.body, route: event.route, headers: event.headers)
        if let session = submission.sessionID {
            guard owners[session, default: event.driver] == event.driver else {
                refusals[index] = .sessionNotFound
                return
            }
            owners[session] = event.driver
        }
        keys[index] = submission.idempotencyKey
        let scopedKey = "\(event.driver) \(submission.idempotencyKey)"
        if let stored = submissions[scopedKey] {
            let form = submission.canonicalForm(appState: stored.appState, schemaVersion: stored.schemaVersion)
            #expect(form == stored.canonicalForm, "event \(index): a repeat is taken for another event")
            return
        }
        submissions[scopedKey] = submission
        let correction = ClockCorrection(
            occurredAt: submission.occurredAt, sentAt: submission.sentAt, timestamp: submission.timestamp,
            receivedAt: fixture.now, memory: clocks[event.driver, default: ClockMemory()])
        clocks[event.driver] = correction.memory
        logs[event.driver, default: JourneyLog()].append(
            OrderedEvent(
                name: submission.name, sessionID: submission.sessionID, chargerID: submission.chargerID,
                occurredAt: correction.corrected, sequence: submission.sequence, eventID: submission.eventID,
                idempotencyKey: submission.idempotencyKey, origin: .client,
                previousState: submission.previousState, isWholeSecond: submission.isWholeSecond,
                gracePeriodSeconds: fixture.gracePeriodSeconds, hardTimeoutSeconds: fixture.hardTimeoutSeconds))
    }

    mutating func endOfDay() {
        for driver in logs.keys { logs[driver]?.expire(before: fixture.now) }
    }

    func point(of index: Int) -> JourneyLog.Point? {
        logs[fixture.events[index].driver]?.points.first {
            $0.event.origin == .client && $0.event.idempotencyKey == keys[index]
        }
    }

    /// The stored expiries that have an effect, in the form of a fixture's `server_events`.
    var expiries: [[String: String]] {
        logs.sorted { $0.key < $1.key }.flatMap { driver, log in
            log.points.filter { $0.event.origin == .server && $0.verdict == .applied }.map { point in
                [
                    "driver": driver, "event": point.event.name.canonical,
                    "session_id": point.event.sessionID ?? "",
                    "occurred_at": RFC3339.text(of: point.event.occurredAt).replacing(".000Z", with: "Z"),
                ]
            }
        }
    }
}
