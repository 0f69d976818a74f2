// Compares one response with the expected response, member by member (contract, section 3, "200 response").

import JourneyModel

struct Comparison {
    var expected: ExpectedResponse
    var eventID: String
    /// The permitted values of `status`. Both `ok` and `already_processed` are permitted if the response to an earlier
    /// attempt may have been lost.
    var statuses: [EventResponse.Status]

    func differences(from answer: Answer) -> [String] {
        guard answer.statusCode == 200 else {
            return ["got \(answer.statusCode)\(answer.code.map { " \($0)" } ?? "") instead of 200"]
        }
        let reason = expected.verdict.reason?.rawValue
        let implied = expected.verdict.implied.isEmpty ? nil : expected.verdict.implied.names.joined(separator: ", ")
        return [
            Self.difference("status", statuses.map(\.rawValue), answer.status),
            Self.difference("event_id", [eventID], answer.eventID),
            Self.difference("state", expected.states.map(\.rawValue), answer.state),
            Self.difference("ended_by", expected.endings.map { $0?.rawValue }, answer.endedBy),
            Self.difference("transition", [expected.verdict.transition.rawValue], answer.transition),
            Self.difference("reason", [reason], answer.reason),
            Self.difference(
                "implied", [implied], answer.implied.isEmpty ? nil : answer.implied.joined(separator: ", ")),
        ].compactMap(\.self)
    }

    static func difference(_ member: String, _ expected: [String?], _ found: String?) -> String? {
        guard !expected.contains(found) else { return nil }
        var words: [String] = []
        for word in expected.map({ $0 ?? "none" }) where !words.contains(word) { words.append(word) }
        return "\(member) is \(found.map(shown) ?? "missing") instead of \(words.joined(separator: " or "))"
    }

    /// Makes the server's text safe for a terminal, because the server is not trusted.
    private static func shown(_ text: String) -> String {
        String(text.unicodeScalars.prefix(64).map { $0.value < 0x20 || $0.value > 0x7E ? "?" : Character($0) })
    }
}
