// The canonical form, made from Strings, for PlainDecoding.

import JourneyModel

extension EventSubmission {
    func plainCanonicalForm(metadata: JSONValue?) -> String {
        let members: [(String, String?)] = [
            ("app_state", appState.map(quoted)), ("charger_id", chargerID.map(quoted)),
            ("event", quoted(name.canonical)), ("event_id", quoted(eventID)),
            ("idempotency_key", quoted(idempotencyKey)), ("merchant_id", merchantID.map(quoted)),
            ("metadata", metadata.map(canonical)), ("occurred_at", String(occurredAt.millisecondsSinceEpoch)),
            ("schema_version", quoted(schemaVersion)), ("sequence", sequence.map { String($0) }),
            ("session_id", sessionID.map(quoted)), ("source", quoted(source)),
        ]
        let texts = members.compactMap { name, value in value.map { "\"\(name)\":\($0)" } }
        return "{\(texts.joined(separator: ","))}"
    }
}

private func canonical(_ value: JSONValue) -> String {
    switch value {
    case .null: return "null"
    case .bool(let value): return value ? "true" : "false"
    case .number(let text): return canonicalNumber(text)
    case .string(let text): return quoted(text)
    case .array(let elements): return "[\(elements.map(canonical).joined(separator: ","))]"
    case .object(let members):
        let sorted = members.sorted { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
        return "{\(sorted.map { "\(quoted($0.name)):\(canonical($0.value))" }.joined(separator: ","))}"
    }
}

private func quoted(_ text: String) -> String {
    var quoted = ""
    for unit in text.utf16 {
        switch unit {
        case 0x22: quoted += "\\\""
        case 0x5C: quoted += "\\\\"
        case 0x08: quoted += "\\b"
        case 0x0C: quoted += "\\f"
        case 0x0A: quoted += "\\n"
        case 0x0D: quoted += "\\r"
        case 0x09: quoted += "\\t"
        case ..<0x20, 0x80...:
            let digits = String(unit, radix: 16)
            quoted += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
        default: quoted.unicodeScalars.append(Unicode.Scalar(UInt8(truncatingIfNeeded: unit)))
        }
    }
    return "\"\(quoted)\""
}

/// Returns a number's canonical form: its sign if negative, its digits without leading and trailing zeros, `e`, and the
/// exponent of ten. Zero becomes `0`. A text whose exponent has more than ten characters stays as it is.
private func canonicalNumber(_ text: String) -> String {
    var digits: [UInt8] = []
    var (exponent, isNegative, isFraction) = (0, false, false)
    var rest = text.utf8[...]
    while let byte = rest.popFirst() {
        switch byte {
        case UInt8(ascii: "-"): isNegative = true
        case UInt8(ascii: "."): isFraction = true
        case UInt8(ascii: "e"), UInt8(ascii: "E"):
            guard rest.count <= 10, let power = Int(Substring(rest)) else { return text }
            exponent += power
            rest = rest[rest.endIndex...]
        default:
            if isFraction { exponent -= 1 }
            if byte != UInt8(ascii: "0") || !digits.isEmpty { digits.append(byte) }
        }
    }
    while digits.last == UInt8(ascii: "0") {
        digits.removeLast()
        exponent += 1
    }
    guard !digits.isEmpty else { return "0" }
    return "\(isNegative ? "-" : "")\(String(decoding: digits, as: UTF8.self))e\(exponent)"
}
