// Tests of visits of which one or two events are lost (contract, section 1, "What is implied"). A later event proves
// that the lost events happened. In any order of arrival, the visit must end as the complete visit does.
//
// DWELL_PROPERTY_JOURNEYS sets the number of journeys. A failure prints its seed. To begin the next run with this seed,
// set DWELL_PROPERTY_SEED to it.

import JourneyModel
import TestSupport
import Testing

struct VisitTests {
    private static let seeds = PropertyRun.seeds("DWELL_PROPERTY_JOURNEYS", unlessSet: 2000)

    @Test func `what later events prove may be lost, and the rest arrive in any order`() {
        for seed in Self.seeds {
            var random = SeededRandom(seed: seed)
            let visits = PhoneVisits(from: .at(0), &random)
            let whole = Fold.replay(visits.events)
            let outcomes = PhoneVisits.outcomes(of: visits, in: visits.events)
            guard !outcomes.contains(nil), whole.allSatisfy({ $0.verdict.transition == .applied }) else {
                Issue.record("seed \(seed): the whole visits are not legal")
                return
            }
            let found = Fold.inOrder(visits.withLosses(&random).shuffled(using: &random))
            guard let end = Fold.replay(found).last?.journey, let expected = whole.last?.journey,
                PhoneVisits.outcomes(of: visits, in: found) == outcomes, end.state == expected.state,
                end.endedBy == expected.endedBy
            else {
                Issue.record("seed \(seed): another outcome than that of the whole visits")
                return
            }
        }
    }

    @Test func `lost, doubled and delayed beyond the deadlines, a visit ends as it did`() {
        for seed in Self.seeds {
            var random = SeededRandom(seed: seed)
            let visits = PhoneVisits(from: .at(0), &random)
            let expected = Fold.replay(visits.events).last?.journey
            let left = visits.withLosses(&random)
            let repeats = left.filter { _ in random.chance(1, in: 3) }
            var log = JourneyLog()
            for event in (left + repeats).shuffled(using: &random) {
                log.append(event)
                // This time is long after the visits. The server therefore stores an expiry for every deadline that
                // follows from the events so far.
                if random.chance(1, in: 2) { log.expire(before: .at(1_000_000)) }
            }
            let client = log.points.filter { $0.event.origin == .client }
            let stored = client.map(\.event)
            guard log.journey.state == expected?.state, log.journey.endedBy == expected?.endedBy,
                PhoneVisits.outcomes(of: visits, in: stored) == PhoneVisits.outcomes(of: visits, in: visits.events),
                client.map(\.verdict) == Fold.replay(stored).map(\.verdict)
            else {
                Issue.record("seed \(seed): another outcome than that of the whole visits")
                return
            }
        }
    }

    @Test func `whole visits stand in their own order, whatever the order of arrival`() {
        for seed in Self.seeds {
            var random = SeededRandom(seed: seed)
            let visits = PhoneVisits(from: .at(0), &random)
            let found = Fold.inOrder(visits.events.shuffled(using: &random))
            let verdicts = Fold.replay(found).map(\.verdict.transition)
            guard verdicts.allSatisfy({ $0 == .applied }) else {
                Issue.record("seed \(seed): \(zip(found.map(\.name), verdicts).map { "\($0) \($1)" })")
                return
            }
        }
    }

    @Test func `no session is verified without a visitVerifiedByWeb`() {
        for seed in Self.seeds {
            var random = SeededRandom(seed: seed)
            let events = RandomJourney.events(from: .at(0), &random).filter { $0.name != .visitVerifiedByWeb }
            for (verdict, journey) in Fold.replay(Fold.inOrder(events))
            where journey.endedBy == .verified || verdict.implied.inOrder.contains(.visitVerifiedByWeb) {
                Issue.record("seed \(seed): \(journey)")
                return
            }
        }
    }

    @Test func `a session is verified by its own verification alone`() {
        for seed in Self.seeds {
            var random = SeededRandom(seed: seed)
            let ordered = Fold.inOrder(RandomJourney.events(from: .at(0), &random))
            var before = Journey()
            for (event, step) in zip(ordered, Fold.replay(ordered)) {
                let becomesVerified = step.journey.endedBy == .verified && before.endedBy != .verified
                guard !becomesVerified || event.name == .visitVerifiedByWeb && event.sessionID == step.journey.sessionID
                else {
                    Issue.record("seed \(seed): \(event) makes \(step.journey)")
                    return
                }
                before = step.journey
            }
        }
    }
}
