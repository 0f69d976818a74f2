// Tests of requests that the event loop answers from memory, without a task. They follow the same rules as all other
// requests: response order, time slices, deadlines, drain, and clients that do not read.

import Testing

@testable import HTTP1
@testable import HTTPServer
@testable import Sockets

@Suite struct ResponsesFromMemoryTests {
    private static let large = [UInt8](repeating: 7, count: 4 << 20)
    /// GET `/large`, whose response is larger than the socket's send buffer.
    private static let largeRoute = Route(
        .get, "/large", responder: { _ in .response(Response(status: .ok, body: .bytes(large))) })

    @Test func `a route responds from memory or with work, request by request`() async throws {
        let route = Route(
            .get, "/{n}",
            responder: { request in
                if request.path == "/1" { return .response(Response(status: .ok, body: .bytes([0x31]))) }
                return .work { Response(status: .ok, body: .bytes([0x32])) }
            })
        try await withServer([route]) { test in
            let client = try await test.connect()
            for path in ["/1", "/2", "/1", "/1", "/2"] {
                let answer = try await client.exchange("GET \(path) HTTP/1.1\r\n\(host)\r\n")
                #expect("/" + answer.text == path)
            }
        }
    }

    @Test func `who pipelines without end leaves the others their turn`() async throws {
        let configuration = ServerConfiguration.test.with(\.loops, 1)
        try await withServer([.hello, .number], configuration) { test in
            let flood = try await test.connect()
            let other = try await test.connect()
            let count = 5_000
            let connection = flood.connection
            let sending = Task {
                var text = ""
                for number in 0..<count { text += "GET /number/\(number) HTTP/1.1\r\n\(host)\r\n" }
                try await connection.write(Array(text.utf8), until: .inSeconds(30))
            }
            #expect(try await flood.answer().text == "0")
            #expect(try await other.exchange("GET /hello HTTP/1.1\r\n\(host)\r\n").text == "hello")
            for number in 1..<count {
                let answer = try await flood.answer()
                guard answer.text == "\(number)" else {
                    Issue.record("\(answer.text) instead of \(number)")
                    break
                }
            }
            try await sending.value
        }
    }

    @Test(.timeLimit(.minutes(1))) func `an answer does not wait for the handler of the next request`() async throws {
        // The event loop answers the first of these requests itself; a task answers the second.
        for first in [
            "GET /hello HTTP/1.1\r\n\(host)\r\n", "POST /echo HTTP/1.1\r\n\(host)Content-Length: 5\r\n\r\nhello",
        ] {
            let released = Latch()
            let slow = Route(.get, "/slow") { _ in
                await released.wait()
                return Response(status: .ok, body: .bytes([0x73]))
            }
            try await withServer([.hello, .echo, slow]) { test in
                let client = try await test.connect()
                let rest = "GET /slow HTTP/1.1\r\n\(host)\r\nGET /hello HTTP/1.1\r\n\(host)\r\n"
                try await client.send(first + rest)
                #expect(try await client.answer().text == "hello")
                released.reach()
                #expect(try await client.answer().text == "s")
                #expect(try await client.answer().text == "hello")
            }
        }
    }

    @Test func `a client that does not take its answers gets all of them in the end`() async throws {
        try await withServer([Self.largeRoute, .hello]) { test in
            let client = try await test.connect()
            try await client.send(
                "GET /large HTTP/1.1\r\n\(host)\r\nGET /hello HTTP/1.1\r\n\(host)\r\nGET /large HTTP/1.1\r\n\(host)\r\n"
            )
            #expect(try await client.answer().body == Self.large)
            #expect(try await client.answer().text == "hello")
            #expect(try await client.answer().body == Self.large)
            #expect(try await client.exchange("GET /hello HTTP/1.1\r\n\(host)\r\n").text == "hello")
        }
    }

    /// Each large response exceeds the socket's send buffer, so it stalls. The event loop answers `/large` from memory,
    /// and a task answers `/work`.
    @Test func `responses from memory and of work keep their order when the client reads late`() async throws {
        let work = Route(.get, "/work") { _ in Response(status: .ok, body: .bytes(Self.large)) }
        try await withServer([Self.largeRoute, .hello, work]) { test in
            let client = try await test.connect()
            let request = { (path: String) in "GET \(path) HTTP/1.1\r\n\(host)\r\n" }
            let paths = ["/large", "/work", "/hello", "/work", "/work", "/large", "/hello"]
            try await client.send(paths.map(request).joined())
            try await Task.sleep(for: .milliseconds(100))
            for path in paths {
                let answer = try await client.answer()
                #expect(path == "/hello" ? answer.text == "hello" : answer.body.count == Self.large.count)
            }
            #expect(try await client.exchange(request("/hello")).text == "hello")
        }
    }

    @Test func `the deadline of the next head holds, and not that of an idle connection`() async throws {
        try await withServer([.hello], .test.with(\.headTimeoutMilliseconds, 100)) { test in
            let client = try await test.connect()
            for _ in 0..<3 {
                #expect(try await client.exchange("GET /hello HTTP/1.1\r\n\(host)\r\n").text == "hello")
            }
            try await client.send("GET /hello HTTP/1.1\r\nHo")
            #expect(try await client.answer().status == 408)
            #expect(try await client.isAtEnd())
        }
    }

    @Test func `a connection that became idle without a task ends with a drain`() async throws {
        try await withServer([.hello], .test.with(\.drainIdleMilliseconds, 50)) { test in
            let client = try await test.connect()
            try await client.send("GET /hello HTTP/1.1\r\n")
            // The client waits until the server has accepted the connection, so that the server first gets only half a
            // head. The connection is idle for the first time after the event loop has answered without a task.
            while test.server.counts.connectionsOpen < 1 { await Task.yield() }
            #expect(try await client.exchange("\(host)\r\n").text == "hello")
            let start = Deadline.now
            await test.server.drain(withinSeconds: 60)
            #expect(Deadline.now < start.advanced(byMilliseconds: 30_000))
            #expect(try await client.isAtEnd())
        }
    }

    @Test func `an answer that closes is the last one`() async throws {
        try await withServer([.hello]) { test in
            let client = try await test.connect()
            _ = try await client.exchange("GET /hello HTTP/1.1\r\n\(host)\r\n")
            let last = try await client.exchange("GET /hello HTTP/1.1\r\n\(host)Connection: close\r\n\r\n")
            #expect(last.fields.first("Connection") == "close")
            #expect(try await client.isAtEnd())
        }
    }

    @Test func `100 is sent on a connection that was answered from memory before`() async throws {
        try await withServer([.hello, .echo]) { test in
            let client = try await test.connect()
            _ = try await client.exchange("GET /hello HTTP/1.1\r\n\(host)\r\n")
            try await client.send("POST /echo HTTP/1.1\r\n\(host)Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
            #expect(try await client.answer().status == 100)
            #expect(try await client.exchange("hi").text == "hi")
        }
    }
}
