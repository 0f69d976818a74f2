// One text for all ways of writing the same JSON value: members sorted by the bytes of their names, numbers by
// their value, strings by their characters. ASCII only, so that equal Strings have equal bytes.

extension JSONWriter {
    static func canonical(reservingBytes capacity: Int) -> JSONWriter {
        JSONWriter(reservingBytes: capacity, escapesNonASCII: true)
    }

    mutating func canonicalValue(_ value: JSONValue) {
        switch value {
        case .number(let text):
            raw(CanonicalJSON.number(text))
        case .array(let elements):
            beginArray()
            for element in elements { canonicalValue(element) }
            endArray()
        case .object(let members):
            beginObject()
            for member in members.sorted(by: { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }) {
                name(member.name)
                canonicalValue(member.value)
            }
            endObject()
        case .null, .bool, .string:
            self.value(value)
        }
    }
}

enum CanonicalJSON {
    /// The digits without zeros at their ends and the power of ten that they count: `-12.50e1` is `-125e0`.
    /// Exact, unlike a detour over Double. `text` is a JSON number; one whose exponent has more than 9 digits
    /// comes back as it is.
    static func number(_ text: String) -> String {
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
}
