// The handlers' responses in a Conversation, and a strict reader of response bytes (RFC 9112 sections 4 to 7). Whatever
// the requests contain, the reader must find exactly the handlers' responses.

import HTTP1

/// The response of a handler. `init(echoing:)` copies data from the request without any check, as a careless handler
/// might.
struct ServerAnswer {
    var status = Status.ok
    var fields = Fields()
    var content = Array("ok".utf8)

    /// Ordinary statuses, statuses that change where a response ends, and numbers that are not final statuses.
    private static let statuses = [200, 204, 205, 304, 400, 599, 100, 199, 600, 1000, 0, -1]

    init() {}

    init(echoing head: RequestHead, _ content: [UInt8]) {
        if let first = content.first { status = Status(Self.statuses[Int(first) % Self.statuses.count]) }
        fields.append(head.query ?? "X", String(decoding: content, as: UTF8.self))
        fields.append(head.path, head.fields.all.last?.value ?? "")
        fields.append("content-length", "7")
        fields.append("Transfer-Encoding", "chunked")
        fields.append("Connection", "keep-alive, close")
        self.content = content
    }

    func expected(byHead: Bool) -> ExpectedResponse {
        var expected = ExpectedResponse(status: (200...599).contains(status.code) ? status.code : 500)
        // A response has no content if it answers HEAD, or has the status 204, 205 or 304 (RFC 9110 sections 9.3.2,
        // 15.3.5, 15.3.6, 15.4.5).
        let hasContent = !byHead && ![204, 205, 304].contains(expected.status)
        expected.content = hasContent ? content : []
        expected.endsWithHead = byHead || expected.status == 204 || expected.status == 304
        return expected
    }
}

struct ExpectedResponse {
    var status: Int
    var content: [UInt8] = []
    /// Whether no content follows the head, whatever Content-Length says.
    var endsWithHead = false
}

struct ResponseReader {
    private let bytes: [UInt8]
    private var index = 0

    /// Throws unless `bytes` are exactly these responses in this order. Only 100 (Continue) responses may be added
    /// anywhere between them.
    static func check(_ bytes: [UInt8], are answers: [ExpectedResponse]) throws(Finding) {
        var reader = ResponseReader(bytes: bytes)
        for answer in answers { try reader.read(answer) }
        while reader.index < bytes.count {
            try require(try reader.head().status == 100, "More answers than requests.")
        }
    }

    private init(bytes: [UInt8]) {
        self.bytes = bytes
    }

    private struct Head {
        var status = 0
        var contentLength: Int?
        var isChunked = false
    }

    private mutating func read(_ answer: ExpectedResponse) throws(Finding) {
        var head = try head()
        while head.status == 100 { head = try self.head() }
        try require(head.status == answer.status, "Status \(head.status) where \(answer.status) is answered.")
        if answer.endsWithHead { return }
        let content =
            if head.isChunked { try chunks() } else { try take(head.contentLength ?? bytes.count - index) }
        try require(content == answer.content, "Other content than was answered.")
    }

    private mutating func head() throws(Finding) -> Head {
        var head = Head()
        let start = try line()
        try require(start.starts(with: Array("HTTP/1.1 ".utf8)) && start.count >= 13, "No status line.")
        head.status = Int(String(decoding: start.dropFirst(9).prefix(3), as: UTF8.self)) ?? 0
        while true {
            let line = try line()
            if line.isEmpty { return head }
            guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else { throw Finding("A field without a colon.") }
            try require(line[..<colon].allSatisfy(isTokenByte) && colon > line.startIndex, "A name that is no token.")
            let value = String(decoding: line[(colon + 1)...], as: UTF8.self)
            switch String(decoding: line[..<colon], as: UTF8.self).lowercased() {
            case "content-length":
                try require(head.contentLength == nil && !head.isChunked, "Framed twice.")
                head.contentLength = Int(value.dropFirst())
                try require(head.contentLength != nil, "Content-Length is no number.")
            case "transfer-encoding":
                try require(head.contentLength == nil && !head.isChunked && value == " chunked", "Framed twice.")
                head.isChunked = true
            case "connection":
                try require(value == " close" || value == " keep-alive", "Connection was not written here.")
            default: break
            }
        }
    }

    private mutating func chunks() throws(Finding) -> [UInt8] {
        var content: [UInt8] = []
        while true {
            guard let size = Int(String(decoding: try line(), as: UTF8.self), radix: 16) else {
                throw Finding("A chunk size that is no number.")
            }
            content += try take(size)
            try require(try line().isEmpty, "No CRLF after a chunk.")
            if size == 0 { return content }
        }
    }

    private mutating func take(_ count: Int) throws(Finding) -> [UInt8] {
        try require(count >= 0 && bytes.count - index >= count, "The output ends inside of an answer.")
        defer { index += count }
        return Array(bytes[index..<(index + count)])
    }

    private mutating func line() throws(Finding) -> ArraySlice<UInt8> {
        let start = index
        while index < bytes.count, bytes[index] >= 0x20 && bytes[index] != 0x7F || bytes[index] == 0x09 { index += 1 }
        try require(
            bytes.count - index >= 2 && bytes[index] == 0x0D && bytes[index + 1] == 0x0A, "A line without CRLF.")
        defer { index += 2 }
        return bytes[start..<index]
    }
}

/// Returns whether the byte is a tchar (RFC 9110 section 5.6.2).
func isTokenByte(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "a")...UInt8(ascii: "z"):
        true
    default: tokenMarks.contains(byte)
    }
}

private let tokenMarks = Array("!#$%&'*+-.^_`|~".utf8)
