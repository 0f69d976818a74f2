// Writes compact JSON directly as bytes, in the order of the calls. The caller must call `end...` once for every
// `begin...`.

public struct JSONWriter: Sendable {
    public private(set) var bytes: [UInt8] = []
    /// Whether every non-ASCII character is written as a `\u` escape.
    private let escapesNonASCII: Bool
    private var needsComma = false

    public init(reservingBytes capacity: Int = 256) {
        self.init(reservingBytes: capacity, escapesNonASCII: false)
    }

    init(reservingBytes capacity: Int, escapesNonASCII: Bool) {
        self.escapesNonASCII = escapesNonASCII
        bytes.reserveCapacity(capacity)
    }

    /// Returns the bytes written since the last call of this method, so that a document can be sent in pieces.
    package mutating func takeBytes() -> [UInt8] {
        let taken = bytes
        bytes = []
        return taken
    }

    public mutating func beginObject() { open(UInt8(ascii: "{")) }
    public mutating func endObject() { close(UInt8(ascii: "}")) }
    public mutating func beginArray() { open(UInt8(ascii: "[")) }
    public mutating func endArray() { close(UInt8(ascii: "]")) }

    /// Writes the name of the member whose value is written next.
    public mutating func name(_ name: String) {
        string(name)
        bytes.append(UInt8(ascii: ":"))
        needsComma = false
    }

    public mutating func string(_ text: String) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        characters(text)
        bytes.append(UInt8(ascii: "\""))
    }

    public mutating func integer(_ number: some BinaryInteger) {
        raw(String(number))
    }

    public mutating func bool(_ value: Bool) {
        raw(value ? "true" : "false")
    }

    public mutating func null() {
        raw("null")
    }

    /// Writes one value whose text is JSON already: the text of a number, or compact JSON from another writer.
    public mutating func raw(_ json: String) {
        separate()
        unescaped(json)
    }

    public mutating func value(_ value: JSONValue) {
        switch value {
        case .null: null()
        case .bool(let value): bool(value)
        case .number(let text): raw(text)
        case .string(let text): string(text)
        case .array(let elements):
            beginArray()
            for element in elements { self.value(element) }
            endArray()
        case .object(let members):
            beginObject()
            for member in members {
                name(member.name)
                self.value(member.value)
            }
            endObject()
        }
    }

    /// Writes a part of the JSON text unchanged. The text must contain all commas that are needed.
    mutating func verbatim(_ json: StaticString) {
        json.withUTF8Buffer { bytes.append(contentsOf: $0) }
    }

    /// Writes text that needs no escape.
    mutating func unescaped(_ text: String) {
        bytes.append(contentsOf: text.utf8)
    }

    /// Writes the characters of a string, with escapes where necessary, but without the quotes around the string.
    mutating func characters(_ text: String) {
        var text = text
        text.withUTF8 { escapesNonASCII ? appendEscapingNonASCII($0) : appendEscaping($0) }
    }

    /// Writes an integer in decimal, without a comma before it.
    mutating func digits(_ number: Int64) {
        if number < 0 { bytes.append(UInt8(ascii: "-")) }
        var rest = number.magnitude
        var (first, last) = (bytes.count, bytes.count - 1)
        repeat {
            bytes.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10))
            rest /= 10
            last += 1
        } while rest > 0
        // The digits are in reverse order. `bytes[first...].reverse()` would copy them.
        while first < last {
            bytes.swapAt(first, last)
            first += 1
            last -= 1
        }
    }

    mutating func byte(_ byte: UInt8) {
        bytes.append(byte)
    }

    /// Writes a comma if the next name or value needs one. Called before every name and every value.
    mutating func separate() {
        if needsComma { bytes.append(UInt8(ascii: ",")) }
        needsComma = true
    }

    private mutating func open(_ bracket: UInt8) {
        separate()
        bytes.append(bracket)
        needsComma = false
    }

    private mutating func close(_ bracket: UInt8) {
        bytes.append(bracket)
        needsComma = true
    }

    private mutating func appendEscaping(_ text: UnsafeBufferPointer<UInt8>) {
        appendEscaping(text, after: PlainText(of: text))
    }

    /// `plain` describes the bytes at the beginning of `text` that need no escape.
    private mutating func appendEscaping(_ text: UnsafeBufferPointer<UInt8>, after plain: PlainText) {
        var (start, end) = (0, plain.end)
        while true {
            bytes.append(contentsOf: UnsafeBufferPointer(rebasing: text[start..<end]))
            if end == text.count { return }
            appendEscape(text[end])
            start = end + 1
            end = PlainText(of: text, from: start).end
        }
    }

    private mutating func appendEscapingNonASCII(_ text: UnsafeBufferPointer<UInt8>) {
        let plain = PlainText(of: text)
        let isASCII = plain.isPrintableASCII && plain.end == text.count || text.allSatisfy { $0 < 0x80 }
        if isASCII { return appendEscaping(text, after: plain) }
        for unit in String(decoding: text, as: UTF8.self).utf16 {
            switch unit {
            case 0x80...: appendUnicodeEscape(unit)
            case ..<0x20, 0x22, 0x5C: appendEscape(UInt8(truncatingIfNeeded: unit))
            default: bytes.append(UInt8(truncatingIfNeeded: unit))
            }
        }
    }

    /// Writes a byte that RFC 8259, section 7, requires to be escaped: the quote, the backslash and the control
    /// characters.
    private mutating func appendEscape(_ byte: UInt8) {
        let letter: Unicode.Scalar
        switch byte {
        case 0x22: letter = "\""
        case 0x5C: letter = "\\"
        case 0x08: letter = "b"
        case 0x0C: letter = "f"
        case 0x0A: letter = "n"
        case 0x0D: letter = "r"
        case 0x09: letter = "t"
        default: return appendUnicodeEscape(UInt16(byte))
        }
        bytes.append(UInt8(ascii: "\\"))
        bytes.append(UInt8(ascii: letter))
    }

    private mutating func appendUnicodeEscape(_ unit: UInt16) {
        bytes.append(UInt8(ascii: "\\"))
        bytes.append(UInt8(ascii: "u"))
        for shift in [12, 8, 4, 0] as [UInt16] {
            let digit = UInt8(truncatingIfNeeded: unit >> shift & 0xF)
            bytes.append(digit < 10 ? 0x30 + digit : 0x57 + digit)
        }
    }
}

extension JSONValue {
    /// This value as compact JSON: no white space, members in their order, numbers as they were sent.
    public var compact: String {
        var writer = JSONWriter()
        writer.value(self)
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}
