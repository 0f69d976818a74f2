// An answer as it came over the wire, taken by its words: what they mean is for the comparison.

import JourneyModel

struct Answer: Hashable {
    /// HTTP's; in a batch the event's `status_code`.
    var statusCode: Int
    var status: String?
    var eventID: String?
    var state: String?
    var transition: String?
    var reason: String?
    var implied: [String]
    /// Of a problem.
    var code: String?

    init(statusCode: Int, json: JSONValue?) {
        self.statusCode = statusCode
        status = json?["status"]?.text
        eventID = json?["event_id"]?.text
        let session = json?["session"]
        state = session?["state"]?.text
        transition = session?["transition"]?.text
        reason = session?["reason"]?.text
        implied = session?["implied"]?.elements?.compactMap(\.text) ?? []
        code = json?["code"]?.text
    }

    /// One per event of a batch; nil when it is no answer to so many.
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
