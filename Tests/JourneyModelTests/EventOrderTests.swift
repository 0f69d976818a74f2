// Tests of each criterion of the contract's total order of events (section 1). The order must be total even for events
// without a `sequence`.

import JourneyModel
import TestSupport
import Testing

struct EventOrderTests {
    /// Events in ascending order. Exactly one criterion decides between each event and its successor. By all criteria
    /// of lower priority, the two events would be equal or in the opposite order.
    static let ascending: [OrderedEvent] = [
        .client(.diagnostic("z"), at: .at(0.999), sequence: 9, id: "z"),
        .client(.diagnostic("z"), at: .at(1), id: "z"),
        .client(.diagnostic("z"), at: .at(1), sequence: 0, id: "z"),
        .client(.reset, at: .at(1), sequence: 1, id: "y"),
        .client(.sessionRestored, at: .at(1), sequence: 1, id: "B", key: "k2"),
        .client(.sessionRestored, at: .at(1), sequence: 1, id: "a", key: "k1"),
        .client(.sessionRestored, at: .at(1), sequence: 1, id: "a", key: "k2"),
        .client(.chargerTargeted, at: .at(1), sequence: .max, id: "a"),
        .expiry(.gracePeriodExpired, at: .at(1), sessionID: "s"),
        .expiry(.hardTimeoutExpired, at: .at(1), sessionID: "a"),
        .client(.chargerTargeted, at: .at(1.001), id: "0"),
    ]

    @Test("Time, origin, sequence, rank, event_id, key: each decides only where those before it tie")
    func keys() {
        for (earlierIndex, earlier) in Self.ascending.enumerated() {
            for (laterIndex, later) in Self.ascending.enumerated() {
                #expect((earlier < later) == (earlierIndex < laterIndex), "\(earlierIndex) and \(laterIndex)")
            }
        }
    }

    @Test("Ids are compared as bytes: Z before a, and a prefix before what it begins")
    func bytes() {
        #expect(OrderedEvent.client(.reset, id: "Z") < .client(.reset, id: "a"))
        #expect(OrderedEvent.client(.reset, id: "a") < .client(.reset, id: "ab"))
        #expect(OrderedEvent.client(.reset, id: "e\u{301}") < .client(.reset, id: "\u{E9}"))
    }

    @Test("Any shuffle sorts back to the same order")
    func totality() {
        for seed in UInt64(1)...200 {
            var random = SeededRandom(seed: seed)
            let events = RandomJourney.events(from: .at(0), &random)
            #expect(events.shuffled(using: &random).sorted() == events, "seed \(seed)")
        }
    }
}
