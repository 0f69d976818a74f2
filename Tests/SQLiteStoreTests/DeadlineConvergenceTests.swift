// Random journeys, delivered late, twice and out of order, while the clock goes on and the server stores what is due
// in between, with restarts: verdicts, states and the expiries that count are always those of the fold over the
// events in their order. A failure names its seed.

import Engine
import JourneyModel
import Logging
import SQLiteStore
import TestSupport
import Testing

struct DeadlineConvergenceTests {
    private static let driver = DriverID("driver")

    @Test(arguments: [UInt64](1...40))
    func `whenever expiries are stored, the journey is the same`(_ seed: UInt64) async throws {
        var random = SeededRandom(seed: seed)
        let events = SampleJourney.random(
            count: Int.random(in: 4...30, using: &random), prefix: "k", spanSeconds: 12_000, using: &random)
        let deliveries = (events + events.filter { _ in Bool.random(using: &random) }).shuffled(using: &random)
        let folder = try ScratchFolder()
        var store = try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
        // Later than every event, so that none is held to be ahead of the server's clock.
        let clock = ManualClock(at: .sample.advanced(bySeconds: 12_000))
        for submission in deliveries {
            _ = try await store.append(.sample(submission, of: Self.driver, receivedAt: clock.now))
            if Bool.random(using: &random) { try await Self.keeping(store, clock).storeWhatIsDue() }
            clock.advance(bySeconds: Int.random(in: 0...600, using: &random))
            if Int.random(in: 0..<8, using: &random) == 0 {
                await store.close()
                store = try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
            }
        }
        clock.advance(bySeconds: 10_000)
        try await Self.keeping(store, clock).storeWhatIsDue()
        #expect(try await store.earliestDeadline() == nil)
        try await check(store, events, "seed \(seed)")
        await store.close()
    }

    private static func keeping(_ store: SQLiteEventStore, _ clock: ManualClock) -> DeadlineKeeping {
        let settings = VersionedSettings(settings: Settings(), version: Settings().version)
        return DeadlineKeeping(
            store: store, settings: SettingsInForce(settings), clock: { clock.now }, logger: Logger(label: "test"))
    }

    private struct Point: Hashable {
        var key: String
        var verdict: Verdict
        var state: JourneyState
    }

    private func check(_ store: SQLiteEventStore, _ events: [EventSubmission], _ seed: Comment) async throws {
        var expected: [Point] = []
        var journey = Journey()
        for event in events.map(PlacedEvent.init(uncorrected:)).sorted() {
            while let deadline = journey.takeDeadline(before: event) {
                expected.append(Self.expiry(deadline, journey))
            }
            expected.append(Point(key: event.idempotencyKey, verdict: journey.apply(event), state: journey.state))
        }
        let end = Moment.sample.advanced(bySeconds: 1_000_000)
        while let deadline = journey.takeDeadline(before: end) { expected.append(Self.expiry(deadline, journey)) }

        let stored = try await store.timeline(of: Self.driver)
        let counting = stored.filter { $0.idempotencyKey.first != "\u{A7}" || $0.verdict == .applied }
        #expect(
            counting.map { Point(key: $0.idempotencyKey, verdict: $0.verdict, state: $0.state) } == expected, seed)
        #expect(Set(stored.map(\.idempotencyKey)).count == stored.count, seed)
        let standing = try await store.journey(of: Self.driver)
        #expect(standing == journey, seed)
    }

    private static func expiry(_ deadline: (name: EventName, at: Moment), _ journey: Journey) -> Point {
        let event = PlacedEvent.expiry(deadline.name, at: deadline.at, sessionID: journey.sessionID)
        return Point(key: event.idempotencyKey, verdict: .applied, state: .sessionEnded)
    }
}

extension PlacedEvent {
    /// A sample event has no send time, hence no correction.
    fileprivate init(uncorrected submission: EventSubmission) {
        self.init(
            name: submission.name, sessionID: submission.sessionID, chargerID: submission.chargerID,
            occurredAt: submission.occurredAt, sequence: submission.sequence, eventID: submission.eventID,
            idempotencyKey: submission.idempotencyKey, origin: .client,
            gracePeriodSeconds: Settings().gracePeriodSeconds, hardTimeoutSeconds: Settings().hardTimeoutSeconds)
    }
}
