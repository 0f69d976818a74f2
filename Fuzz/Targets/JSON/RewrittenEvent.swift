// Rewrites an event in two ways. The first changes everything that EventSubmission.canonicalForm ignores, so the
// canonical form must stay the same. The second changes one value in the canonical form, so the form must change.

import JourneyModel

extension EventSubmission {
    func checkRewritten(from body: [UInt8], _ headers: EventHeaders) throws(Finding) {
        guard case .object(let members)? = try? JSONValue.parse(body) else { throw Finding("No object, and accepted.") }
        let other = rewritten(members)
        let again = Self.decoded(other, headers)
        guard let again else { throw Finding("Refused when it is written in other words.") }
        try require(again.canonicalForm == canonicalForm, "Other words, another canonical form.")

        let place = JSONMember("charger_id", .string(chargerID == "c" ? "d" : "c"))
        let elsewhere = other.filter { $0.name != "charger_id" } + [place]
        let changed = Self.decoded(elsewhere, headers)
        try require(changed != nil && changed?.canonicalForm != canonicalForm, "Another charger, the same form.")
    }

    private static func decoded(_ members: [JSONMember], _ headers: EventHeaders) -> EventSubmission? {
        try? decode(Array(JSONValue.object(members).compact.utf8), route: .native, headers: headers)
    }

    private func rewritten(_ members: [JSONMember]) -> [JSONMember] {
        var other = members.reversed().filter { $0.value != .null && !rewrittenNames.contains($0.name) }
        other.append(JSONMember("event", .string(isCanonical ? name.v1Spelling : name.canonical)))
        other.append(JSONMember("occurred_at", .string(RFC3339.text(of: occurredAt))))
        other.append(JSONMember("timestamp", .string("2026-11-05T07:00:00.5+01:00")))
        other.append(JSONMember("source", .string(source)))
        other.append(JSONMember("schema_version", .string(schemaVersion)))
        other.append(JSONMember("x_unknown", .array([.null])))
        if let metadata, let value = try? JSONValue.parse(Array(metadata.utf8)) {
            // Rewriting makes numbers longer, so long metadata could exceed its limit. Therefore rewrite numbers only
            // in short metadata.
            other.append(JSONMember("metadata", inOtherWords(value, numbersToo: metadata.utf8.count < 2048)))
        }
        return other
    }

    private var isCanonical: Bool { spelling == name.canonical }
}

private let rewrittenNames: Set<String> = [
    "event", "occurred_at", "timestamp", "source", "schema_version", "x_unknown", "metadata",
]

private func inOtherWords(_ value: JSONValue, numbersToo: Bool) -> JSONValue {
    switch value {
    case .null, .bool, .string:
        return value
    case .number(let text):
        let isPlain = !text.utf8.contains { $0 == UInt8(ascii: "e") || $0 == UInt8(ascii: "E") }
        guard numbersToo, isPlain else { return value }
        return .number(text + (text.utf8.contains(UInt8(ascii: ".")) ? "0" : ".0e+0"))
    case .array(let elements):
        return .array(elements.map { inOtherWords($0, numbersToo: numbersToo) })
    case .object(let members):
        return .object(members.reversed().map { JSONMember($0.name, inOtherWords($0.value, numbersToo: numbersToo)) })
    }
}
