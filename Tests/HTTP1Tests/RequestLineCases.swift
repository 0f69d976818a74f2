// Cases for messages, request lines, targets, versions and Host (RFC 9112 sections 2 and 3), and for http URIs (RFC
// 9110 section 4.2).

enum RequestLineCases {
    static let all = parsing + methods + versions + targets + hosts

    static let parsing: [ConformanceCase] = [
        .init("9112 2.2", "an empty line before the request is skipped", "\r\n" + get("/"), .served("GET /")),
        .init(
            "9112 2.2", "a stray CRLF after content is skipped",
            post("Content-Length: 1\r\n", "x\r\n") + get("/b"), .served("POST / <x>"), .served("GET /b")),
        .init("9112 2.2", "four empty lines are skipped", "\r\n\r\n\r\n\r\n" + get("/"), .served("GET /")),
        .init(
            "9112 2.2", "empty lines are counted anew for each request",
            "\r\n\r\n\r\n" + get("/1") + "\r\n\r\n\r\n" + get("/2"), .served("GET /1"), .served("GET /2")),
        .init("9112 2.2", "five empty lines are too many", "\r\n\r\n\r\n\r\n\r\n" + get("/"), .refused(400)),
        .init("9112 2.2", "bare LF before the request", "\n" + get("/"), .refused(400)),
        .init("9112 2.2", "bare CR before the request", "\r" + get("/"), .refused(400)),
        .init("9112 2.2", "space before the request", " " + get("/"), .refused(400)),
        .init("9112 2.2", "bare LF ends the request line", "GET / HTTP/1.1\nHost: a\r\n\r\n", .refused(400)),
        .init("9112 2.2", "bare LF ends every line", "GET / HTTP/1.1\nHost: a\n\n", .refused(400)),
        .init("9112 2.2", "bare CR in the request line", "GET /\rx HTTP/1.1\r\nHost: a\r\n\r\n", .refused(400)),
        .init("9112 2.2", "CR CR LF ends the request line", "GET / HTTP/1.1\r\r\nHost: a\r\n\r\n", .refused(400)),
        .init(
            "9112 2.2", "whitespace between the request line and the first field",
            "GET / HTTP/1.1\r\n Host: a\r\n\r\n", .refused(400)),
        .init(
            "9112 2.2", "a line of whitespace before the first field",
            "GET / HTTP/1.1\r\n \r\nHost: a\r\n\r\n", .refused(400)),
        .init(
            "9112 2.2", "TLS is spoken to a port without TLS",
            "\u{16}\u{03}\u{01}\u{02}\u{00}\u{01}\u{00}\u{01}\u{FC}\u{03}\u{03}", .refused(400)),
        .init("9112 8", "the head is not complete", "GET / HTTP/1.1\r\nHost: a\r\n", .incomplete),
        .init("9112 8", "the request line is not complete", "GET / HT", .incomplete),
        .init("9112 8", "only the CR of the last CR LF has arrived", "GET / HTTP/1.1\r\nHost: a\r\n\r", .incomplete),
    ]

    static let methods: [ConformanceCase] = [
        .init("9112 3.1", "a method is any token", line("M-SEARCH /x HTTP/1.1"), .served("M-SEARCH /x")),
        .init("9112 3.1", "methods are case-sensitive: get is not GET", line("get / HTTP/1.1"), .served("get /")),
        .init(
            "9112 3.1", "every tchar is allowed in a method",
            line("!#$%&'*+-.^_`|~09azAZ / HTTP/1.1"), .served("!#$%&'*+-.^_`|~09azAZ /")),
        .init("9112 3.1", "a separator in the method", line("GE(T / HTTP/1.1"), .refused(400)),
        .init("9112 3.1", "a control character in the method", line("GE\u{01}T / HTTP/1.1"), .refused(400)),
        .init("9112 3.1", "a byte above ASCII in the method", line("G\u{C9}T / HTTP/1.1"), .refused(400)),
        .init("9112 3.1", "no method", line("/ HTTP/1.1"), .refused(400)),
        .init(
            "9112 3", "a method of 32 letters", line(String(repeating: "M", count: 32) + " / HTTP/1.1"),
            .served(String(repeating: "M", count: 32) + " /")),
        .init(
            "9112 3", "a method longer than any known", line(String(repeating: "M", count: 33) + " / HTTP/1.1"),
            .refused(501)),
        .init(
            "9112 3", "a method that fills the request line", line(String(repeating: "M", count: 9000)),
            .refused(501)),
        .init(
            "9112 3", "garbage that fills the request line", line("a" + String(repeating: "=", count: 9000)),
            .refused(400)),
        .init(
            "9112 3", "a request line of 8192 bytes is served",
            line("GET /" + String(repeating: "a", count: 8192 - 14) + " HTTP/1.1"),
            .served("GET /" + String(repeating: "a", count: 8192 - 14))),
        .init(
            "9112 3", "a request line of 8193 bytes",
            line("GET /" + String(repeating: "a", count: 8193 - 14) + " HTTP/1.1"), .refused(414)),
        .init("9112 3", "a request line without end", "GET /" + String(repeating: "a", count: 9000), .refused(414)),
        .init("9112 3", "two spaces after the method", line("GET  / HTTP/1.1"), .refused(400)),
        .init("9112 3", "two spaces before the version", line("GET /  HTTP/1.1"), .refused(400)),
        .init("9112 3", "a tab instead of a space", line("GET\t/ HTTP/1.1"), .refused(400)),
        .init("9112 3", "a space after the version", line("GET / HTTP/1.1 "), .refused(400)),
        .init("9112 3", "a space in the target", line("GET /a b HTTP/1.1"), .refused(400)),
        .init("9112 3", "no target", line("GET HTTP/1.1"), .refused(400)),
        .init("9112 3", "an empty target", line("GET  HTTP/1.1"), .refused(400)),
        .init("9112 3", "no version, as in HTTP/0.9", line("GET /"), .refused(400)),
        .init("9112 3", "a NUL in the target", line("GET /\u{00} HTTP/1.1"), .refused(400)),
    ]

    static let versions: [ConformanceCase] = [
        .init("9112 2.3", "HTTP/1.1", line("GET / HTTP/1.1"), .served("GET /")),
        .init("9112 2.3", "HTTP/1.0", line("GET / HTTP/1.0"), .servedLast("GET /")),
        .init("9110 2.5", "a higher minor version counts as 1.1", line("GET / HTTP/1.9"), .served("GET /")),
        .init("9110 15.6.6", "HTTP/2.0", line("GET / HTTP/2.0"), .refused(505)),
        .init("9110 15.6.6", "HTTP/3.0", line("GET / HTTP/3.0"), .refused(505)),
        .init("9110 15.6.6", "HTTP/0.9 by name", line("GET / HTTP/0.9"), .refused(505)),
        .init("9110 15.6.6", "the HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", .refused(505)),
        .init("9112 2.3", "the name is case-sensitive", line("GET / http/1.1"), .refused(400)),
        .init("9112 2.3", "another protocol", line("GET / ICY/1.1"), .refused(400)),
        .init("9112 2.3", "a minor version of two digits", line("GET / HTTP/1.10"), .refused(400)),
        .init("9112 2.3", "a major version of two digits", line("GET / HTTP/11.1"), .refused(400)),
        .init("9112 2.3", "no minor version", line("GET / HTTP/2"), .refused(400)),
        .init("9112 2.3", "no dot", line("GET / HTTP/1-1"), .refused(400)),
        .init("9112 2.3", "letters for digits", line("GET / HTTP/1.x"), .refused(400)),
        .init("9112 2.3", "a signed version", line("GET / HTTP/+.1"), .refused(400)),
    ]

    static let targets: [ConformanceCase] = [
        .init("9112 3.2.1", "origin-form", get("/native/events"), .served("GET /native/events")),
        .init("9112 3.2.1", "origin-form with a query", get("/a?b=c&d=%20/?"), .served("GET /a?b=c&d=%20/?")),
        .init("9112 3.2.1", "an empty query differs from no query", get("/a?"), .served("GET /a?")),
        .init("9112 3.2.1", "a path without its slash", get("a"), .refused(400)),
        .init("9112 3.2", "a fragment", get("/a#b"), .refused(400)),
        .init("9112 3.2", "a byte above ASCII", get("/\u{C3}\u{A9}"), .refused(400)),
        .init("9112 3.2", "a byte that a URI must encode", get("/a|b"), .refused(400)),
        .init("9112 3.2", "a backslash", get("/a\\b"), .refused(400)),
        .init("9112 3.2", "a quote in the query", get("/?a=\"b\""), .refused(400)),
        .init("9112 3.2", "half a triplet in the query", get("/?a=%2"), .refused(400)),
        .init("9112 3.2.2", "absolute-form", get("http://b/c?d"), .served("GET /c?d")),
        .init("9112 3.2.2", "absolute-form with port and capital scheme", get("HTTP://b:80/c"), .served("GET /c")),
        .init("9112 3.2.2", "absolute-form of https, as a gateway sends it", get("https://b/c"), .served("GET /c")),
        .init("9110 4.2.3", "absolute-form without a path", get("http://b"), .served("GET /")),
        .init("9110 4.2.3", "absolute-form without a path, with a query", get("http://b?c"), .served("GET /?c")),
        .init(
            "9112 3.2.4", "absolute-form of OPTIONS without a path",
            line("OPTIONS http://b HTTP/1.1"), .served("OPTIONS *")),
        .init(
            "9112 3.2", "absolute-form does not replace a missing Host", "GET http://b/ HTTP/1.1\r\n\r\n",
            .refused(400)),
        .init("9110 4.2.1", "absolute-form without a host", get("http:///c"), .refused(400)),
        .init("9110 4.2.1", "absolute-form with a port only", get("http://:80/c"), .refused(400)),
        .init("9110 4.2.4", "absolute-form with userinfo", get("http://u:p@b/c"), .refused(400)),
        .init("9112 3.2.2", "absolute-form of another scheme", get("ftp://b/c"), .refused(400)),
        .init("9112 3.2.2", "absolute-form with one slash", get("http:/b/c"), .refused(400)),
        .init("9112 3.2.3", "authority-form with CONNECT", line("CONNECT b:443 HTTP/1.1"), .refused(501)),
        .init(
            "9112 3.2.3", "CONNECT, then bytes for the tunnel",
            line("CONNECT b:443 HTTP/1.1") + get("/smuggled"), .refused(501)),
        .init("9112 3.2.3", "CONNECT without a port", line("CONNECT b HTTP/1.1"), .refused(400)),
        .init("9112 3.2.3", "CONNECT with an empty port", line("CONNECT b: HTTP/1.1"), .refused(400)),
        .init(
            "9112 3.2.3", "CONNECT to an IPv6 address without a port",
            line("CONNECT [::1] HTTP/1.1"), .refused(400)),
        .init("9112 3.2.3", "CONNECT with origin-form", line("CONNECT /a HTTP/1.1"), .refused(400)),
        .init("9112 3.2.3", "authority-form with GET", get("b:80"), .refused(400)),
        .init("9112 3.2.4", "asterisk-form", line("OPTIONS * HTTP/1.1"), .served("OPTIONS *")),
        .init("9112 3.2.4", "asterisk-form with GET", get("*"), .refused(400)),
        .init("9112 3.2.4", "asterisk-form with another character", line("OPTIONS *a HTTP/1.1"), .refused(400)),
        .init("9112 3.2.4", "asterisk-form with a query", line("OPTIONS *?a HTTP/1.1"), .refused(400)),
    ]

    static let hosts: [ConformanceCase] = [
        .init("9112 3.2", "1.1 without Host", "GET / HTTP/1.1\r\n\r\n", .refused(400)),
        .init("9112 3.2", "1.9 without Host", "GET / HTTP/1.9\r\n\r\n", .refused(400)),
        .init("9112 3.2", "1.0 without Host", "GET / HTTP/1.0\r\n\r\n", .servedLast("GET /")),
        .init("9112 3.2", "two Host lines", get(fields: "Host: b\r\n"), .refused(400)),
        .init("9112 3.2", "two equal Host lines", get(fields: "host: a\r\n"), .refused(400)),
        .init("9112 3.2", "two Host lines in 1.0", "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", .refused(400)),
        .init("9112 3.2", "an invalid Host in 1.0", "GET / HTTP/1.0\r\nHost: a b\r\n\r\n", .refused(400)),
        .init(
            "9112 3.2", "an invalid Host beside absolute-form",
            "GET http://b/ HTTP/1.1\r\nHost: a/b\r\n\r\n", .refused(400)),
        .init("9110 4.2.1", "an empty Host", get(host: ""), .refused(400)),
        .init("9110 7.2", "a Host with port", get(host: "api.example.com:8080"), .served("GET /")),
        .init("9110 7.2", "a Host with an empty port", get(host: "a:"), .served("GET /")),
        .init("9110 7.2", "a Host with encoded bytes", get(host: "%C3%A9.example"), .served("GET /")),
        .init("9110 7.2", "an IPv4 address", get(host: "127.0.0.1:80"), .served("GET /")),
        .init("9110 7.2", "an IPv6 address", get(host: "[2001:db8::7]:8080"), .served("GET /")),
        .init("9110 7.2", "the shortest IPv6 address", get(host: "[::]"), .served("GET /")),
        .init("9110 7.2", "an IPv6 address with all its groups", get(host: "[1:2:3:4:5:6:7:8]"), .served("GET /")),
        .init(
            "9110 7.2", "an IPv6 address that ends in an IPv4 address", get(host: "[::ffff:192.0.2.1]"),
            .served("GET /")),
        .init("9110 7.2", "IPv6: nine groups", get(host: "[1:2:3:4:5:6:7:8:9]"), .refused(400)),
        .init("9110 7.2", "IPv6: seven groups", get(host: "[1:2:3:4:5:6:7]"), .refused(400)),
        .init("9110 7.2", "IPv6: eight groups and a gap", get(host: "[1:2:3:4:5:6:7::8]"), .refused(400)),
        .init("9110 7.2", "IPv6: two gaps", get(host: "[1::2::3]"), .refused(400)),
        .init("9110 7.2", "IPv6: three colons", get(host: "[1:::2]"), .refused(400)),
        .init("9110 7.2", "IPv6: a colon at the end", get(host: "[1:2:3:4:5:6:7:]"), .refused(400)),
        .init("9110 7.2", "IPv6: five digits in a group", get(host: "[::12345]"), .refused(400)),
        .init("9110 7.2", "IPv6: a zone", get(host: "[fe80::1%25eth0]"), .refused(400)),
        .init("9110 7.2", "IPv6: IPv4 in the middle", get(host: "[::1.2.3.4:5]"), .refused(400)),
        .init("9110 7.2", "IPv6: an octet too large", get(host: "[::1.2.3.256]"), .refused(400)),
        .init("9110 7.2", "IPv6: nothing in brackets", get(host: "[]"), .refused(400)),
        .init("9110 7.2", "IPv6: no closing bracket", get(host: "[::1"), .refused(400)),
        .init("9110 7.2", "IPv6: more after the bracket", get(host: "[::1]x"), .refused(400)),
        .init("9110 7.2", "two hosts in one Host", get(host: "a, b"), .refused(400)),
        .init("9110 7.2", "userinfo in Host", get(host: "u@a"), .refused(400)),
        .init("9110 7.2", "a path in Host", get(host: "a/b"), .refused(400)),
        .init("9110 7.2", "a URI in Host", get(host: "http://a"), .refused(400)),
        .init("9110 7.2", "a Host with half a triplet", get(host: "a%2"), .refused(400)),
        .init("9110 7.2", "a port of letters", get(host: "a:b"), .refused(400)),
        .init("9110 7.2", "a port above 65535", get(host: "a:65536"), .refused(400)),
        .init("9110 7.2", "a port with a sign", get(host: "a:+80"), .refused(400)),
        .init("9110 7.2", "two ports", get(host: "a:80:80"), .refused(400)),
    ]
}
