// The simulation's own fold of one driver: what the server must answer, given the events that it has acknowledged.
// Nothing of the answers goes in here but that they came.

import JourneyModel

struct ExpectedJourney {
    /// Where the driver stood before the first event.
    private let start: Journey
    /// In the order in which they were answered, which is that of arrival.
    private var events: [OrderedEvent] = []

    init(start: Journey) {
        self.start = start
    }

    func contains(_ idempotencyKey: String) -> Bool {
        events.contains { $0.idempotencyKey == idempotencyKey }
    }

    /// A second time does nothing.
    mutating func add(_ event: OrderedEvent) {
        guard !contains(event.idempotencyKey) else { return }
        events.append(event)
    }

    /// What an answer about that event must say, given at some moment of `span`. Nil for an event that was not added.
    func answer(about idempotencyKey: String, within span: ClosedRange<Moment>) -> ExpectedAnswer? {
        let ordered = Fold.inOrder(events, from: start)
        let folded = Fold.replay(ordered, from: start)
        guard let index = ordered.firstIndex(where: { $0.idempotencyKey == idempotencyKey }), let head = folded.last
        else { return nil }
        let states = [span.lowerBound, span.upperBound].map { head.journey.advanced(to: $0).state }
        return ExpectedAnswer(verdict: folded[index].verdict, states: states)
    }
}

struct ExpectedAnswer {
    var verdict: Verdict
    /// Two when a deadline passes just now: either is right.
    var states: [JourneyState]
}
