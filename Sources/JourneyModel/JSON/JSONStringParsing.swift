// The part of the parser that reads strings (RFC 8259, section 7), from the opening quote to the closing quote.

/// A string found in the text.
enum JSONText {
    /// A string that has no escape and only bytes from space to tilde. The value is the bytes between the quotes. The
    /// buffer is valid as long as the parser's bytes are valid.
    case printable(UnsafeBufferPointer<UInt8>)
    /// Any other string, with its escapes replaced by the characters.
    case made(String)

    var string: String {
        switch self {
        case .printable(let bytes): String(decoding: bytes, as: UTF8.self)
        case .made(let text): text
        }
    }

    func withUTF8<Answer>(_ body: (UnsafeBufferPointer<UInt8>) -> Answer) -> Answer {
        switch self {
        case .printable(let bytes): return body(bytes)
        case .made(var text): return text.withUTF8(body)
        }
    }
}

extension JSONParser {
    mutating func string() throws(JSONError) -> String {
        try text().string
    }

    /// Reads a string from quote to quote. Builds it character by character only if it has an escape.
    mutating func text() throws(JSONError) -> JSONText {
        let start = offset + 1
        let plain = PlainText(of: bytes, from: start)
        offset = plain.end
        guard let byte = current else { throw failure(.unexpectedEnd) }
        if byte == UInt8(ascii: "\\") { return .made(try escapedString(from: start)) }
        guard byte == UInt8(ascii: "\"") else { throw failure(.unescapedControlCharacter) }
        offset += 1
        let inside = UnsafeBufferPointer(rebasing: bytes[start..<plain.end])
        return plain.isPrintableASCII ? .printable(inside) : .made(text(of: inside, at: start))
    }

    /// Reads the rest of a string that began at `start` and has its first escape at `offset`.
    private mutating func escapedString(from start: Int) throws(JSONError) -> String {
        isCompact = false
        var unescaped = Array(bytes[start..<offset])
        while let byte = current {
            switch byte {
            case UInt8(ascii: "\""):
                offset += 1
                return unescaped.withUnsafeBufferPointer { text(of: $0, at: start) }
            case UInt8(ascii: "\\"):
                unescaped.append(contentsOf: String(try escape()).utf8)
            case ..<0x20:
                throw failure(.unescapedControlCharacter)
            default:
                unescaped.append(byte)
                offset += 1
            }
        }
        throw failure(.unexpectedEnd)
    }

    /// Reads the escape at `offset` and returns its character.
    private mutating func escape() throws(JSONError) -> Unicode.Scalar {
        offset += 1
        guard let byte = current else { throw failure(.unexpectedEnd) }
        let scalar: Unicode.Scalar
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): scalar = Unicode.Scalar(byte)
        case UInt8(ascii: "b"): scalar = "\u{08}"
        case UInt8(ascii: "f"): scalar = "\u{0C}"
        case UInt8(ascii: "n"): scalar = "\n"
        case UInt8(ascii: "r"): scalar = "\r"
        case UInt8(ascii: "t"): scalar = "\t"
        case UInt8(ascii: "u"): return try unicodeEscape()
        default: throw failure(.invalidEscape)
        }
        offset += 1
        return scalar
    }

    /// Reads `uXXXX`, or the surrogate pair `uXXXX\uXXXX` for a character beyond U+FFFF. If a surrogate is unpaired
    /// (RFC 8259, section 8.2), records the refusal and returns U+FFFD.
    private mutating func unicodeEscape() throws(JSONError) -> Unicode.Scalar {
        let start = offset - 1
        let first = try fourHexDigits()
        if let scalar = Unicode.Scalar(first) { return scalar }
        let afterFirst = offset
        if first < 0xDC00, skip(UInt8(ascii: "\\")), current == UInt8(ascii: "u") {
            let second = try fourHexDigits()
            if 0xDC00...0xDFFF ~= second,
                let scalar = Unicode.Scalar(0x10000 + (first - 0xD800) << 10 + (second - 0xDC00))
            {
                return scalar
            }
        }
        offset = afterFirst
        refuse(.loneSurrogate, at: start)
        return "\u{FFFD}"
    }

    /// Reads the `u` at `offset` and its four digits.
    private mutating func fourHexDigits() throws(JSONError) -> UInt32 {
        offset += 1
        var number: UInt32 = 0
        for _ in 0..<4 {
            guard let byte = current, let digit = byte.hexDigitValue else { throw failure(.invalidEscape) }
            number = number << 4 | UInt32(digit)
            offset += 1
        }
        return number
    }

    /// Returns `bytes` as a String. For invalid UTF-8, records the refusal and returns an empty text. `start` is the
    /// offset of `bytes` in the text.
    private mutating func text(of bytes: UnsafeBufferPointer<UInt8>, at start: Int) -> String {
        if let text = String(validating: bytes, as: UTF8.self) { return text }
        refuse(.invalidUTF8, at: start)
        return ""
    }
}
