// Encodes response heads and chunks (RFC 9112 sections 4, 6 and 7). ServerConnection decides whether a response may be
// sent, and how its content is framed.
//
// A value from a handler cannot end a line early, because `Fields` replaces CR and LF with spaces.
//
// Only this file writes Date, the fields for the connection and the framing, and an X-Request-Id that the server
// assigned. If a handler sets one of these fields, the handler's field is omitted.

/// The ways to delimit the content of a response (RFC 9112 section 6.3).
enum ResponseFraming: Hashable, Sendable {
    case length(Int)
    case chunked
    /// The content ends when the connection is closed. Used for HTTP/1.0 clients, because HTTP/1.0 does not support
    /// chunked.
    case untilClose
    /// The response has no content and no Content-Length: a 204, a 304, or a stream in response to HEAD.
    case noContent
}

enum ResponseEncoder {
    static func appendHead(
        status: Status, fields: Fields, dateText: String, requestID: String, framing: ResponseFraming,
        connection: StaticString?, into output: inout [UInt8]
    ) {
        appendStatusLine(status, into: &output)
        if !dateText.isEmpty { append("Date: ", dateText, into: &output) }
        append(fields, withRequestID: !requestID.isEmpty, into: &output)
        if !requestID.isEmpty { append("X-Request-Id: ", requestID, into: &output) }
        switch framing {
        case .length(let length):
            append("Content-Length: ", into: &output)
            append(decimal: length, into: &output)
            append("\r\n", into: &output)
        case .chunked:
            append("Transfer-Encoding: chunked\r\n", into: &output)
        case .untilClose, .noContent:
            break
        }
        if let connection {
            append("Connection: ", into: &output)
            append(connection, into: &output)
            append("\r\n", into: &output)
        }
        append("\r\n", into: &output)
    }

    /// Appends one chunk. `content` must not be empty, because an empty chunk would be the last chunk.
    static func appendChunk(_ content: [UInt8], into output: inout [UInt8]) {
        output.append(contentsOf: String(content.count, radix: 16).utf8)
        append("\r\n", into: &output)
        output.append(contentsOf: content)
        append("\r\n", into: &output)
    }

    static func appendLastChunk(into output: inout [UInt8]) {
        append("0\r\n\r\n", into: &output)
    }

    static func appendContinue(into output: inout [UInt8]) {
        append("HTTP/1.1 100 Continue\r\n\r\n", into: &output)
    }

    /// Appends `status-line = HTTP-version SP status-code SP [ reason-phrase ]`. The HTTP version is always the
    /// server's own, even in a response to HTTP/1.0 (RFC 9110 section 6.2).
    private static func appendStatusLine(_ status: Status, into output: inout [UInt8]) {
        if status == .ok { return append("HTTP/1.1 200 OK\r\n", into: &output) }
        append("HTTP/1.1 ", into: &output)
        append(decimal: status.code, into: &output)
        append(" ", into: &output)
        append(status.reasonPhrase, into: &output)
        append("\r\n", into: &output)
    }

    /// Appends a field line. `beginning` is the name of the field and the separator.
    private static func append(_ beginning: StaticString, _ value: String, into output: inout [UInt8]) {
        append(beginning, into: &output)
        var value = value
        value.withUTF8 { output.append(contentsOf: $0) }
        append("\r\n", into: &output)
    }

    /// Appends a handler's fields, except the fields that only this file may write (`isOwned`).
    private static func append(_ fields: Fields, withRequestID: Bool, into output: inout [UInt8]) {
        let bytes = fields.bytes
        let isLeftOut = { (line: Fields.Line) in isOwned(bytes, line.name, withRequestID: withRequestID) }
        guard fields.lines.contains(where: isLeftOut) else { return output.append(contentsOf: bytes) }
        for line in fields.lines where !isLeftOut(line) { output.append(contentsOf: bytes[line.whole]) }
    }

    /// Returns whether only this file may write the field. For `X-Request-Id`, this is true only if the server has
    /// assigned an id.
    private static func isOwned(_ bytes: [UInt8], _ name: Range<Int>, withRequestID: Bool) -> Bool {
        switch name.count {
        case 4: Grammar.matches(bytes, name, "date")
        case 7: Grammar.matches(bytes, name, "upgrade") || Grammar.matches(bytes, name, "trailer")
        case 10: Grammar.matches(bytes, name, "connection") || Grammar.matches(bytes, name, "keep-alive")
        case 12: withRequestID && Grammar.matches(bytes, name, "x-request-id")
        case 14: Grammar.matches(bytes, name, "content-length")
        case 16: Grammar.matches(bytes, name, "proxy-connection")
        case 17: Grammar.matches(bytes, name, "transfer-encoding")
        default: false
        }
    }

    private static func append(_ text: StaticString, into output: inout [UInt8]) {
        text.withUTF8Buffer { output.append(contentsOf: $0) }
    }

    private static func append(decimal number: Int, into output: inout [UInt8]) {
        var divisor = 1
        while number / divisor >= 10 { divisor *= 10 }
        var rest = number
        while divisor > 0 {
            output.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest / divisor))
            rest %= divisor
            divisor /= 10
        }
    }
}
