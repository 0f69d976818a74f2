// The envelope of a batch, `{"events":[...]}` (contract, section 3). One bad event never sinks its neighbours: what
// is wrong with one, duplicate member names and the like included, is that event's own result.

public enum EventBatch {
    public static let eventsMax = 500

    /// One result per event, in order, 1 to 500. An event's pointers are those of the single call, `/occurred_at`:
    /// each result is what the single call would have answered, and its place says which event is meant.
    ///
    /// - Parameter sentAt: the header `X-Sent-At`, the send time of all of them. `Idempotency-Key` has no meaning
    ///   for a batch.
    /// - Throws: when nothing can be said of single events: the body is no JSON, or no envelope of 1 to 500.
    public static func decode(
        _ body: [UInt8], sentAt: String? = nil
    ) throws(BodyRefusal) -> [Result<EventSubmission, BodyRefusal>] {
        let headers = EventHeaders(sentAt: sentAt)
        return try events(in: body).map { event in
            event.mapError(BodyRefusal.malformedJSON).flatMap { value in
                do throws(InvalidFields) {
                    return .success(try EventSubmission.decode(value, route: .native, headers: headers))
                } catch {
                    return .failure(.invalid(error))
                }
            }
        }
    }

    private static func events(in body: [UInt8]) throws(BodyRefusal) -> [Result<JSONValue, JSONError>] {
        let events: [Result<JSONValue, JSONError>]?
        do {
            events = try body.withUnsafeBufferPointer { bytes throws(JSONError) in
                var parser = JSONParser(bytes)
                return try parser.batchEvents()
            }
        } catch {
            throw .malformedJSON(error)
        }
        guard let events, (1...eventsMax).contains(events.count) else {
            let error = FieldError(pointer: "/events", detail: "must be an array of 1 to \(eventsMax) events")
            throw .invalid(InvalidFields([error]))
        }
        return events
    }
}

extension JSONParser {
    /// The whole text as an envelope: the elements of the root's array `events`, each with its own refusal; nil
    /// when the root is no object or has no such array.
    fileprivate mutating func batchEvents() throws(JSONError) -> [Result<JSONValue, JSONError>]? {
        var events: [Result<JSONValue, JSONError>]?
        if startOfValue() == UInt8(ascii: "{") {
            try members { parser, name throws(JSONError) in
                if name == "events" && parser.startOfValue() == UInt8(ascii: "[") {
                    events = try parser.elementsEachRefused()
                } else {
                    _ = try parser.value(depth: 1)
                }
            }
        } else {
            _ = try value(depth: 0)
        }
        try end()
        if let refusal { throw refusal }
        return events
    }

    private mutating func elementsEachRefused() throws(JSONError) -> [Result<JSONValue, JSONError>] {
        let refusalOfEnvelope = refusal
        var results: [Result<JSONValue, JSONError>] = []
        try elements { parser throws(JSONError) in
            parser.refusal = nil
            let value = try parser.value(depth: 2)
            // One more than allowed is enough to refuse the batch; a megabyte of commas shall not become a list.
            guard results.count <= EventBatch.eventsMax else { return }
            results.append(parser.refusal.map { .failure($0) } ?? .success(value))
        }
        refusal = refusalOfEnvelope
        return results
    }
}
