// The members of a response as received. Members such as `state` stay texts, because `Comparison` compares texts.

import JourneyModel

struct Answer: Hashable {
    /// The HTTP status. For an event of a batch, the `status_code` of the event's result.
    var statusCode: Int
    var status: String?
    var eventID: String?
    var state: String?
    var endedBy: String?
    var transition: String?
    var reason: String?
    var implied: [String]
    /// The `code` of a problem response.
    var code: String?

    init(statusCode: Int, json: JSONValue?) {
        self.statusCode = statusCode
        status = json?["status"]?.text
        eventID = json?["event_id"]?.text
        let session = json?["session"]
        state = session?["state"]?.text
        endedBy = session?["ended_by"]?.text
        transition = session?["transition"]?.text
        reason = session?["reason"]?.text
        implied = session?["implied"]?.elements?.compactMap(\.text) ?? []
        code = json?["code"]?.text
    }

    /// Returns nil if the response does not have one result for each of the `count` events.
    static func all(inBatch json: JSONValue?, count: Int) -> [Answer]? {
        guard let results = json?["results"]?.elements, results.count == count else { return nil }
        return results.map { result in
            var statusCode = 0
            if case .number(let text)? = result["status_code"] { statusCode = Int(text) ?? 0 }
            return Answer(statusCode: statusCode, json: result)
        }
    }
}

extension JSONValue {
    var text: String? {
        if case .string(let text) = self { text } else { nil }
    }

    var elements: [JSONValue]? {
        if case .array(let elements) = self { elements } else { nil }
    }
}
