// Tests of convergence (contract, section 1). The order, repeats and delays of deliveries change neither the final
// state of a journey nor the verdicts on its events.
//
// The test appends the events of random journeys to a JourneyLog, in random order and with repeats. Between the events,
// it runs the expiry worker at random times. The result must equal one fold of all events in order.
//
// Set DWELL_PROPERTY_JOURNEYS=100000 for a long run. A failure prints its seed. To begin the next run with this seed,
// set DWELL_PROPERTY_SEED to it.

import JourneyModel
import TestSupport
import Testing

struct ConvergenceTests {
    private static let seeds = PropertyRun.seeds("DWELL_PROPERTY_JOURNEYS", unlessSet: 2000)

    @Test("Whatever the order of arrival, repeats and the worker's timing: one outcome")
    func anyArrival() {
        for seed in Self.seeds {
            var random = SeededRandom(seed: seed)
            let events = RandomJourney.events(from: .at(0), &random)
            let deliveries = deliveries(of: events, &random)
            let log = arrive(deliveries, &random)
            let ordered = Fold.inOrder(Self.first(of: deliveries))
            let inOrder = Fold.replay(ordered)

            let client = log.points.filter { $0.event.origin == .client }
            let isSame =
                client.map(\.event) == ordered && client.map(\.verdict) == inOrder.map(\.verdict)
                && client.map(\.journey) == inOrder.map(\.journey)
            let end = Moment.at(1_000_000)
            let state = (inOrder.last?.journey ?? Journey()).advanced(to: end)
            guard isSame, log.journey.advanced(to: end) == state else {
                Issue.record("seed \(seed): the outcome depends on the order of arrival")
                return
            }
            let isSorted = zip(log.points, log.points.dropFirst()).allSatisfy { earlier, later in
                earlier.event.sharesSecond(with: later.event) || earlier.event < later.event
            }
            guard isSorted else {
                Issue.record("seed \(seed): an expiry was stored out of its place")
                return
            }
        }
    }

    @Test("Expiries with an effect are the same for every arrival, and none is stored twice")
    func expiries() {
        for seed in Self.seeds {
            var random = SeededRandom(seed: seed)
            let events = RandomJourney.events(from: .at(0), wholeSeconds: false, &random)
            let first = effectiveExpiries(arrive(deliveries(of: events, &random), &random))
            let second = effectiveExpiries(arrive(deliveries(of: events, &random), &random))
            guard first == second, Set(first).count == first.count else {
                Issue.record("seed \(seed): \(first) and \(second)")
                return
            }
        }
    }

    @Test("A journey is always one that can be: deadlines and session belong to its state")
    func invariants() {
        for seed in Self.seeds {
            var random = SeededRandom(seed: seed)
            for (verdict, journey) in Fold.replay(Fold.inOrder(RandomJourney.events(from: .at(0), &random))) {
                let inProgress = [.sessionActive, .inTransit, .atMerchant].contains(journey.state)
                let holds =
                    (journey.hardDeadline != nil) == inProgress
                    && (journey.graceDeadline != nil) == (journey.state == .inTransit)
                    && (journey.sessionID != nil || !inProgress)
                    && (journey.sessionID == nil || inProgress || journey.state == .sessionEnded)
                    && (journey.endedBy != nil) == (journey.state == .sessionEnded)
                    && (journey.nextTargetChargerID == nil || journey.state == .sessionEnded)
                    && (verdict.reason != nil) == (verdict.transition == .rejected)
                    && (verdict.implied.isEmpty || verdict.transition == .applied)
                guard holds else {
                    Issue.record("seed \(seed): \(verdict) \(journey)")
                    return
                }
            }
        }
    }

    @Test("The random journeys reach every state, every reason and both kinds of expiry")
    func coverage() {
        var states: Set<JourneyState> = []
        var reasons: Set<Verdict.Reason> = []
        var expired: Set<EventName> = []
        var staleExpiries = 0
        for seed in UInt64(1)...500 {
            var random = SeededRandom(seed: seed)
            let log = arrive(deliveries(of: RandomJourney.events(from: .at(0), &random), &random), &random)
            states.formUnion(log.points.map(\.journey.state))
            reasons.formUnion(log.points.compactMap(\.verdict.reason))
            expired.formUnion(log.points.filter { $0.event.origin == .server }.map(\.event.name))
            staleExpiries += log.points.filter { $0.event.origin == .server && $0.verdict == .none }.count
        }
        #expect(states == Set(JourneyState.allCases))
        #expect(reasons == Set(Verdict.Reason.allCases))
        #expect(expired == [.gracePeriodExpired, .hardTimeoutExpired])
        #expect(staleExpiries > 10)
    }

    private func deliveries(of events: [OrderedEvent], _ random: inout SeededRandom) -> [OrderedEvent] {
        let repeats = events.filter { _ in random.chance(1, in: 4) }
        return (events + repeats + repeats.prefix(2)).shuffled(using: &random)
    }

    /// Returns each event once, in the order of the first arrivals.
    private static func first(of deliveries: [OrderedEvent]) -> [OrderedEvent] {
        var keys: Set<String> = []
        return deliveries.filter { keys.insert($0.idempotencyKey).inserted }
    }

    /// Appends the deliveries to a log. After some of them, runs the expiry worker at a random time.
    private func arrive(_ deliveries: [OrderedEvent], _ random: inout SeededRandom) -> JourneyLog {
        var log = JourneyLog()
        for event in deliveries {
            log.append(event)
            if random.chance(1, in: 3) {
                log.expire(
                    before: event.occurredAt.advanced(byMilliseconds: .random(in: -1...5_000_000, using: &random)))
            }
        }
        log.expire(before: .at(1_000_000))
        return log
    }

    private func effectiveExpiries(_ log: JourneyLog) -> [OrderedEvent] {
        log.points.filter { $0.event.origin == .server && $0.verdict == .applied }.map(\.event)
    }
}
