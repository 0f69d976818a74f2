// Checks the syntax of chunk extensions (RFC 9112 section 7.1.1), although this server supports none. Without this
// check, the server could disagree with a proxy about where a line ends, which permits request smuggling.
//
// ```
// chunk-ext      = *( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] )
// chunk-ext-name = token
// chunk-ext-val  = token / quoted-string
// ```

enum ChunkExtensions {
    static func isValid(_ bytes: [UInt8], _ range: Range<Int>) -> Bool {
        var scanner = Scanner(index: range.lowerBound, end: range.upperBound)
        while !scanner.isAtEnd {
            scanner.skipWhitespace(bytes)
            guard scanner.skip(UInt8(ascii: ";"), bytes) else { return false }
            scanner.skipWhitespace(bytes)
            guard scanner.skipToken(bytes) else { return false }
            let afterName = scanner
            scanner.skipWhitespace(bytes)
            guard scanner.skip(UInt8(ascii: "="), bytes) else {
                scanner = afterName
                continue
            }
            scanner.skipWhitespace(bytes)
            guard scanner.skipToken(bytes) || scanner.skipQuotedString(bytes) else { return false }
        }
        return true
    }

    private struct Scanner {
        var index: Int
        let end: Int

        var isAtEnd: Bool { index == end }

        mutating func skip(_ byte: UInt8, _ bytes: [UInt8]) -> Bool {
            guard index < end, bytes[index] == byte else { return false }
            index += 1
            return true
        }

        mutating func skipWhitespace(_ bytes: [UInt8]) {
            while index < end, Grammar.isWhitespace(bytes[index]) { index += 1 }
        }

        mutating func skipToken(_ bytes: [UInt8]) -> Bool {
            let start = index
            while index < end, Grammar.tokenBytes.contains(bytes[index]) { index += 1 }
            return index > start
        }

        /// Skips a quoted-string (RFC 9110 section 5.6.4). Returns false if there is no quoted-string:
        /// ```
        /// quoted-string = DQUOTE *( qdtext / quoted-pair ) DQUOTE
        /// quoted-pair   = "\" ( HTAB / SP / VCHAR / obs-text )
        /// ```
        mutating func skipQuotedString(_ bytes: [UInt8]) -> Bool {
            guard skip(UInt8(ascii: "\""), bytes) else { return false }
            while index < end, Grammar.isFieldValueByte(bytes[index]) {
                let byte = bytes[index]
                index += 1
                if byte == UInt8(ascii: "\"") { return true }
                if byte == UInt8(ascii: "\\") {
                    guard index < end, Grammar.isFieldValueByte(bytes[index]) else { return false }
                    index += 1
                }
            }
            return false
        }
    }
}
