// Cases for how the server finds the end of a request's content, and for chunked coding (RFC 9112 sections 6 and 7).

enum FramingCases {
    static let all = contentLength + transferEncoding + chunks + trailers

    static let contentLength: [ConformanceCase] = [
        .init("9112 6.3", "no Content-Length and no Transfer-Encoding", post(""), .served("POST /")),
        .init("9110 8.6", "Content-Length", post("Content-Length: 5\r\n", "hello"), .served("POST / <hello>")),
        .init("9110 8.6", "Content-Length of 0", post("Content-Length: 0\r\n"), .served("POST /")),
        .init("9110 8.6", "leading zeros", post("Content-Length: 0005\r\n", "hello"), .served("POST / <hello>")),
        .init("9110 9.3.1", "GET with content", get(fields: "Content-Length: 2\r\n") + "ab", .served("GET / <ab>")),
        .init(
            "9112 6.3", "content in 1.0", "POST / HTTP/1.0\r\nContent-Length: 2\r\n\r\nab",
            .servedLast("POST / <ab>")),
        .init(
            "9112 6.3", "content that looks like a request",
            post("Content-Length: 18\r\n", "GET /x HTTP/1.1\r\n\r"), .served("POST / <GET /x HTTP/1.1\r\n\r>")),
        .init("9112 8", "content that is not complete", post("Content-Length: 5\r\n", "hell"), .incomplete),
        .init("9110 8.6", "an empty value", post("Content-Length:\r\n", "x"), .refused(400)),
        .init("9110 8.6", "a plus sign", post("Content-Length: +5\r\n", "hello"), .refused(400)),
        .init("9110 8.6", "a minus sign", post("Content-Length: -5\r\n", "hello"), .refused(400)),
        .init("9110 8.6", "hexadecimal", post("Content-Length: 0x5\r\n", "hello"), .refused(400)),
        .init("9110 8.6", "a fraction", post("Content-Length: 5.0\r\n", "hello"), .refused(400)),
        .init("9110 8.6", "an exponent", post("Content-Length: 1e1\r\n", "hello"), .refused(400)),
        .init("9110 8.6", "two numbers", post("Content-Length: 5 5\r\n", "hello"), .refused(400)),
        .init("9110 8.6", "an underscore", post("Content-Length: 1_0\r\n", "hello"), .refused(400)),
        .init("9112 6.3", "a list of equal numbers", post("Content-Length: 5, 5\r\n", "hello"), .refused(400)),
        .init("9112 6.3", "a list of different numbers", post("Content-Length: 5,6\r\n", "hello"), .refused(400)),
        .init(
            "9112 6.3", "two equal lines", post("Content-Length: 5\r\nContent-Length: 5\r\n", "hello"),
            .refused(400)),
        .init(
            "9112 6.3", "two different lines", post("Content-Length: 5\r\ncontent-length: 6\r\n", "hello"),
            .refused(400)),
        .init("9110 8.6", "2^63", post("Content-Length: 9223372036854775808\r\n"), .refused(400)),
        .init("9110 8.6", "2^64 + 5", post("Content-Length: 18446744073709551621\r\n", "hello"), .refused(400)),
        .init("9110 15.5.14", "2^63 - 1", post("Content-Length: 9223372036854775807\r\n"), .refused(413)),
        .init("9110 15.5.14", "longer than any route accepts", post("Content-Length: 1048577\r\n"), .refused(413)),
    ]

    static let transferEncoding: [ConformanceCase] = [
        .init("9112 6.1", "chunked", chunked("5\r\nhello\r\n0\r\n\r\n"), .served("POST / <hello>")),
        .init(
            "9112 7", "chunked in capitals", post("TRANSFER-ENCODING: CHUNKED\r\n", "1\r\na\r\n0\r\n\r\n"),
            .served("POST / <a>")),
        .init(
            "9112 6.1", "whitespace around chunked", post("Transfer-Encoding: \tchunked \r\n", "0\r\n\r\n"),
            .served("POST /")),
        .init(
            "9112 6.3", "chunked is not last", post("Transfer-Encoding: chunked, gzip\r\n", "0\r\n\r\n"),
            .refused(400)),
        .init(
            "9112 6.3", "chunked is not last, on two lines",
            post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "0\r\n\r\n"), .refused(400)),
        .init(
            "9112 6.1", "chunked twice", post("Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n"),
            .refused(400)),
        .init(
            "9112 6.1", "chunked twice, on two lines",
            post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), .refused(400)),
        .init(
            "9112 7", "chunked with a parameter", post("Transfer-Encoding: chunked;q=1\r\n", "0\r\n\r\n"),
            .refused(400)),
        .init("9112 6.1", "an empty value", post("Transfer-Encoding:\r\n", "0\r\n\r\n"), .refused(400)),
        .init(
            "9112 6.1", "an empty element before chunked", post("Transfer-Encoding: , chunked\r\n", "0\r\n\r\n"),
            .refused(400)),
        .init(
            "9112 6.1", "an empty element after chunked", post("Transfer-Encoding: chunked,\r\n", "0\r\n\r\n"),
            .refused(400)),
        .init("9112 6.1", "a quoted coding", post("Transfer-Encoding: \"chunked\"\r\n", "0\r\n\r\n"), .refused(400)),
        .init("9112 6.1", "two words", post("Transfer-Encoding: chun ked\r\n", "0\r\n\r\n"), .refused(400)),
        .init(
            "9112 6.1", "chunked in HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            .refused(400)),
        .init(
            "9112 6.1", "chunked in HTTP/1.0, with Content-Length",
            "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", .refused(400)),
        .init(
            "9112 6.1", "a coding that is not implemented", post("Transfer-Encoding: gzip, chunked\r\n"),
            .refused(501)),
        .init("9112 6.1", "an unknown coding", post("Transfer-Encoding: x-rot13\r\n"), .refused(501)),
        .init("9112 6.1", "gzip alone", post("Transfer-Encoding: gzip\r\n"), .refused(501)),
        .init(
            "9112 6.1", "identity, which RFC 7230 removed", post("Transfer-Encoding: identity\r\n"),
            .refused(501)),
    ]

    static let chunks: [ConformanceCase] = [
        .init("9112 7.1", "no chunks", chunked("0\r\n\r\n"), .served("POST /")),
        .init("9112 7.1", "several chunks", chunked("1\r\na\r\n2\r\nbc\r\n0\r\n\r\n"), .served("POST / <abc>")),
        .init(
            "9112 7.1", "sizes in either case", chunked("a\r\n0123456789\r\nB\r\n0123456789a\r\n0\r\n\r\n"),
            .served("POST / <01234567890123456789a>")),
        .init("9112 7.1", "leading zeros", chunked("0003\r\nabc\r\n0000\r\n\r\n"), .served("POST / <abc>")),
        .init(
            "9112 7.1", "chunk data that looks like framing", chunked("7\r\n0\r\n\r\nGE\r\n0\r\n\r\n"),
            .served("POST / <0\r\n\r\nGE>")),
        .init("9112 8", "no last chunk", chunked("1\r\na\r\n"), .incomplete),
        .init("9112 8", "no end of the trailer section", chunked("1\r\na\r\n0\r\n"), .incomplete),
        .init("9112 7.1", "an empty size", chunked("\r\na\r\n0\r\n\r\n"), .refused(400)),
        .init("9112 7.1", "a size that is not hexadecimal", chunked("g\r\na\r\n0\r\n\r\n"), .refused(400)),
        .init("9112 7.1", "a size with 0x", chunked("0x1\r\na\r\n0\r\n\r\n"), .refused(400)),
        .init("9112 7.1", "a size with a plus sign", chunked("+1\r\na\r\n0\r\n\r\n"), .refused(400)),
        .init("9112 7.1", "a size with a minus sign", chunked("-1\r\na\r\n0\r\n\r\n"), .refused(400)),
        .init("9112 7.1", "a size with an underscore", chunked("1_0\r\na\r\n0\r\n\r\n"), .refused(400)),
        .init("9112 7.1", "a space before the size", chunked(" 1\r\na\r\n0\r\n\r\n"), .refused(400)),
        .init("9112 7.1", "a space after the size", chunked("1 \r\na\r\n0\r\n\r\n"), .refused(400)),
        .init("9112 7.1", "a size of 2^63", chunked("8000000000000000\r\na\r\n0\r\n\r\n"), .refused(400)),
        .init("9112 7.1", "a size of 2^64 + 1", chunked("10000000000000001\r\na\r\n0\r\n\r\n"), .refused(400)),
        .init(
            "9112 7.1", "a size of seventeen digits", chunked("00000000000000001\r\na\r\n0\r\n\r\n"),
            .refused(400)),
        .init("9110 15.5.14", "a size of 2^63 - 1", chunked("7fffffffffffffff\r\na"), .refused(413)),
        .init("9110 15.5.14", "a chunk longer than any route accepts", chunked("100001\r\na"), .refused(413)),
        .init(
            "9110 15.5.14", "chunks that together are longer than any route accepts", chunked("1\r\na\r\n100000\r\n"),
            .refused(413)),
        .init("9112 7.1", "less data than announced", chunked("5\r\nhell\r\n0\r\n\r\n"), .refused(400)),
        .init("9112 7.1", "more data than announced", chunked("4\r\nhello\r\n0\r\n\r\n"), .refused(400)),
        .init("9112 7.1", "one wrong byte after the data is rejected at once", chunked("5\r\nhello0"), .refused(400)),
        .init(
            "9112 7.1", "chunked requests in a row",
            chunked("1\r\na\r\n0\r\nX: y\r\n\r\n") + chunked("1\r\nb\r\n0\r\n\r\n"),
            .served("POST / <a> [X: y]"), .served("POST / <b>")),
        .init("9112 7.1", "no CRLF after the data", chunked("5\r\nhello0\r\n\r\n"), .refused(400)),
        .init("9112 2.2", "a bare LF after the size", chunked("1\na\r\n0\r\n\r\n"), .refused(400)),
        .init("9112 2.2", "a bare LF after the data", chunked("1\r\na\n0\r\n\r\n"), .refused(400)),
        .init("9112 2.2", "a bare CR after the data", chunked("1\r\na\rx0\r\n\r\n"), .refused(400)),
        .init("9112 2.2", "a bare CR after the size", chunked("1\rXa\r\n0\r\n\r\n"), .refused(400)),
        .init("9112 2.2", "a bare LF ends the trailer section", chunked("0\r\n\n"), .refused(400)),
        .init("9112 7.1.1", "an extension is ignored", chunked("1;a\r\nx\r\n0;b\r\n\r\n"), .served("POST / <x>")),
        .init(
            "9112 7.1.1", "extensions with values",
            chunked("1;a=b;c=\"d \\\" ;\t\u{E9}\"\r\nx\r\n0\r\n\r\n"), .served("POST / <x>")),
        .init(
            "9112 7.1.1", "whitespace in extensions", chunked("1 ; a =\tb ;c\r\nx\r\n0\r\n\r\n"),
            .served("POST / <x>")),
        .init("9112 7.1.1", "an extension without a name", chunked("1;\r\nx\r\n0\r\n\r\n"), .refused(400)),
        .init("9112 7.1.1", "an extension without its value", chunked("1;a=\r\nx\r\n0\r\n\r\n"), .refused(400)),
        .init("9112 7.1.1", "an extension with a bad value", chunked("1;a=(\r\nx\r\n0\r\n\r\n"), .refused(400)),
        .init("9112 7.1.1", "a quote that does not end", chunked("1;a=\"b\r\nx\r\n0\r\n\r\n"), .refused(400)),
        .init("9112 7.1.1", "whitespace after an extension", chunked("1;a \r\nx\r\n0\r\n\r\n"), .refused(400)),
        .init("9112 7.1.1", "a NUL in an extension", chunked("1;a=\"\u{00}\"\r\nx\r\n0\r\n\r\n"), .refused(400)),
        .init(
            "9112 7.1.1", "extensions of 1024 bytes in all",
            chunked("1;" + String(repeating: "a", count: 1023) + "\r\nx\r\n0\r\n\r\n"), .served("POST / <x>")),
        .init(
            "9112 7.1.1", "extensions of 1025 bytes in all",
            chunked("1;" + String(repeating: "a", count: 1022) + "\r\nx\r\n0;a\r\n\r\n"), .refused(400)),
        .init(
            "9112 7.1.1", "an extension without end", chunked("1;" + String(repeating: "a", count: 1100)),
            .refused(400)),
    ]

    /// Returns a trailer line of `bytes` bytes, including its CRLF.
    private static func trailer(bytes: Int) -> String { "X: " + String(repeating: "a", count: bytes - 5) + "\r\n" }

    static let trailers: [ConformanceCase] = [
        .init(
            "9112 7.1.2", "trailer fields", chunked("1\r\na\r\n0\r\nX-Sum: 1\r\nX-Two:  2 \r\n\r\n"),
            .served("POST / <a> [X-Sum: 1] [X-Two: 2]")),
        .init(
            "9110 6.5.1", "Transfer-Encoding in the trailers", chunked("0\r\nTransfer-Encoding: chunked\r\n\r\n"),
            .refused(400)),
        .init(
            "9110 6.5.1", "Content-Length in the trailers", chunked("0\r\ncontent-length: 5\r\n\r\nhello"),
            .refused(400)),
        .init("9110 6.5.1", "Host in the trailers", chunked("0\r\nHost: b\r\n\r\n"), .refused(400)),
        .init(
            "9110 6.5.1", "Authorization in the trailers", chunked("0\r\nAuthorization: Bearer x\r\n\r\n"),
            .refused(400)),
        .init(
            "9110 6.5.1", "Content-Type in the trailers", chunked("0\r\nContent-Type: text/plain\r\n\r\n"),
            .refused(400)),
        .init("9110 6.5.1", "Connection in the trailers", chunked("0\r\nConnection: close\r\n\r\n"), .refused(400)),
        .init("9110 6.5.1", "Max-Forwards in the trailers", chunked("0\r\nMax-Forwards: 0\r\n\r\n"), .refused(400)),
        .init("9112 5.2", "obs-fold in the trailers", chunked("0\r\nX: a\r\n b\r\n\r\n"), .refused(400)),
        .init("9112 5.1", "space before the colon in the trailers", chunked("0\r\nX : a\r\n\r\n"), .refused(400)),
        .init("9110 5.5", "a NUL in the trailers", chunked("0\r\nX: \u{00}\r\n\r\n"), .refused(400)),
        .init("9112 2.2", "a bare LF in the trailers", chunked("0\r\nX: a\n\r\n"), .refused(400)),
        .init(
            "6585 5", "sixteen trailer fields",
            chunked("0\r\n" + String(repeating: "X: a\r\n", count: 16) + "\r\n"),
            .served("POST /" + String(repeating: " [X: a]", count: 16))),
        .init(
            "6585 5", "seventeen trailer fields",
            chunked("0\r\n" + String(repeating: "X: a\r\n", count: 17) + "\r\n"), .refused(431)),
        .init(
            "6585 5", "trailers of 4 KiB on two lines",
            chunked("0\r\n" + trailer(bytes: 2000) + trailer(bytes: 2094) + "\r\n"),
            .served("POST / [X: \(String(repeating: "a", count: 1995))] [X: \(String(repeating: "a", count: 2089))]")),
        .init(
            "6585 5", "trailers of 4 KiB and one byte",
            chunked("0\r\n" + trailer(bytes: 2000) + trailer(bytes: 2095) + "\r\n"), .refused(431)),
        .init(
            "6585 5", "trailers without end", chunked("0\r\nX: " + String(repeating: "a", count: 4200)),
            .refused(431)),
    ]
}
