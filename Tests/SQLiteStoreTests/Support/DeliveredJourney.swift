// A random journey for the store's property tests: its events, their deliveries, and the expected result. The seed
// determines everything.

import Engine
import JourneyModel
import TestSupport

@testable import SQLiteStore

struct DeliveredJourney: Sendable, CustomStringConvertible {
    /// Nearly all journeys fit into this many seconds. All journeys begin in the first third.
    static let spanSeconds = 30_000

    struct Point: Hashable, Sendable {
        var key: String
        var name: EventName
        var at: Moment
        var verdict: Verdict
        var state: JourneyState
    }

    let seed: UInt64
    /// The events, in the fold's order.
    let events: [OrderedEvent]
    /// For each turn, the indices of the events to deliver, in the order of delivery.
    let turns: [[Int]]

    var driver: DriverID { DriverID("driver-\(seed)") }

    var description: String { "seed \(seed)" }

    init(seed: UInt64, turnCount: Int) {
        self.seed = seed
        var random = SeededRandom(seed: seed)
        let start = Moment.sample.advanced(bySeconds: Int.random(in: 0...Self.spanSeconds / 3, using: &random))
        let events = RandomJourney.events(from: start, countMax: 24, sessionPrefix: "s\(seed)-", &random)
        self.events = events

        // The seed chooses the order of delivery: the fold's order, the fold's order with some late events, or any
        // order.
        let delayMax = [0, 0, 3, 100].randomPick(&random)
        let deliveries = events.indices.flatMap { random.chance(1, in: 4) ? [$0, $0] : [$0] }
            .map { (event: $0, place: $0 + Int.random(in: 0...delayMax, using: &random)) }
            .sorted { ($0.place, $0.event) < ($1.place, $1.event) }
        let turnOfEach = deliveries.map { _ in Int.random(in: 0..<turnCount, using: &random) }.sorted()
        var turns = [[Int]](repeating: [], count: turnCount)
        for (delivery, turn) in zip(deliveries, turnOfEach) { turns[turn].append(delivery.event) }
        self.turns = turns
    }

    /// By default, `receivedAt` is later than every event. The store then considers no event to be ahead of the
    /// server's clock.
    func request(
        _ index: Int, receivedAt: Moment = .sample.advanced(bySeconds: 10 * spanSeconds)
    ) -> AppendRequest {
        let event = events[index]
        let submission = EventSubmission.sample(
            event.name, key: event.idempotencyKey, eventID: event.eventID, session: event.sessionID,
            charger: event.chargerID, at: event.occurredAt, sequence: event.sequence,
            previousState: event.previousState, isWholeSecond: event.isWholeSecond)
        return AppendRequest(
            driver: driver, submission: submission, receivedAt: receivedAt,
            settings: Self.settings(event.gracePeriodSeconds, event.hardTimeoutSeconds), sender: event.sender)
    }

    private static func settings(_ graceSeconds: Int, _ hardSeconds: Int) -> VersionedSettings {
        VersionedSettings(
            settings: Settings(gracePeriodSeconds: graceSeconds, hardTimeoutSeconds: hardSeconds),
            version: "\(graceSeconds)-\(hardSeconds)")
    }

    // MARK: The fold in order

    struct Expected {
        /// The clients' events and the effective expiries, in order.
        var points: [Point] = []
        /// The journey after the last client event.
        var last = Journey()
        /// The journey after all deadlines have passed.
        var end = Journey()
    }

    var expected: Expected {
        var delivered: Set<Int> = []
        return Self.expected(of: turns.joined().filter { delivered.insert($0).inserted }.map { events[$0] })
    }

    /// - Parameter arrived: the events in the order of arrival.
    static func expected(of arrived: [OrderedEvent]) -> Expected {
        let events = Fold.inOrder(arrived)
        var expected = Expected()
        var journey = Journey()
        for event in events {
            while let deadline = journey.takeDeadline(before: event) {
                expected.points.append(.expiry(deadline, journey))
            }
            let verdict = journey.apply(event)
            expected.points.append(
                Point(
                    key: event.idempotencyKey, name: event.name, at: event.occurredAt, verdict: verdict,
                    state: journey.state))
        }
        expected.last = journey
        while let deadline = journey.takeDeadline(before: .sample.advanced(bySeconds: 1_000_000)) {
            expected.points.append(.expiry(deadline, journey))
        }
        expected.end = journey
        return expected
    }
}

extension DeliveredJourney.Point {
    init(_ entry: TimelineEntry) {
        self.init(
            key: entry.idempotencyKey, name: entry.name, at: entry.correctedAt, verdict: entry.verdict,
            state: entry.state)
    }

    fileprivate static func expiry(_ deadline: (name: EventName, at: Moment), _ journey: Journey) -> Self {
        let event = OrderedEvent.expiry(deadline.name, at: deadline.at, sessionID: journey.sessionID)
        return Self(
            key: event.idempotencyKey, name: event.name, at: event.occurredAt, verdict: .applied, state: .sessionEnded)
    }
}
