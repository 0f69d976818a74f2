// The response to an event (contract, section 3), written directly as bytes. The order of the members is fixed.

/// The 200 response to one event.
public struct EventResponse: Hashable, Sendable {
    /// Raw values are the spelling on the wire.
    public enum Status: String, Hashable, Sendable, CaseIterable {
        case ok
        /// The event was already stored. `verdict` is its present verdict, which late events may have changed since the
        /// first response.
        case alreadyProcessed = "already_processed"
    }

    public var status: Status
    public var eventID: String
    /// The driver's present state. All deadlines that have passed are applied.
    public var state: JourneyState
    /// The reason why the session ended; nil except in SESSION_ENDED.
    public var endedBy: Journey.Ending?
    /// The fold's verdict on this event at its position in the order.
    public var verdict: Verdict

    public init(
        status: Status, eventID: String, state: JourneyState, endedBy: Journey.Ending? = nil, verdict: Verdict
    ) {
        self.status = status
        self.eventID = eventID
        self.state = state
        self.endedBy = endedBy
        self.verdict = verdict
    }

    /// Returns `{"status":"ok","event_id":"...","session":{"state":"...","transition":"..."}}`. `session` may have
    /// three further members: `reason` after a rejection, `implied` if it is not empty, and `ended_by` in
    /// SESSION_ENDED.
    public func encoded() -> [UInt8] {
        var writer = JSONWriter(reservingBytes: 256)
        write(to: &writer, statusCode: nil)
        return writer.bytes
    }

    func write(to writer: inout JSONWriter, statusCode: Int?) {
        writer.separate()
        writer.verbatim(#"{"status":""#)
        writer.unescaped(status.rawValue)
        if let statusCode {
            writer.verbatim(#"","status_code":"#)
            writer.digits(Int64(statusCode))
            writer.verbatim(#","event_id":""#)
        } else {
            writer.verbatim(#"","event_id":""#)
        }
        writer.characters(eventID)
        writer.verbatim(#"","session":{"state":""#)
        writer.unescaped(state.rawValue)
        if let endedBy {
            writer.verbatim(#"","ended_by":""#)
            writer.unescaped(endedBy.rawValue)
        }
        writer.verbatim(#"","transition":""#)
        writer.unescaped(verdict.transition.rawValue)
        if let reason = verdict.reason {
            writer.verbatim(#"","reason":""#)
            writer.unescaped(reason.rawValue)
        }
        guard !verdict.implied.isEmpty else { return writer.verbatim(#""}}"#) }
        writer.verbatim(#"","implied":["#)
        for (index, name) in verdict.implied.names.enumerated() {
            if index > 0 { writer.verbatim(",") }
            writer.verbatim("\"")
            writer.unescaped(name)
            writer.verbatim("\"")
        }
        writer.verbatim("]}}")
    }
}

/// The result of one event of a batch. It is the same as for a request with only that event.
public enum BatchResult: Hashable, Sendable {
    case response(EventResponse)
    case problem(Problem)

    /// Returns `{"results":[...]}`, where each result has a `status_code`.
    public static func encode(_ results: [BatchResult]) -> [UInt8] {
        var writer = JSONWriter(reservingBytes: 32 + 192 * results.count)
        writer.beginObject()
        writer.name("results")
        writer.beginArray()
        for result in results {
            switch result {
            case .response(let response): response.write(to: &writer, statusCode: 200)
            case .problem(let problem): problem.write(to: &writer, statusCode: problem.code.status)
            }
        }
        writer.endArray()
        writer.endObject()
        return writer.bytes
    }
}

extension JSONWriter {
    /// Writes `"implied":["..."]` if the verdict implies steps; otherwise nothing.
    public mutating func implied(_ verdict: Verdict) {
        guard !verdict.implied.isEmpty else { return }
        name("implied")
        beginArray()
        for name in verdict.implied.names { string(name) }
        endArray()
    }
}
