// The syntax of one line of a header or trailer section (RFC 9112 section 5).
//
// ```
// field-line = field-name ":" OWS field-value OWS
// field-name = token
// ```
//
// Leading whitespace (obs-fold, section 5.2) and whitespace before the colon (section 5.1) are rejected, because a
// token contains no space and no tab.

struct FieldLine {
    let name: Range<Int>
    /// The value without surrounding whitespace. It may be empty.
    let value: Range<Int>

    /// Parses a line. `line` does not include the CRLF.
    static func parse(_ bytes: [UInt8], _ line: Range<Int>) throws(Refusal) -> FieldLine {
        var index = line.lowerBound
        while index < line.upperBound, Grammar.tokenBytes.contains(bytes[index]) { index += 1 }
        guard index > line.lowerBound, index < line.upperBound, bytes[index] == UInt8(ascii: ":") else {
            throw malformedName(bytes, line)
        }
        let value = Grammar.trimmed(bytes, (index + 1)..<line.upperBound)
        guard Grammar.areFieldValueBytes(bytes, value) else {
            throw Refusal(.badRequest, "A field value contains a control character.")
        }
        return FieldLine(name: line.lowerBound..<index, value: value)
    }

    private static func malformedName(_ bytes: [UInt8], _ line: Range<Int>) -> Refusal {
        if let first = line.first, Grammar.isWhitespace(bytes[first]) {
            return Refusal(.badRequest, "A field line starts with whitespace; folded lines are not accepted.")
        }
        return Refusal(.badRequest, "A field line has no valid name, or no colon right after it.")
    }
}
