// A buffer in which one log line is built. It quotes, escapes and truncates text.

import Logging

struct LineBuffer {
    private(set) var bytes: [UInt8] = []

    init() {
        bytes.reserveCapacity(512)
    }

    mutating func append(_ string: String) {
        bytes.append(contentsOf: string.utf8)
    }

    /// Appends the entries in the order of their names, so that equal records give equal lines. Leaves enough room in
    /// the line for `ending`. If an entry does not fit, leaves out this entry and all following ones, and calls
    /// `whenCut`.
    mutating func appendEntries(
        of metadata: Logger.Metadata, roomFor ending: String,
        _ appendEntry: (inout LineBuffer, String, Logger.MetadataValue) -> Void,
        whenCut: (inout LineBuffer) -> Void
    ) {
        let bytesMax = LogLine.lineBytesMax - ending.utf8.count
        for (name, value) in metadata.sorted(by: { $0.key < $1.key }) {
            let length = bytes.count
            appendEntry(&self, LogLine.ownNames.contains(name) ? name + "_" : name, value)
            guard bytes.count > bytesMax else { continue }
            bytes.removeSubrange(length...)
            return whenCut(&self)
        }
    }

    mutating func appendJSON(_ value: Logger.MetadataValue, depth: Int) {
        guard depth <= LogLine.depthMax else { return append("\"...\"") }
        switch value {
        case .string(let string):
            appendQuoted(string)
        case .stringConvertible(let convertible):
            switch convertible {
            case is any BinaryInteger, is Bool: append(convertible.description)
            case let number as Double where number.isFinite: append(number.description)
            default: appendQuoted(convertible.description)
            }
        case .array(let elements):
            append("[")
            for (index, element) in elements.enumerated() {
                if index > 0 { append(",") }
                appendJSON(element, depth: depth + 1)
            }
            append("]")
        case .dictionary(let members):
            append("{")
            for (index, member) in members.sorted(by: { $0.key < $1.key }).enumerated() {
                if index > 0 { append(",") }
                appendQuoted(member.key)
                append(":")
                appendJSON(member.value, depth: depth + 1)
            }
            append("}")
        }
    }

    mutating func appendText(_ value: Logger.MetadataValue) {
        switch value {
        case .string(let string): appendWord(string)
        case .stringConvertible(let convertible): appendWord(convertible.description)
        case .array, .dictionary: appendJSON(value, depth: 0)
        }
    }

    /// Writes text in quotes unless it is one plain word, so that `key=value` can be parsed.
    mutating func appendWord(_ string: String) {
        let isPlain = !string.isEmpty && string.utf8.allSatisfy { $0 > 0x20 && $0 != 0x7F && $0 != 0x22 && $0 != 0x3D }
        if isPlain { appendEscaped(string) } else { appendQuoted(string) }
    }

    mutating func appendQuoted(_ string: String) {
        bytes.append(0x22)
        appendEscaped(string)
        bytes.append(0x22)
    }

    /// Writes the content of a JSON string (RFC 8259, section 7), without quotes. If the escaped content exceeds about
    /// `valueBytesMax` bytes, cuts it and adds `...`. Also escapes DEL, the C1 controls, U+2028 and U+2029, because
    /// some terminals and viewers interpret them.
    mutating func appendEscaped(_ string: String) {
        let escapeBytesMax = 6
        let end = bytes.count + LogLine.valueBytesMax - escapeBytesMax
        for scalar in string.unicodeScalars {
            guard bytes.count <= end else { return append("...") }
            switch scalar {
            case "\"": append("\\\"")
            case "\\": append("\\\\")
            case "\n": append("\\n")
            case "\r": append("\\r")
            case "\t": append("\\t")
            case "\u{0}"..."\u{1F}", "\u{7F}"..."\u{9F}", "\u{2028}", "\u{2029}": appendUnicodeEscape(scalar.value)
            default: bytes.append(contentsOf: scalar.utf8)
            }
        }
    }

    private mutating func appendUnicodeEscape(_ value: UInt32) {
        let digits = String(value, radix: 16)
        append("\\u" + String(repeating: "0", count: max(0, 4 - digits.utf8.count)) + digits)
    }
}
