// The bytes of a response head, and of chunks (RFC 9112 sections 4, 6 and 7). It writes what it is told; whether a
// response may be sent, and how its content is framed, is decided in ServerConnection.
//
// Nothing that a handler passes can end a line early (response splitting): a field whose name is not a token is
// left out, and every control character in a value becomes a space (RFC 9110 section 5.5). Fields that describe
// the connection and the framing are written here alone; a handler's are left out.

/// How the end of a response's content is known (RFC 9112 section 6.3).
enum ResponseFraming: Hashable, Sendable {
    case length(Int)
    case chunked
    /// HTTP/1.0 does not know chunked: the content ends with the connection.
    case untilClose
    /// 204, 304, and a stream in answer to HEAD: neither a length nor content.
    case noContent
}

enum ResponseEncoder {
    static func appendHead(
        status: Status, fields: Fields, dateText: String, framing: ResponseFraming, connection: StaticString?,
        into output: inout [UInt8]
    ) {
        appendStatusLine(status, into: &output)
        if !dateText.isEmpty { append(name: "Date", value: dateText, into: &output) }
        for field in fields.all where !isOwned(field.name) && isToken(field.name) {
            output.append(contentsOf: field.name.utf8)
            appendValue(field.value, into: &output)
        }
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

    /// One chunk. An empty one would be the last, so that `content` must not be empty.
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

    /// `status-line = HTTP-version SP status-code SP [ reason-phrase ]`. The version is the server's own, also in
    /// answer to HTTP/1.0 (RFC 9110 section 6.2).
    private static func appendStatusLine(_ status: Status, into output: inout [UInt8]) {
        append("HTTP/1.1 ", into: &output)
        append(decimal: status.code, into: &output)
        append(" ", into: &output)
        append(status.reasonPhrase, into: &output)
        append("\r\n", into: &output)
    }

    private static func append(name: StaticString, value: String, into output: inout [UInt8]) {
        append(name, into: &output)
        appendValue(value, into: &output)
    }

    /// ": ", the value, CRLF.
    private static func appendValue(_ value: String, into output: inout [UInt8]) {
        append(": ", into: &output)
        let start = output.count
        output.append(contentsOf: value.utf8)
        for index in start..<output.count where !Grammar.isFieldValueByte(output[index]) {
            output[index] = Grammar.space
        }
        append("\r\n", into: &output)
    }

    private static func isToken(_ name: String) -> Bool {
        !name.utf8.isEmpty && name.utf8.allSatisfy(Grammar.tokenBytes.contains)
    }

    /// Fields that only the connection may write.
    private static func isOwned(_ name: String) -> Bool {
        switch name.utf8.count {
        case 4: Fields.sameName(name, "Date")
        case 7: Fields.sameName(name, "Upgrade") || Fields.sameName(name, "Trailer")
        case 10: Fields.sameName(name, "Connection") || Fields.sameName(name, "Keep-Alive")
        case 14: Fields.sameName(name, "Content-Length")
        case 16: Fields.sameName(name, "Proxy-Connection")
        case 17: Fields.sameName(name, "Transfer-Encoding")
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
