// The bytes that the grammars of RFC 9110, RFC 9112 and RFC 3986 allow. Each set is declared next to its grammar rule.
// All functions work on bytes, and fold case only in ASCII.

/// A set of ASCII bytes in two 64-bit words, so that testing a byte takes a shift and a mask. Bytes of 0x80 and above
/// are never in a set. GrammarTests compares each set with the grammar quoted at its declaration.
struct ByteSet: Sendable {
    /// The bytes 0 to 63: bit n is set if the set contains byte n.
    let from0: UInt64
    /// The bytes 64 to 127: bit n is set if the set contains byte 64 + n.
    let from64: UInt64

    @inline(__always)
    func contains(_ byte: UInt8) -> Bool {
        let word = byte < 64 ? from0 : from64
        return byte < 128 && (word &>> UInt64(byte & 63)) & 1 == 1
    }
}

enum Grammar {
    /// The bytes of a token (RFC 9110 section 5.6.2):
    /// ```
    /// token = 1*tchar
    /// tchar = "!" / "#" / "$" / "%" / "&" / "'" / "*" / "+" / "-" / "."
    ///       / "^" / "_" / "`" / "|" / "~" / DIGIT / ALPHA
    /// ```
    static let tokenBytes = ByteSet(from0: 0x03FF_6CFA_0000_0000, from64: 0x57FF_FFFF_C7FF_FFFE)

    /// The bytes of a path (RFC 3986 section 3.3), except "%". A "%" starts a triplet, which is checked separately:
    /// ```
    /// absolute-path = 1*( "/" segment )          (RFC 9110 section 4.1)
    /// segment       = *pchar
    /// pchar         = unreserved / pct-encoded / sub-delims / ":" / "@"
    /// unreserved    = ALPHA / DIGIT / "-" / "." / "_" / "~"
    /// sub-delims    = "!" / "$" / "&" / "'" / "(" / ")" / "*" / "+" / "," / ";" / "="
    /// ```
    static let pathBytes = ByteSet(from0: 0x2FFF_FFD2_0000_0000, from64: 0x47FF_FFFE_87FF_FFFF)

    /// The bytes of `query = *( pchar / "/" / "?" )` (RFC 3986 section 3.4), except "%".
    static let queryBytes = ByteSet(from0: 0xAFFF_FFD2_0000_0000, from64: 0x47FF_FFFE_87FF_FFFF)

    /// The bytes of `reg-name = *( unreserved / pct-encoded / sub-delims )` (RFC 3986 section 3.2.2), except "%".
    static let registeredNameBytes = ByteSet(from0: 0x2BFF_7FD2_0000_0000, from64: 0x47FF_FFFE_87FF_FFFE)

    /// Returns whether a field value may contain the byte (RFC 9110 section 5.5). HTAB is the only allowed control
    /// character:
    /// ```
    /// field-value   = *field-content
    /// field-content = field-vchar [ 1*( SP / HTAB / field-vchar ) field-vchar ]
    /// field-vchar   = VCHAR / obs-text          obs-text = %x80-FF
    /// ```
    @inline(__always)
    static func isFieldValueByte(_ byte: UInt8) -> Bool {
        byte >= 0x20 && byte != 0x7F || byte == tab
    }

    @inline(__always)
    static func isWhitespace(_ byte: UInt8) -> Bool {
        byte.isOptionalWhitespace
    }

    @inline(__always)
    static func isDigit(_ byte: UInt8) -> Bool {
        byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9")
    }

    /// Returns the value of one HEXDIG in either case; nil for any other byte.
    @inline(__always)
    static func hexValue(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        default: nil
        }
    }

    @inline(__always)
    static func lowercased(_ byte: UInt8) -> UInt8 {
        byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "Z") ? byte | 0x20 : byte
    }

    static let tab = UInt8(ascii: "\t")
    static let lineFeed = UInt8(ascii: "\n")
    static let carriageReturn: UInt8 = 0x0D
    static let space = UInt8(ascii: " ")
}

extension UInt64 {
    private static let everyByte: UInt64 = 0x0101_0101_0101_0101
    private static let everyHighBit: UInt64 = 0x8080_8080_8080_8080

    /// Returns whether at least one of the eight bytes is below `limit`. `limit` must be at most 128.
    @inline(__always)
    fileprivate func hasByte(below limit: UInt8) -> Bool {
        (self &- Self.everyByte &* UInt64(limit)) & ~self & Self.everyHighBit != 0
    }

    @inline(__always)
    fileprivate func hasByte(_ byte: UInt8) -> Bool {
        (self ^ (Self.everyByte &* UInt64(byte))).hasByte(below: 1)
    }
}

extension Grammar {
    static func isToken(_ bytes: [UInt8], _ range: Range<Int>) -> Bool {
        !range.isEmpty && allBytes(bytes, range, in: tokenBytes)
    }

    static func allBytes(_ bytes: [UInt8], _ range: Range<Int>, in set: ByteSet) -> Bool {
        for index in range where !set.contains(bytes[index]) { return false }
        return true
    }

    /// Returns whether the range equals `word`, ignoring case. `word` must be in lower case.
    static func matches(_ bytes: [UInt8], _ range: Range<Int>, _ word: StaticString) -> Bool {
        guard range.count == word.utf8CodeUnitCount else { return false }
        return word.withUTF8Buffer { letters in
            for offset in 0..<letters.count where lowercased(bytes[range.lowerBound + offset]) != letters[offset] {
                return false
            }
            return true
        }
    }

    /// Returns whether a field value may contain all of the bytes. Tests eight bytes at a time, because an access token
    /// has hundreds of bytes.
    static func areFieldValueBytes(_ bytes: [UInt8], _ range: Range<Int>) -> Bool {
        bytes.withUnsafeBytes { bytes in
            precondition(range.lowerBound >= 0 && range.upperBound <= bytes.count)
            var index = range.lowerBound
            while index < range.upperBound {
                if range.upperBound - index >= 8 {
                    let word = bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)
                    if !word.hasByte(below: 0x20), !word.hasByte(0x7F) {
                        index += 8
                        continue
                    }
                }
                guard isFieldValueByte(bytes[index]) else { return false }
                index += 1
            }
            return true
        }
    }

    /// Returns the index of the first line feed at or after `start`. If there is none, returns the number of bytes.
    static func endOfLine(_ bytes: [UInt8], from start: Int) -> Int {
        bytes.withUnsafeBytes { bytes in
            precondition(start >= 0 && start <= bytes.count)
            var index = start
            while bytes.count - index >= 8 {
                let word = bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)
                if word.hasByte(lineFeed) { break }
                index += 8
            }
            while index < bytes.count, bytes[index] != lineFeed { index += 1 }
            return index
        }
    }

    static func trimmed(_ bytes: [UInt8], _ range: Range<Int>) -> Range<Int> {
        var lower = range.lowerBound
        var upper = range.upperBound
        while lower < upper, isWhitespace(bytes[lower]) { lower += 1 }
        while lower < upper, isWhitespace(bytes[upper - 1]) { upper -= 1 }
        return lower..<upper
    }

    static func firstIndex(of byte: UInt8, _ bytes: [UInt8], _ range: Range<Int>) -> Int? {
        for index in range where bytes[index] == byte { return index }
        return nil
    }

    /// Calls `body` with each element of a comma-separated list (RFC 9110 section 5.6.1: `#element`), without
    /// surrounding whitespace. Empty elements are included. Quoted strings are not recognized.
    static func forEachListElement(_ bytes: [UInt8], _ range: Range<Int>, _ body: (Range<Int>) -> Void) {
        var lower = range.lowerBound
        while let comma = firstIndex(of: UInt8(ascii: ","), bytes, lower..<range.upperBound) {
            body(trimmed(bytes, lower..<comma))
            lower = comma + 1
        }
        body(trimmed(bytes, lower..<range.upperBound))
    }

    static func text(_ bytes: [UInt8], _ range: Range<Int>) -> String {
        String(decoding: bytes[range], as: UTF8.self)
    }
}

extension UInt8 {
    /// Whether the byte is optional whitespace (RFC 9110 section 5.6.3: `OWS = *( SP / HTAB )`).
    @inline(__always)
    package var isOptionalWhitespace: Bool { self == Grammar.space || self == Grammar.tab }
}
