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

    /// The expected response about that event, sent within `span`. Nil for an event that was not added.
    func answer(about idempotencyKey: String, within span: ClosedRange<Moment>) -> ExpectedAnswer? {
        let ordered = Fold.inOrder(events, from: start)
        let folded = Fold.replay(ordered, from: start)
        guard let index = ordered.firstIndex(where: { $0.idempotencyKey == idempotencyKey }), let head = folded.last
        else { return nil }
        let heads = [span.lowerBound, span.upperBound].map { head.journey.advanced(to: $0) }
        return ExpectedAnswer(
            verdict: folded[index].verdict, states: heads.map(\.state), endings: heads.map(\.endedBy))
    }

    /// The state of the session: after its last event in that session, or closed by another journey. Nil for one that
    /// was never activated.
    func session(_ sessionID: String, at now: Moment) -> Journey? {
        let ordered = Fold.inOrder(events, from: start)
        var found: Journey?
        var before = start
        for (event, step) in zip(ordered, Fold.replay(ordered, from: start)) {
            before = before.advanced(to: event.occurredAt)
            if found != nil, before.sessionID == sessionID {
                found = before.closing(by: step.journey).map { Journey(state: .sessionEnded, endedBy: $0) } ?? before
            }
            if event.sessionID == sessionID, step.journey.sessionID == sessionID { found = step.journey }
            before = step.journey
        }
        return found?.advanced(to: now)
    }
}

struct ExpectedAnswer {
    var verdict: Verdict
    /// Two when a deadline passes within the span: either is correct.
    var states: [JourneyState]
    /// Why the journey is over, for each of `states`.
    var endings: [Journey.Ending?]
}
