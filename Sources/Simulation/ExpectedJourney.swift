// The simulation's own fold of one driver: the responses that the server must give for the events it has
// acknowledged. Of the responses only their arrival is used.

import JourneyModel

struct ExpectedJourney {
    /// The driver's journey before the first event.
    private let start: Journey
    /// In the order of the responses, which is the order of arrival.
    private var events: [OrderedEvent] = []

    init(start: Journey) {
        self.start = start
    }

    func contains(_ idempotencyKey: String) -> Bool {
        events.contains { $0.idempotencyKey == idempotencyKey }
    }

    /// A repeated event is ignored.
    mutating func add(_ event: OrderedEvent) {
        guard !contains(event.idempotencyKey) else { return }
        events.append(event)
    }

    /// What a response about that event, given within `span`, must say. Nil for an event that was not added.
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
    /// Two when a deadline passes within the span: either is correct.
    var states: [JourneyState]
}
