// The envelope of a batch, `{"events":[...]}` (contract, section 3). An invalid event does not affect the other events.
// Its errors, including duplicate member names, appear only in its own result.

public enum EventBatch {
    /// The maximum number of events in one batch (contract, section 3). It limits the work for one request and the size
    /// of the response.
    public static let eventsMax = 500

    /// Returns one result for each of the 1 to 500 events, in the order of the events. Each result is the same as if
    /// the event were alone in the request, so its JSON Pointers begin at the event, for example `/occurred_at`.
    ///
    /// - Parameters:
    ///   - route: `.native`, or `.service` for the batch of a service.
    ///   - sentAt: the header `X-Sent-At`, which is the send time of all events. `Idempotency-Key` has no meaning for a
    ///     batch.
    /// - Throws: if the body is not JSON, or is not an envelope of 1 to 500 events. In that case, no event gets a
    ///   result of its own.
    public static func decode(
        _ body: [UInt8], route: EventRoute = .native, sentAt: String? = nil
    ) throws(BodyRefusal) -> [Result<EventSubmission, BodyRefusal>] {
        let events: [Result<EventSubmission, BodyRefusal>]?
        do {
            events = try body.withUnsafeBufferPointer { bytes throws(JSONError) in
                var parser = JSONParser(bytes)
                return try parser.batchEvents(route, EventHeaders(sentAt: sentAt))
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
    /// Reads the whole text. Returns one result for each element of the array `events`, or nil if the text has no such
    /// array.
    fileprivate mutating func batchEvents(
        _ route: EventRoute, _ headers: EventHeaders
    ) throws(JSONError) -> [Result<EventSubmission, BodyRefusal>]? {
        var events: [Result<EventSubmission, BodyRefusal>]?
        if startOfValue() == UInt8(ascii: "{") {
            var (earlier, names) = ([String](), JSONNames())
            try list(from: UInt8(ascii: "{"), to: UInt8(ascii: "}")) { parser throws(JSONError) in
                let name = try parser.name(&names, after: earlier)
                earlier.append(name)
                if name == "events" && parser.startOfValue() == UInt8(ascii: "[") {
                    events = try parser.elementsEachRefused(route, headers)
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

    private mutating func elementsEachRefused(
        _ route: EventRoute, _ headers: EventHeaders
    ) throws(JSONError) -> [Result<EventSubmission, BodyRefusal>] {
        let refusalOfEnvelope = refusal
        var results: [Result<EventSubmission, BodyRefusal>] = []
        try elements { parser throws(JSONError) in
            parser.refusal = nil
            let members = try EventMembers(&parser, depth: 2, details: EventDetail.all)
            // One result beyond the maximum is kept, so that the caller sees that there are too many events. Further
            // results are dropped, because they could fill a megabyte.
            guard results.count <= EventBatch.eventsMax else { return }
            if let refusal = parser.refusal {
                results.append(.failure(.malformedJSON(refusal)))
                return
            }
            do throws(InvalidFields) {
                results.append(.success(try EventSubmission(members, route: route, headers: headers)))
            } catch {
                results.append(.failure(.invalid(error)))
            }
        }
        refusal = refusalOfEnvelope
        return results
    }
}
