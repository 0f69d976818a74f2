// Cases of request smuggling and splitting, under the published names of the attacks (RFC 9112 section 11.2). Almost
// every input contains a hidden request for /smuggled. Another server might find that request; this server must never
// find it.

enum SmugglingCases {
    private static let hidden = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"

    static let all: [ConformanceCase] = [
        attack("CL.TE", post("Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\nG"), 400),
        attack("TE.CL", post("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", "5c\r\n" + hidden), 400),
        attack("TE.TE: a second coding", post("Transfer-Encoding: chunked\r\nTransfer-encoding: cow\r\n"), 400),
        attack("TE.TE: xchunked", post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"), 501),
        attack("TE.TE: space before the colon", post("Transfer-Encoding : chunked\r\n", "0\r\n\r\n"), 400),
        attack(
            "TE.TE: tab before the value",
            post("Transfer-Encoding:\tchunked\r\nContent-Length: 3\r\n", "0\r\n\r\n"), 400),
        attack("TE.TE: vertical tab", post("Transfer-Encoding:\u{0B}chunked\r\n", "0\r\n\r\n"), 400),
        attack("TE.TE: leading space", post("X: y\r\n Transfer-Encoding: chunked\r\n", "0\r\n\r\n"), 400),
        attack("TE.TE: bare LF before the field", post("X: y\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), 400),
        attack("TE.TE: bare CR before the field", post("X: y\rTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), 400),
        attack("TE.TE: obs-fold", post("Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n"), 400),
        attack("TE.TE: obs-fold after a comma", post("Transfer-Encoding: chunked,\r\n identity\r\n", "0\r\n\r\n"), 400),
        attack("TE.TE: NUL in the name", post("Transfer\u{00}-Encoding: chunked\r\n", "0\r\n\r\n"), 400),
        attack("TE.TE: NUL in the value", post("Transfer-Encoding: chunked\u{00}\r\n", "0\r\n\r\n"), 400),
        attack("TE.TE: a byte above ASCII", post("Transfer-Encoding: \u{FF}chunked\r\n", "0\r\n\r\n"), 400),
        attack("TE.TE: quoted", post("Transfer-Encoding: 'chunked'\r\n", "0\r\n\r\n"), 501),
        attack("TE.TE: identity, then chunked", post("Transfer-Encoding: identity, chunked\r\n", "0\r\n\r\n"), 501),
        attack("TE in 1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        attack("CL.CL", post("Content-Length: 0\r\nContent-Length: 44\r\n"), 400),
        attack("CL.CL: equal", post("Content-Length: 0\r\nContent-Length: 0\r\n"), 400),
        attack("CL.CL: 5, 5", post("Content-Length: 5, 5\r\n", "hello"), 400),
        attack("Content-Length: +5", post("Content-Length: +5\r\n", "hello"), 400),
        attack("Content-Length with a space before the colon", post("Content-Length : 5\r\n", "hello"), 400),
        attack("Content-Length wraps at 2^64", post("Content-Length: 18446744073709551616\r\n"), 400),
        attack("Content-Length folded", post("Content-Length:\r\n 5\r\n", "hello"), 400),
        attack("Content-Length with a bare CR", post("Content-Length: 5\r \r\n", "hello"), 400),
        .init(
            "9112 11.2", "CL.0: content in a GET is read as content",
            get(fields: "Content-Length: 35\r\n") + hidden, .served("GET / <\(hidden)>")),
        .init(
            "9112 11.2", "Content-Length in a HEAD",
            "HEAD / HTTP/1.1\r\nHost: a\r\nContent-Length: 35\r\n\r\n" + hidden, .served("HEAD / <\(hidden)>")),
        attack("chunk size wraps at 2^64", chunked("10000000000000000\r\n\r\n"), 400),
        attack("chunk size wraps at 2^32", chunked("100000005\r\nhello\r\n0\r\n\r\n"), 413),
        attack("TERM.EXT: bare LF ends the size line", chunked("2;\nxx\r\n4c\r\n"), 400),
        attack("EXT.TERM: bare LF inside an extension", chunked("2;a=\nxx\r\n0\r\n\r\n"), 400),
        attack("TERM.SPILL: other bytes after the data", chunked("5\r\nAAAAAXX2\r\n45\r\n0\r\n\r\n"), 400),
        attack("SPILL: one LF after the data", chunked("5\r\nAAAAA\n0\r\n\r\n"), 400),
        attack("ONE.TWO: the CR is data, the LF spills", chunked("6\r\nAAAAA\r\n0\r\n\r\n"), 400),
        attack("a bare CR in an extension", chunked("1;a\rb\r\nx\r\n0\r\n\r\n"), 400),
        attack("a framing field in the trailers", chunked("0\r\nContent-Length: 35\r\n\r\n"), 400),
        attack("duplicate Host", get(fields: "Host: b\r\n"), 400),
        attack("Host after a leading space", "GET / HTTP/1.1\r\n Host: b\r\nHost: a\r\n\r\n", 400),
        attack("Host with a bare LF", "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", 400),
        attack("a request line of two requests", "GET / HTTP/1.1 GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        attack("HTTP/1.1 hidden in the target", "GET /\tHTTP/1.1\r\nHost: a\r\n\r\n", 400),
        .init(
            "9112 11.2", "Connection names Content-Length",
            post("Connection: Content-Length\r\nContent-Length: 5\r\n", "hello"), .served("POST / <hello>")),
        .init("9112 11.2", "underscores are not hyphens", post("Content_Length: 5\r\n"), .served("POST /")),
        .init(
            "9112 9.6", "0.CL: nothing is read after a request with close",
            post("Content-Length: 5\r\nConnection: close\r\n", "hello") + hidden, .servedLast("POST / <hello>")),
    ]

    private static func attack(_ name: String, _ input: String, _ status: Int) -> ConformanceCase {
        ConformanceCase("9112 11.2", name, input + hidden, .refused(status))
    }
}
