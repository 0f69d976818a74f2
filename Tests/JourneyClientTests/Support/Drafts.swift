// Drafts and responses for the tests of the queue.

import JourneyClient
import JourneyModel

extension EventDraft {
    static func draft(_ name: EventName = .enteredChargerIntentZone, _ sequence: Int64 = 0) -> EventDraft {
        EventDraft(
            name: name, sessionID: name.requiresSession ? "s1" : nil, chargerID: "c1", occurredAt: .at(0),
            sequence: sequence)
    }
}

extension HTTPExchange.Outcome {
    static func answer(
        _ status: Int, _ body: String = "", fields: [HTTPExchange.Field] = []
    ) -> HTTPExchange.Outcome {
        .response(HTTPExchange.Response(status: status, fields: fields, body: Array(body.utf8)))
    }

    /// Returns the server's response to a stored event.
    static func stored(_ eventID: String) -> HTTPExchange.Outcome {
        .response(HTTPExchange.Response(status: 200, body: EventResponse.stored(eventID).encoded()))
    }

    static func problem(
        _ code: ProblemCode, retryAfter: String? = nil
    ) -> HTTPExchange.Outcome {
        let fields = retryAfter.map { [HTTPExchange.Field("retry-after", $0)] } ?? []
        return .response(
            HTTPExchange.Response(
                status: code.status, fields: fields,
                body: Problem(code, detail: "why", requestID: "r-1").encoded()))
    }

    static func batch(_ results: [BatchResult], fields: [HTTPExchange.Field] = []) -> HTTPExchange.Outcome {
        .response(HTTPExchange.Response(status: 200, fields: fields, body: BatchResult.encode(results)))
    }
}

extension EventResponse {
    static func stored(_ eventID: String) -> EventResponse {
        EventResponse(status: .ok, eventID: eventID, state: .nearCharger, verdict: .applied)
    }
}

/// A queue with scripted responses of the server. Each random choice has its lowest value. This is a class, because
/// Swift Testing's macros cannot call a mutating method of a structure.
final class QueueBench {
    var queue: EventQueue<MemoryEventJournal>
    var random = ConstantRandom(bits: 1)

    init(_ eventIDs: String..., journaled events: [QueuedEvent] = []) throws {
        queue = try EventQueue(driver: DriverID("d1"), journal: MemoryEventJournal(events))
        for (index, id) in eventIDs.enumerated() {
            try enqueue(id, .draft(.enteredChargerIntentZone, Int64(index)))
        }
    }

    var ids: [String] { queue.events.map(\.eventID) }

    func attempt(at seconds: Double, token: String = "token") -> Attempt? {
        queue.nextAttempt(at: .at(seconds), accessToken: token)
    }

    /// Makes one attempt and gives its outcome to the queue. Returns the queue's outputs, or nil if the queue has
    /// nothing to send at this time.
    func exchange(_ outcome: HTTPExchange.Outcome, at seconds: Double) -> [QueueOutput]? {
        guard let attempt = attempt(at: seconds) else { return nil }
        return report(outcome, of: attempt, at: seconds)
    }

    func report(_ outcome: HTTPExchange.Outcome, of attempt: Attempt, at seconds: Double) -> [QueueOutput] {
        queue.handle(outcome, of: attempt, at: .at(seconds), using: &random)
    }

    func signIn(_ driver: String) -> Bool {
        queue.signedIn(as: DriverID(driver))
    }

    @discardableResult
    func enqueue(
        _ eventID: String, _ draft: EventDraft = .draft(), at seconds: Double = 0
    ) throws(EnqueueError) -> [QueueOutput] {
        try queue.enqueue(draft, eventID: eventID, at: .at(seconds))
    }
}
