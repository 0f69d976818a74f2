// Cases for responses, byte for byte (RFC 9112 sections 4, 6, 7 and 9; RFC 9110 sections 6.6.1, 8.6, 9.3.2 and 15).

import HTTP1
import Testing

struct ResponseCase: Sendable, CustomTestStringConvertible {
    var section: String
    var name: String
    /// The complete request.
    var request: String
    var response: Answer
    /// All bytes that the client receives.
    var expected: String

    var testDescription: String { "\(section): \(name)" }

    init(_ section: String, _ name: String, _ request: String, _ response: Answer, _ expected: String) {
        self.section = section
        self.name = name
        self.request = request
        self.response = response
        self.expected = expected
    }
}

/// The response that the server sends.
enum Answer: Sendable {
    case whole(Int, [(String, String)], String, close: Bool)
    case stream(Int, [(String, String)], [String])

    static func whole(_ status: Int, _ fields: [(String, String)] = [], _ body: String = "") -> Answer {
        .whole(status, fields, body, close: false)
    }
}

enum ResponseCases {
    private static let head = line("HEAD / HTTP/1.1")
    private static let old = line("GET / HTTP/1.0")
    private static let kept = "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
    private static let date = "Date: \(dateText)\r\n"

    static let all = content + streams + connection + splitting

    private static let content: [ResponseCase] = [
        .init(
            "9110 6.6.1", "a response has Date, the handler's fields and the length", get("/"),
            .whole(200, [("Content-Type", "text/plain"), ("X", "")], "hi"),
            "HTTP/1.1 200 OK\r\n\(date)Content-Type: text/plain\r\nX: \r\nContent-Length: 2\r\n\r\nhi"),
        .init(
            "9110 8.6", "without content, the length is 0", get("/"), .whole(404),
            "HTTP/1.1 404 Not Found\r\n\(date)Content-Length: 0\r\n\r\n"),
        .init(
            "9112 4", "a status without a phrase keeps the space after the code", get("/"), .whole(299),
            "HTTP/1.1 299 \r\n\(date)Content-Length: 0\r\n\r\n"),
        .init(
            "9110 9.3.2", "the response to HEAD has the length and no content", head, .whole(200, [], "hi"),
            "HTTP/1.1 200 OK\r\n\(date)Content-Length: 2\r\n\r\n"),
        .init(
            "9110 15.3.5", "204 has neither length nor content", get("/"), .whole(204, [], "hi"),
            "HTTP/1.1 204 No Content\r\n\(date)\r\n"),
        .init(
            "9110 15.4.5", "304 has neither length nor content", get("/"), .whole(304, [("ETag", "\"a\"")], "hi"),
            "HTTP/1.1 304 Not Modified\r\n\(date)ETag: \"a\"\r\n\r\n"),
        .init(
            "9110 15.3.6", "205 has a length of 0", get("/"), .whole(205, [], "hi"),
            "HTTP/1.1 205 Reset Content\r\n\(date)Content-Length: 0\r\n\r\n"),
        .init(
            "9110 15.2", "an interim status from a handler becomes 500", get("/"), .whole(101),
            "HTTP/1.1 500 Internal Server Error\r\n\(date)Content-Length: 0\r\n\r\n"),
        .init(
            "9110 15", "a status above 599 becomes 500", get("/"), .whole(1000),
            "HTTP/1.1 500 Internal Server Error\r\n\(date)Content-Length: 0\r\n\r\n"),
        .init(
            "9110 15", "a negative status becomes 500", get("/"), .whole(-1),
            "HTTP/1.1 500 Internal Server Error\r\n\(date)Content-Length: 0\r\n\r\n"),
    ]

    private static let streams: [ResponseCase] = [
        .init(
            "9112 7.1", "a stream is chunked", get("/"), .stream(200, [], ["hello", "", "0123456789abcdef"]),
            "HTTP/1.1 200 OK\r\n\(date)Transfer-Encoding: chunked\r\n\r\n"
                + "5\r\nhello\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n"),
        .init(
            "9112 7.1", "an empty stream", get("/"), .stream(200, [], []),
            "HTTP/1.1 200 OK\r\n\(date)Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        .init(
            "9112 6.1", "a stream to HTTP/1.0 ends when the connection closes", old, .stream(200, [], ["a", "b"]),
            "HTTP/1.1 200 OK\r\n\(date)Connection: close\r\n\r\nab"),
        .init(
            "9112 6.1", "a stream to HTTP/1.0 with keep-alive ends in the same way", kept,
            .stream(200, [], ["a", "b"]),
            "HTTP/1.1 200 OK\r\n\(date)Connection: close\r\n\r\nab"),
        .init(
            "9110 9.3.2", "a stream in response to HEAD has no content", head, .stream(200, [], ["a"]),
            "HTTP/1.1 200 OK\r\n\(date)\r\n"),
        .init(
            "9112 6.1", "a stream with 204 has no content", get("/"), .stream(204, [], ["a"]),
            "HTTP/1.1 204 No Content\r\n\(date)\r\n"),
        .init(
            "9112 6.1", "a stream with 304 has no content", get("/"), .stream(304, [], ["a"]),
            "HTTP/1.1 304 Not Modified\r\n\(date)\r\n"),
        .init(
            "9110 15.3.6", "a stream with 205 has a length of 0", get("/"), .stream(205, [], ["a"]),
            "HTTP/1.1 205 Reset Content\r\n\(date)Content-Length: 0\r\n\r\n"),
        .init(
            "9110 15.3.6", "a stream with 205 to HTTP/1.0 has a length of 0", kept, .stream(205, [], ["a"]),
            "HTTP/1.1 205 Reset Content\r\n\(date)Content-Length: 0\r\nConnection: keep-alive\r\n\r\n"),
    ]

    private static let connection: [ResponseCase] = [
        .init(
            "9112 9.6", "the server asks for close", get("/"), .whole(200, [], "", close: true),
            "HTTP/1.1 200 OK\r\n\(date)Content-Length: 0\r\nConnection: close\r\n\r\n"),
        .init(
            "9112 9.6", "the client asks for close", get(fields: "Connection: close\r\n"), .whole(200),
            "HTTP/1.1 200 OK\r\n\(date)Content-Length: 0\r\nConnection: close\r\n\r\n"),
        .init(
            "9110 6.2", "HTTP/1.0 gets a response in the server's own version", old, .whole(200),
            "HTTP/1.1 200 OK\r\n\(date)Content-Length: 0\r\nConnection: close\r\n\r\n"),
        .init(
            "9112 9.3", "the response to HTTP/1.0 with keep-alive says keep-alive", kept, .whole(200),
            "HTTP/1.1 200 OK\r\n\(date)Content-Length: 0\r\nConnection: keep-alive\r\n\r\n"),
        .init(
            "9112 6.3", "a handler's framing and connection fields are omitted", get("/"),
            .whole(
                200,
                [
                    ("content-length", "9"), ("Transfer-Encoding", "chunked"), ("Connection", "upgrade"),
                    ("Upgrade", "h2c"), ("Keep-Alive", "timeout=1"), ("Trailer", "X"), ("DATE", "never"),
                    ("Proxy-Connection", "close"),
                ], "hi"),
            "HTTP/1.1 200 OK\r\n\(date)Content-Length: 2\r\n\r\nhi"),
    ]

    private static let splitting: [ResponseCase] = [
        .init(
            "9110 5.5", "CR and LF in a value become spaces", get("/"),
            .whole(200, [("Location", "/a\r\nSet-Cookie: b=c\r\n\r\n<html>")]),
            "HTTP/1.1 200 OK\r\n\(date)Location: /a  Set-Cookie: b=c    <html>\r\nContent-Length: 0\r\n\r\n"),
        .init(
            "9110 5.5", "CR and LF in one grapheme become two spaces", get("/"), .whole(200, [("X", "a\r\n\u{301}b")]),
            "HTTP/1.1 200 OK\r\n\(date)X: a  \u{301}b\r\nContent-Length: 0\r\n\r\n"),
        .init(
            "9110 5.5", "NUL and other control characters become spaces; a tab stays", get("/"),
            .whole(200, [("X", "a\u{00}b\u{1B}c\u{7F}d\te")]),
            "HTTP/1.1 200 OK\r\n\(date)X: a b c d\te\r\nContent-Length: 0\r\n\r\n"),
        .init(
            "9110 5.1", "a field whose name is not a token is omitted", get("/"),
            .whole(200, [("X\r\nY", "a"), ("", "b"), ("A B", "c"), ("Z:", "d"), ("\u{E9}", "e"), ("Good", "f")]),
            "HTTP/1.1 200 OK\r\n\(date)Good: f\r\nContent-Length: 0\r\n\r\n"),
    ]
}
