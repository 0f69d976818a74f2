// Cases for field lines, their limits, Connection and Expect (RFC 9112 section 5; RFC 9110 sections 5, 7.6.1 and
// 10.1.1).

enum FieldCases {
    static let all = lines + limits + connection + expect

    static let lines: [ConformanceCase] = [
        .init("9112 5", "no whitespace after the colon", "GET / HTTP/1.1\r\nHost:a\r\n\r\n", .served("GET /")),
        .init("9112 5.1", "whitespace around the value", get(fields: "X: \t y \t \r\n"), .served("GET /")),
        .init("9112 5.1", "names in any case", "GET / HTTP/1.1\r\nhOsT: a\r\n\r\n", .served("GET /")),
        .init("9110 5.5", "an empty value", get(fields: "X:\r\n"), .served("GET /")),
        .init("9110 5.5", "a value of whitespace", get(fields: "X:  \t \r\n"), .served("GET /")),
        .init("9110 5.5", "a tab inside a value", get(fields: "X: a\tb\r\n"), .served("GET /")),
        .init("9110 5.5", "bytes above ASCII in a value", get(fields: "X: \u{C3}\u{A9}\u{FF}\r\n"), .served("GET /")),
        .init("9110 5.6.2", "every tchar in a name", get(fields: "!#$%&'*+-.^_`|~09azAZ: a\r\n"), .served("GET /")),
        .init("9112 5.1", "space before the colon", get(fields: "X : a\r\n"), .refused(400)),
        .init("9112 5.1", "tab before the colon", get(fields: "X\t: a\r\n"), .refused(400)),
        .init("9112 5.1", "space before the colon of Host", "GET / HTTP/1.1\r\nHost : a\r\n\r\n", .refused(400)),
        .init("9112 5", "no colon", get(fields: "X\r\n"), .refused(400)),
        .init("9112 5", "no name", get(fields: ": a\r\n"), .refused(400)),
        .init("9110 5.1", "a space in a name", get(fields: "X Y: a\r\n"), .refused(400)),
        .init("9110 5.1", "a separator in a name", get(fields: "X(Y): a\r\n"), .refused(400)),
        .init("9110 5.1", "a byte above ASCII in a name", get(fields: "X\u{E9}: a\r\n"), .refused(400)),
        .init("9110 5.1", "a NUL in a name", get(fields: "X\u{00}: a\r\n"), .refused(400)),
        .init("9112 5.2", "obs-fold with a space", get(fields: "X: a\r\n b\r\n"), .refused(400)),
        .init("9112 5.2", "obs-fold with a tab", get(fields: "X: a\r\n\tb\r\n"), .refused(400)),
        .init("9112 5.2", "obs-fold with an empty continuation line", get(fields: "X: a\r\n \r\n"), .refused(400)),
        .init("9110 5.5", "a NUL in a value", get(fields: "X: a\u{00}b\r\n"), .refused(400)),
        .init("9110 5.5", "a control character in a value", get(fields: "X: a\u{01}b\r\n"), .refused(400)),
        .init("9110 5.5", "a vertical tab in a value", get(fields: "X: \u{0B}\r\n"), .refused(400)),
        .init("9110 5.5", "a form feed in a value", get(fields: "X: \u{0C}\r\n"), .refused(400)),
        .init("9110 5.5", "DEL in a value", get(fields: "X: \u{7F}\r\n"), .refused(400)),
        .init("9112 2.2", "a bare CR in a value", get(fields: "X: a\rb\r\n"), .refused(400)),
        .init("9112 2.2", "CR CR LF ends a field", get(fields: "X: a\r\r\n"), .refused(400)),
        .init("9112 2.2", "a bare CR hides a field", get(fields: "X: a\rContent-Length: 5\r\n"), .refused(400)),
        .init("9112 2.2", "a bare LF ends a field", get(fields: "X: a\n"), .refused(400)),
        .init("9112 2.2", "a bare LF ends the head", "GET / HTTP/1.1\r\nHost: a\r\n\n", .refused(400)),
    ]

    static let limits: [ConformanceCase] = [
        .init("6585 5", "a hundred fields", get(fields: String(repeating: "X: a\r\n", count: 99)), .served("GET /")),
        .init(
            "6585 5", "a hundred and one fields", get(fields: String(repeating: "X: a\r\n", count: 100)),
            .refused(431)),
        .init("6585 5", "fields of 32 KiB", get(fields: filler(bytes: 32 * 1024)), .served("GET /")),
        .init("6585 5", "fields of 32 KiB and one byte", get(fields: filler(bytes: 32 * 1024 + 1)), .refused(431)),
        .init(
            "6585 5", "one field without end",
            "GET / HTTP/1.1\r\nHost: a\r\nX: " + String(repeating: "a", count: 33_000), .refused(431)),
    ]

    /// Returns a field line that, together with `Host: a` and the empty line, makes a field section of `bytes` bytes.
    private static func filler(bytes: Int) -> String {
        let rest = "Host: a\r\n".utf8.count + "X: \r\n".utf8.count + 2
        return "X: " + String(repeating: "a", count: bytes - rest) + "\r\n"
    }

    static let connection: [ConformanceCase] = [
        .init("9112 9.3", "1.1 persists", get("/"), .served("GET /")),
        .init("9112 9.6", "1.1 with close", get(fields: "Connection: close\r\n"), .servedLast("GET /")),
        .init("9110 7.6.1", "close in capitals", get(fields: "CONNECTION: CLOSE\r\n"), .servedLast("GET /")),
        .init("9110 7.6.1", "close in a list", get(fields: "Connection: X-Hop ,\tClose\r\n"), .servedLast("GET /")),
        .init(
            "9110 7.6.1", "close on a second line",
            get(fields: "Connection: keep-alive\r\nConnection: close\r\n"), .servedLast("GET /")),
        .init(
            "9110 5.6.1", "close among empty elements", get(fields: "Connection: , ,close,,\r\n"),
            .servedLast("GET /")),
        .init(
            "9112 9.3", "close takes precedence over keep-alive", get(fields: "Connection: close, keep-alive\r\n"),
            .servedLast("GET /")),
        .init(
            "9110 7.6.1", "an option that only begins with close", get(fields: "Connection: closed\r\n"),
            .served("GET /")),
        .init("9112 9.3", "1.1 with keep-alive", get(fields: "Connection: keep-alive\r\n"), .served("GET /")),
        .init("9112 9.3", "1.0 closes", "GET / HTTP/1.0\r\nHost: a\r\n\r\n", .servedLast("GET /")),
        .init(
            "9112 9.3", "1.0 with keep-alive", "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
            .servedAndKept("GET /")),
        .init(
            "9112 9.3", "1.0 with keep-alive and close",
            "GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", .servedLast("GET /")),
        .init(
            "9110 7.8", "Upgrade is ignored",
            get(fields: "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"),
            .served("GET /")),
        .init(
            "9112 9.3.2", "pipelined requests are answered in order",
            get("/1") + post("Content-Length: 2\r\n", "ab") + chunked("1\r\nc\r\n0\r\n\r\n") + get("/4"),
            .served("GET /1"), .served("POST / <ab>"), .served("POST / <c>"), .served("GET /4")),
        .init(
            "9112 9.6", "nothing is served after close",
            get(fields: "Connection: close\r\n") + get("/after"), .servedLast("GET /")),
    ]

    static let expect: [ConformanceCase] = [
        .init(
            "9110 10.1.1", "100-continue", post("Expect: 100-continue\r\nContent-Length: 2\r\n", "ab"),
            .served("POST / <ab>")),
        .init(
            "9110 10.1.1", "100-continue in capitals", post("Expect: 100-CONTINUE\r\nContent-Length: 2\r\n", "ab"),
            .served("POST / <ab>")),
        .init(
            "9110 10.1.1", "100-continue without content", get(fields: "Expect: 100-continue\r\n"),
            .served("GET /")),
        .init(
            "9110 10.1.1", "100-continue in 1.0 is ignored",
            "POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nab", .servedLast("POST / <ab>")),
        .init(
            "9110 10.1.1", "another expectation", post("Expect: 200-ok\r\nContent-Length: 2\r\n", "ab"),
            .refused(417)),
        .init(
            "9110 10.1.1", "100-continue and another expectation", get(fields: "Expect: 100-continue, x=y\r\n"),
            .refused(417)),
        .init(
            "9110 10.1.1", "another expectation on a second line", get(fields: "Expect: 100-continue\r\nExpect: x\r\n"),
            .refused(417)),
        .init("9110 9.3.2", "HEAD", line("HEAD / HTTP/1.1"), .served("HEAD /")),
        .init("9110 9.3.2", "HEAD rejected", "HEAD / HTTP/1.1\r\n\r\n", .refused(400)),
        .init("9110 9.3.8", "TRACE is left to the router", line("TRACE / HTTP/1.1"), .served("TRACE /")),
        .init("9110 9.3.7", "OPTIONS of a path", line("OPTIONS /a HTTP/1.1"), .served("OPTIONS /a")),
    ]
}
