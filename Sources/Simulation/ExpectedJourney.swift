// The simulation's own fold of one driver's events. It computes the responses that the server must give. All that it
// learns from the server is which events were acknowledged.

import JourneyModel

struct ExpectedJourney {
    /// The driver's journey before the first event.
    private let start: Journey
    /// The acknowledged events, in the order in which they arrived at the server. Their responses arrive in the same
    /// order.
    private var events: [OrderedEvent] = []

    init(start: Journey) {
        self.start = start
    }

    func contains(_ idempotencyKey: String) -> Bool {
        events.contains { $0.idempotencyKey == idempotencyKey }
    }

    /// Adds an acknowledged event. Ignores a repeat.
    mutating func add(_ event: OrderedEvent) {
        guard !contains(event.idempotencyKey) else { return }
        events.append(event)
    }

    /// Returns the response that the server must give about the event; nil if the event was not added.
    ///
    /// - Parameter span: the time in which the server made its response.
    func answer(about idempotencyKey: String, within span: ClosedRange<Moment>) -> ExpectedResponse? {
        let ordered = Fold.inOrder(events, from: start)
        let folded = Fold.replay(ordered, from: start)
        guard let index = ordered.firstIndex(where: { $0.idempotencyKey == idempotencyKey }), let head = folded.last
        else { return nil }
        let heads = [span.lowerBound, span.upperBound].map { head.journey.advanced(to: $0) }
        return ExpectedResponse(
            verdict: folded[index].verdict, states: heads.map(\.state), endings: heads.map(\.endedBy))
    }

    /// Returns the driver's last journey in this session at `now`. If a reset or another activation closed the session,
    /// returns SESSION_ENDED with the reason. Returns nil if the session was never activated.
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

struct ExpectedResponse {
    var verdict: Verdict
    /// The states at the beginning and at the end of the span. They differ if a deadline passes within the span. Either
    /// state is then a correct response.
    var states: [JourneyState]
    /// The reason why the journey ended, for each of `states`; nil if it had not ended.
    var endings: [Journey.Ending?]
}
