// Determines from the status of a response what happens to an event in the queue (contract, sections 3 and 5;
// docs/client.md, "The short form"). The same rules apply to the response to a single event and to a result in a batch.

import JourneyModel

/// The reason why the server will never accept an event.
public struct Refusal: Hashable, Sendable {
    public var status: Int
    /// The code of the problem. It is a text, because a newer server may send a code that `ProblemCode` lacks.
    public var code: String
    public var detail: String?
    /// Identifies the request in the server's log.
    public var requestID: String?

    /// Returns nil if the response is not a 4xx with a problem document of this server. Every such document has a code
    /// (contract, section 5). Captive portals, and gateways without a backend, send no code.
    init?(status: Int, body: JSONValue?) {
        guard (400..<500).contains(status), let code = body?["code"]?.text else { return nil }
        self.status = status
        self.code = code
        detail = body?["detail"]?.text
        requestID = body?["request_id"]?.text
    }
}

enum EventReply: Hashable {
    /// The event is durable on the server. The associated value is the server's answer, or nil if this release cannot
    /// read the answer.
    case stored(EventResponse?)
    /// The event is not stored, or it is unknown whether it is stored. It must be sent again. The associated value is
    /// the delay that the body asks for, in seconds; nil if it asks for none.
    case again(retryAfterSeconds: Int? = nil)
    /// Status 500, or a 4xx response that did not come from this server. The event must be sent again. The queue counts
    /// these replies, because the event itself may cause them.
    case serverError
    case unauthorized
    case refused(Refusal)

    /// - Parameter body: the body of the response; nil if it is not JSON.
    init(status: Int, body: JSONValue?, eventID: String) {
        switch status {
        case 200..<300: self = Self.isAcknowledgement(body, of: eventID) ? .stored(EventResponse(json: body)) : .again()
        case 401: self = .unauthorized
        // A 403 without a code is from a captive portal or a firewall, and says nothing about the token.
        case 403 where body?["code"]?.text != nil: self = .unauthorized
        // A captive portal redirects every request. A redirect cannot be the event's fault, so the event keeps its
        // place in the queue.
        case 300..<400: self = .again()
        case 408, 429, 501...:
            self = .again(retryAfterSeconds: body?["retry_after"]?.integer.flatMap(Int.init(exactly:)))
        default: self = Refusal(status: status, body: body).map(EventReply.refused) ?? .serverError
        }
    }

    /// Returns the reply to each event of an attempt, in the order of the events. Returns nil if a batch was rejected
    /// as a whole. The response then does not show which events are invalid, so each event must be sent alone.
    static func all(in outcome: HTTPExchange.Outcome, to eventIDs: [String]) -> [EventReply]? {
        guard case .response(let response) = outcome else { return eventIDs.map { _ in .again() } }
        let body = try? JSONValue.parse(response.body)
        let replies = eventIDs.map { EventReply(status: response.status, body: body, eventID: $0) }
        guard eventIDs.count > 1 else { return replies }
        switch replies.first {
        case .refused: return nil
        case .unauthorized, .serverError: return replies
        case .again, .stored, nil: return batch(status: response.status, body: body, eventIDs: eventIDs)
        }
    }

    private static func batch(status: Int, body: JSONValue?, eventIDs: [String]) -> [EventReply] {
        guard status == 200, let results = body?["results"]?.elements, results.count == eventIDs.count else {
            return eventIDs.map { _ in .again() }
        }
        return zip(results, eventIDs).map { result, eventID in
            guard let status = result["status_code"]?.integer.flatMap(Int.init(exactly:)) else { return .again() }
            return EventReply(status: status, body: result, eventID: eventID)
        }
    }

    var isSettled: Bool {
        switch self {
        case .stored, .refused: true
        case .again, .serverError, .unauthorized: false
        }
    }

    var retryAfterSeconds: Int? {
        if case .again(let seconds) = self { seconds } else { nil }
    }

    var isToBeRepeated: Bool {
        switch self {
        case .again, .serverError: true
        case .stored, .refused, .unauthorized: false
        }
    }

    /// Returns whether the body has a known `status` and the event's id. Without both, the event stays in the queue,
    /// because a captive portal or a misconfigured proxy can also return 200.
    private static func isAcknowledgement(_ body: JSONValue?, of eventID: String) -> Bool {
        guard let status = body?["status"]?.text, EventResponse.Status(rawValue: status) != nil else { return false }
        return body?["event_id"]?.text == eventID
    }
}

extension EventResponse {
    /// Reads the JSON that `encoded` writes. Returns nil if a member is missing or has a value that this release does
    /// not know.
    init?(json: JSONValue?) {
        guard let json, let session = json["session"],
            let status = json["status"]?.text.flatMap(Status.init(rawValue:)), let eventID = json["event_id"]?.text,
            let state = session["state"]?.text.flatMap(JourneyState.init(rawValue:)),
            let transition = session["transition"]?.text.flatMap(Verdict.Transition.init(rawValue:))
        else { return nil }
        let reason = session["reason"]?.text.flatMap(Verdict.Reason.init(rawValue:))
        guard (reason != nil) == (transition == .rejected) else { return nil }
        let names = session["implied"]?.elements?.compactMap(\.text) ?? []
        self.init(
            status: status, eventID: eventID, state: state,
            endedBy: session["ended_by"]?.text.flatMap(Journey.Ending.init(rawValue:)),
            verdict: Verdict(transition, reason: reason, implied: ImpliedSteps(names: names, state: state)))
    }
}

extension HTTPExchange.Outcome {
    var retryAfterSeconds: Int? {
        if case .response(let response) = self { response.retryAfterSeconds } else { nil }
    }
}

extension HTTPExchange.Response {
    /// The number of seconds to wait before the next request, from `Retry-After`. An HTTP-date is ignored, because this
    /// server never sends one.
    ///
    /// If only some events of a batch were rate-limited, the response has no `Retry-After`. The number then comes from
    /// `RateLimit`: the longest `t` (seconds until the reset) of the limits that are used up.
    var retryAfterSeconds: Int? {
        if let seconds = field("Retry-After").flatMap({ Int($0) }) { return seconds }
        return field("RateLimit").flatMap(Self.exhaustedLimitSeconds)
    }

    /// Returns the longest `t` of the limits with `r=0`. For `"session";r=0;t=12, "presession";r=3;t=40`, this is 12.
    private static func exhaustedLimitSeconds(_ value: String) -> Int? {
        value.split(separator: ",").compactMap { limit in
            let parameters = limit.split(separator: ";").map { $0.filter { $0 != " " } }
            guard parameters.contains("r=0") else { return nil }
            return parameters.first { $0.hasPrefix("t=") }.flatMap { Int($0.dropFirst(2)) }
        }.max()
    }
}
