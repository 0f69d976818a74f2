// Tests of whole exchanges over loopback sockets: keep-alive, pipelining, bodies, 100-continue, HEAD, rejections, and
// the fields of every response. The expected results follow RFC 9110, RFC 9112 and the contract's section 7.

import Testing

@testable import HTTP1
@testable import HTTPServer
@testable import Sockets

@Suite struct ExchangeTests {
    @Test func `a connection serves one request after the other`() async throws {
        try await withServer([.hello]) { test in
            let client = try await test.connect()
            for _ in 0..<3 {
                let answer = try await client.exchange("GET /hello HTTP/1.1\r\n\(host)\r\n")
                #expect(answer.status == 200)
                #expect(answer.text == "hello")
                #expect(answer.fields.first("Date")?.hasSuffix(" GMT") == true)
                #expect(answer.fields.first("X-Request-Id").map(RequestID.isWellFormed) == true)
                #expect(answer.fields.first("Connection") == nil)
            }
            let last = try await client.exchange("GET /hello HTTP/1.1\r\n\(host)Connection: close\r\n\r\n")
            #expect(last.fields.first("Connection") == "close")
            #expect(try await client.isAtEnd())
        }
    }

    @Test func `pipelined requests are answered in order, however they are cut`() async throws {
        try await withServer([.number, .echo]) { test in
            var text = ""
            for number in 0..<100 {
                text +=
                    number % 2 == 0
                    ? "GET /number/\(number) HTTP/1.1\r\n\(host)\r\n"
                    : "POST /echo HTTP/1.1\r\n\(host)Content-Length: \(String(number).count)\r\n\r\n\(number)"
            }
            for piece in [1, 7, 64, text.utf8.count] {
                let client = try await test.connect()
                let connection = client.connection
                let bytes = Array(text.utf8)
                let sending = Task {
                    for start in stride(from: 0, to: bytes.count, by: piece) {
                        try await connection.write(Array(bytes[start..<min(start + piece, bytes.count)]))
                    }
                }
                for number in 0..<100 { #expect(try await client.answer().text == "\(number)") }
                try await sending.value
                connection.close()
            }
        }
    }

    @Test func `a chunked body arrives whole`() async throws {
        try await withServer([.echo]) { test in
            let client = try await test.connect()
            let head = "POST /echo HTTP/1.1\r\n\(host)Transfer-Encoding: chunked\r\n\r\n"
            #expect(try await client.exchange(head + "4\r\nWiki\r\n5\r\npedia\r\n0\r\n\r\n").text == "Wikipedia")
            #expect(try await client.exchange(head + "0\r\n\r\n").text == "")
        }
    }

    @Test func `100 is sent when the body will be read, a final status when not`() async throws {
        try await withServer([.echo]) { test in
            let client = try await test.connect()
            try await client.send("POST /echo HTTP/1.1\r\n\(host)Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
            #expect(try await client.answer().status == 100)
            #expect(try await client.exchange("hi").text == "hi")

            try await client.send("POST /nowhere HTTP/1.1\r\n\(host)Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
            #expect(try await client.answer().status == 404)
            #expect(try await client.isAtEnd())

            let other = try await test.connect()
            try await other.send("POST /echo HTTP/1.1\r\n\(host)Content-Length: 1001\r\nExpect: 100-continue\r\n\r\n")
            #expect(try await other.answer().status == 413)
            #expect(try await other.isAtEnd())
        }
    }

    @Test func `HEAD gets the fields of GET and no content`() async throws {
        try await withServer([.hello]) { test in
            let client = try await test.connect()
            let head = try await client.exchange("HEAD /hello HTTP/1.1\r\n\(host)\r\n")
            #expect(head.status == 200)
            #expect(head.fields.first("Content-Length") == "5")
            #expect(try await client.exchange("GET /hello HTTP/1.1\r\n\(host)\r\n").text == "hello")
        }
    }

    @Test func `404, 405 with Allow and OPTIONS leave the connection open`() async throws {
        try await withServer([.hello]) { test in
            let client = try await test.connect()
            #expect(try await client.exchange("GET /nowhere HTTP/1.1\r\n\(host)\r\n").status == 404)
            let post = "POST /hello HTTP/1.1\r\n\(host)Content-Length: 3\r\n\r\nabc"
            let wrong = try await client.exchange(post)
            #expect(wrong.status == 405)
            #expect(wrong.fields.first("Allow") == "GET, HEAD, OPTIONS")
            for target in ["/hello", "*"] {
                let options = try await client.exchange("OPTIONS \(target) HTTP/1.1\r\n\(host)\r\n")
                #expect(options.status == 204)
                #expect(options.fields.first("Allow") == "GET, HEAD, OPTIONS")
            }
            #expect(try await client.exchange("GET /hello HTTP/1.1\r\n\(host)\r\n").status == 200)
        }
    }

    @Test func `a body over the route's limit is refused before it is read, and the answer arrives`() async throws {
        try await withServer([.echo]) { test in
            for framing in ["Content-Length: 8000000", "Transfer-Encoding: chunked"] {
                let client = try await test.connect()
                try await client.send("POST /echo HTTP/1.1\r\n\(host)\(framing)\r\n\r\n")
                // This client reads nothing until it has sent the whole body.
                let bytes = [UInt8](repeating: UInt8(ascii: "a"), count: 1 << 20)
                for _ in 0..<8 {
                    if framing.hasPrefix("T") { try await client.send("100000\r\n") }
                    try await client.connection.write(bytes, until: .inSeconds(5))
                    if framing.hasPrefix("T") { try await client.send("\r\n") }
                }
                let answer = try await client.answer()
                #expect(answer.status == 413)
                #expect(answer.fields.first("Connection") == "close")
                #expect(try await client.isAtEnd())
            }
        }
    }

    @Test func `a path that does not exist is 404, however long the body is`() async throws {
        try await withServer([.echo]) { test in
            let client = try await test.connect()
            try await client.send("POST /nowhere HTTP/1.1\r\n\(host)Content-Length: 900000\r\n\r\n")
            #expect(try await client.answer().status == 404)
            #expect(try await client.isAtEnd())
        }
    }

    @Test func `a malformed request gets one 400 and the end, after the answers before it`() async throws {
        try await withServer([.hello]) { test in
            let client = try await test.connect()
            try await client.send(
                "GET /hello HTTP/1.1\r\n\(host)\r\nGET /hello HTTP/1.1\r\nbad field\r\n\r\nGET /hello")
            #expect(try await client.answer().status == 200)
            let refused = try await client.answer()
            #expect(refused.status == 400)
            #expect(refused.fields.first("X-Request-Id") != nil)
            #expect(try await client.isAtEnd())
        }
    }

    @Test func `a well-formed request id is echoed, another is replaced`() async throws {
        try await withServer([.hello]) { test in
            let client = try await test.connect()
            let good = try await client.exchange("GET /hello HTTP/1.1\r\n\(host)X-Request-Id: a.B_c-1\r\n\r\n")
            #expect(good.fields.values("X-Request-Id") == ["a.B_c-1"])
            let bad = try await client.exchange("GET /hello HTTP/1.1\r\n\(host)X-Request-Id: a b\r\n\r\n")
            #expect(bad.fields.first("X-Request-Id").map(RequestID.isWellFormed) == true)
        }
    }

    @Test func `a client that half-closes still gets its answers`() async throws {
        try await withServer([.hello]) { test in
            let client = try await test.connect()
            try await client.send("GET /hello HTTP/1.1\r\n\(host)\r\nGET /hello HTTP/1.1\r\n\(host)\r\n")
            client.connection.shutdownWrite()
            #expect(try await client.answer().status == 200)
            #expect(try await client.answer().status == 200)
            #expect(try await client.isAtEnd())
        }
    }

    @Test func `what was answered is observed, by route and without the path`() async throws {
        try await withServer([.number, .echo]) { test in
            let client = try await test.connect()
            let request = "GET /number/7 HTTP/1.1\r\n\(host)X-Request-Id: one\r\ntraceparent: 00-a-b-01\r\n\r\n"
            let answer = try await client.exchange(request)
            _ = try await client.exchange("POST /echo HTTP/1.1\r\n\(host)Content-Length: 3\r\n\r\nabc")
            _ = try await client.exchange("GET /nowhere HTTP/1.1\r\n\(host)\r\n")
            _ = try await client.exchange("\u{1}\r\n\r\n")
            let seen = test.observations.all
            #expect(seen.map(\.status.code) == [200, 200, 404, 400])
            #expect(seen.map(\.routeTemplate) == ["/number/{n}", "/echo", nil, nil])
            #expect(seen.map(\.method) == [.get, .post, .get, nil])
            #expect(seen[0].requestID == "one")
            #expect(seen[0].traceParent == "00-a-b-01")
            #expect(seen[0].bytesIn == request.utf8.count)
            #expect(seen[0].bytesOut > answer.body.count)
            #expect(seen[0].remoteAddress == "127.0.0.1")
            #expect(seen[0].durationNanoseconds < 5_000_000_000)
        }
    }
}
