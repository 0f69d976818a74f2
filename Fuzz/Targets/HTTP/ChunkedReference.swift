// A simple decoder of chunked coding (RFC 9112 section 7.1), for ChunkedContentTarget. The decoder gets all bytes at
// once, and stops where the trailer section begins.

import HTTP1

struct ChunkedReference {
    enum End {
        case incomplete
        case refused(Int)
        /// The last chunk was read. The trailer section begins at this index.
        case trailers(Int)
    }

    private(set) var content: [UInt8] = []
    private(set) var end = End.incomplete

    init(_ bytes: [UInt8], _ plan: Plan) {
        end = read(bytes, extensionBytesMax: plan.limits.chunkExtensionBytesMax, contentBytesMax: plan.contentBytesMax)
    }

    private mutating func read(_ bytes: [UInt8], extensionBytesMax: Int, contentBytesMax: Int) -> End {
        var (index, announced, extensions) = (0, 0, 0)
        while true {
            // Read chunk-size [ chunk-ext ] CRLF. The longest allowed line has 16 digits, `extensionBytesMax` bytes of
            // extensions, and CRLF.
            let window = bytes[index...].prefix(16 + extensionBytesMax + 2)
            guard let lineFeed = window.firstIndex(of: 0x0A) else {
                return window.count == 16 + extensionBytesMax + 2 ? .refused(400) : .incomplete
            }
            let line = bytes[index..<lineFeed]
            guard line.last == 0x0D, let (size, rest) = Self.size(line.dropLast()) else { return .refused(400) }
            extensions += rest.count
            guard extensions <= extensionBytesMax, Self.areExtensions(rest) else { return .refused(400) }
            guard size <= contentBytesMax - announced else { return .refused(413) }
            announced += size
            index = lineFeed + 1
            if size == 0 { return .trailers(index) }

            // Read chunk-data CRLF.
            let data = bytes[index...].prefix(size)
            content += data
            let tail = bytes[data.endIndex...].prefix(2)
            guard [0x0D, 0x0A].starts(with: tail) else { return .refused(400) }
            guard tail.count == 2 else { return .incomplete }
            index = tail.endIndex
        }
    }

    /// Parses `1*HEXDIG` with at most 16 digits and a value of at most Int.max. Also returns the rest of the line.
    private static func size(_ line: ArraySlice<UInt8>) -> (Int, ArraySlice<UInt8>)? {
        let digits = line.prefix { Character(UnicodeScalar($0)).isHexDigit && $0 < 0x80 }
        guard (1...16).contains(digits.count), let size = Int(String(decoding: digits, as: UTF8.self), radix: 16)
        else { return nil }
        return (size, line[digits.endIndex...])
    }

    private enum Expected {
        case semicolon, name, inName, afterName, value, inValue, inQuotes, escaped, afterValue
    }

    /// Returns whether the bytes are `*( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] )`. This grammar
    /// allows no whitespace after the last extension.
    private static func areExtensions(_ bytes: ArraySlice<UInt8>) -> Bool {
        var state = Expected.semicolon
        for byte in bytes {
            guard let next = next(state, byte) else { return false }
            state = next
        }
        let endsInWhitespace = bytes.last == 0x20 || bytes.last == 0x09
        switch state {
        case .semicolon, .inName, .inValue, .afterValue: return !endsInWhitespace
        case .name, .afterName, .value, .inQuotes, .escaped: return false
        }
    }

    private static func next(_ state: Expected, _ byte: UInt8) -> Expected? {
        let isSpace = byte == 0x20 || byte == 0x09
        let isText = byte >= 0x20 && byte != 0x7F || byte == 0x09
        switch (state, byte) {
        case (.inQuotes, UInt8(ascii: "\"")): return .afterValue
        case (.inQuotes, UInt8(ascii: "\\")): return .escaped
        case (.inQuotes, _), (.escaped, _): return isText ? .inQuotes : nil
        case (.inName, _) where isSpace: return .afterName
        case (.inValue, _) where isSpace: return .afterValue
        case (_, _) where isSpace: return state
        case (.semicolon, UInt8(ascii: ";")), (.inName, UInt8(ascii: ";")), (.afterName, UInt8(ascii: ";")),
            (.inValue, UInt8(ascii: ";")), (.afterValue, UInt8(ascii: ";")):
            return .name
        case (.inName, UInt8(ascii: "=")), (.afterName, UInt8(ascii: "=")): return .value
        case (.value, UInt8(ascii: "\"")): return .inQuotes
        case (.name, _), (.inName, _): return isTokenByte(byte) ? .inName : nil
        case (.value, _), (.inValue, _): return isTokenByte(byte) ? .inValue : nil
        default: return nil
        }
    }
}
