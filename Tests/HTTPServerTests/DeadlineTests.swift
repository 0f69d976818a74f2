// Tests with slow, silent and greedy clients. The server must close their connections after a bounded time, and use
// bounded memory for them.

import Synchronization
import Testing

@testable import HTTP1
@testable import HTTPServer
@testable import Sockets

#if canImport(Glibc)
    import Glibc
#endif

@Suite struct DeadlineTests {
    @Test func `an idle connection is closed without a word, before and after a request`() async throws {
        try await withServer([.hello], .test.with(\.idleTimeoutMilliseconds, 50)) { test in
            let fresh = try await test.connect()
            #expect(try await fresh.isAtEnd())
            let used = try await test.connect()
            _ = try await used.exchange("GET /hello HTTP/1.1\r\n\(host)\r\n")
            #expect(try await used.isAtEnd())
            #expect(test.observations.all.count == 1)
        }
    }

    @Test func `a head that does not get done is answered 408, however its bytes drip`() async throws {
        try await withServer([.hello], .test.with(\.headTimeoutMilliseconds, 100)) { test in
            let client = try await test.connect()
            let connection = client.connection
            let dripping = Task {
                try await connection.write(Array("GET /hello HTTP/1.1\r\n".utf8))
                while true {
                    try await connection.write(Array("a: b\r\n".utf8))
                    try await connection.loop.sleep(until: .inMilliseconds(10))
                }
            }
            let answer = try await client.answer()
            dripping.cancel()
            _ = await dripping.result
            #expect(answer.status == 408)
            #expect(answer.fields.first("Connection") == "close")
        }
    }

    /// RFC 9112 section 2.2: an empty line before the request line is ignored. It begins no head, even if its two bytes
    /// arrive separately.
    @Test func `an empty line before a request does not shorten the time for its head`() async throws {
        try await withServer([.hello], .test.with(\.headTimeoutMilliseconds, 100)) { test in
            let client = try await test.connect()
            try await client.send("\r")
            try await client.connection.loop.sleep(until: .inMilliseconds(30))
            try await client.send("\n")
            try await client.connection.loop.sleep(until: .inMilliseconds(150))
            try await client.send("GET /hello HTTP/1.1\r\n")
            try await client.connection.loop.sleep(until: .inMilliseconds(20))
            try await client.send("\(host)\r\n")
            #expect(try await client.answer().status == 200)
        }
    }

    /// An incomplete head that may belong to a request with events must not be answered 408. Shipped phones drop an
    /// event after a 408 (docs/decisions/late-requests.md).
    @Test(arguments: ["POST /echo HTTP/1.1\r\n", "POST /ec", "DELETE /echo HTTP/1.1\r\nHost: "])
    func `a head that stalls is answered 503 when it may be an event's`(start: String) async throws {
        try await withServer([.echo], .test.with(\.headTimeoutMilliseconds, 100)) { test in
            let client = try await test.connect()
            try await client.send(start)
            let answer = try await client.answer()
            #expect(answer.status == 503)
            #expect(answer.fields.first("Retry-After") == "1")
            #expect(answer.fields.first("Connection") == "close")
        }
    }

    @Test func `a body that stalls is answered 503, of GET 408, one that is slow but fast enough is served`()
        async throws
    {
        let configuration = ServerConfiguration.test.with(\.bodyTimeoutMilliseconds, 100)
            .with(\.bodyBytesPerSecondMin, 100)
        try await withServer([.echo, .number], configuration) { test in
            let stalled = try await test.connect()
            try await stalled.send("POST /echo HTTP/1.1\r\n\(host)Content-Length: 1000\r\n\r\nabc")
            let answer = try await stalled.answer()
            #expect(answer.status == 503)
            #expect(answer.fields.first("Retry-After") == "1")
            #expect(test.observations.all.last?.routeTemplate == "/echo")

            let asking = try await test.connect()
            try await asking.send("GET /number/1 HTTP/1.1\r\n\(host)Content-Length: 1000\r\n\r\nabc")
            #expect(try await asking.answer().status == 408)

            let slow = try await test.connect()
            try await slow.send("POST /echo HTTP/1.1\r\n\(host)Content-Length: 40\r\n\r\n")
            for _ in 0..<8 {
                try await slow.send("12345")
                try await slow.connection.loop.sleep(until: .inMilliseconds(20))
            }
            #expect(try await slow.answer().status == 200)
        }
    }

    @Test func `a client that pipelines and never reads stops being read, and is let go`() async throws {
        let served = Atomic<Int>(0)
        let big = [UInt8](repeating: 1, count: 100_000)
        let route = Route(.get, "/big") { _ in
            served.wrappingAdd(1, ordering: .relaxed)
            return Response(status: .ok, body: .bytes(big))
        }
        try await withServer([route], .test.with(\.writeStallMilliseconds, 200)) { test in
            let client = try await test.connect()
            let requests = String(repeating: "GET /big HTTP/1.1\r\n\(host)\r\n", count: 2000)
            await #expect(throws: TransportError.reset) {
                while true { try await client.send(requests) }
            }
            // The server stops serving when its output buffer and the kernel's two socket buffers (a few MB each) are
            // full of responses.
            #expect(served.load(ordering: .relaxed) < 500)
        }
    }

    @Test func `over the connection limit a client is told 503 with Retry-After`() async throws {
        try await withServer([.hello], .test.with(\.connectionsMax, 1)) { test in
            let first = try await test.connect()
            _ = try await first.exchange("GET /hello HTTP/1.1\r\n\(host)\r\n")
            let second = try await test.connect()
            let answer = try await second.answer()
            #expect(answer.status == 503)
            #expect(answer.fields.first("Retry-After") == "1")
            #expect(try await second.isAtEnd())
        }
    }

    @Test func `bodies over the memory budget are told 503, and the budget is given back`() async throws {
        try await withServer([.echo], .test.with(\.bufferedBytesMax, 1000)) { test in
            let first = try await test.connect()
            try await first.send("POST /echo HTTP/1.1\r\n\(host)Content-Length: 700\r\n\r\n")
            try await first.send(String(repeating: "a", count: 600))
            let second = try await test.connect()
            let body = String(repeating: "b", count: 500)
            let request = "POST /echo HTTP/1.1\r\n\(host)Content-Length: 500\r\n\r\n\(body)"
            // The server refuses the second request once it has the first request's 600 bytes in memory. The test
            // repeats the second request until then.
            let deadline = Deadline.inSeconds(5)
            var status = 200
            var client = second
            while status != 503 && !deadline.hasPassed {
                let answer = try await client.exchange(request)
                status = answer.status
                if status == 503 { #expect(answer.fields.first("Retry-After") == "1") }
                client = try await test.connect()
            }
            #expect(status == 503)
            #expect(try await first.exchange(String(repeating: "a", count: 100)).status == 200)
            for _ in 0..<3 { #expect(try await client.exchange(request).status == 200) }
        }
    }

    @Test func `heads that do not get done share a budget too`() async throws {
        try await withServer([.hello], .test.with(\.bufferedBytesMax, 200_000)) { test in
            var clients: [RawClient] = []
            for _ in 0..<16 {
                let client = try await test.connect()
                clients.append(client)
                try await client.send("GET /hello HTTP/1.1\r\n\(host)a: \(String(repeating: "a", count: 30_000))")
            }
            // 16 heads of 30 KB exceed the budget. Heads within the budget are served; the others are answered 503.
            var statuses: [Int] = []
            for client in clients {
                try? await client.send("\r\n\r\n")
                let answer = try await client.answer()
                statuses.append(answer.status)
                if answer.status == 503 { #expect(answer.fields.first("Retry-After") == "1") }
            }
            #expect(Set(statuses) == [200, 503])
            // The bytes of all heads have been returned to the budget, so another head fits.
            let late = try await test.connect()
            let head = "GET /hello HTTP/1.1\r\n\(host)a: \(String(repeating: "a", count: 30_000))\r\n\r\n"
            #expect(try await late.exchange(head).status == 200)
        }
    }

    @Test func `the fields of a head that arrives in small pieces are counted`() async throws {
        try await withServer([.hello]) { test in
            let client = try await test.connect()
            try await client.send("GET /hello HTTP/1.1\r\n\(host)")
            for number in 0..<16 {
                try await client.send("X-\(number): \(String(repeating: "a", count: 1_000))\r\n")
                // The pause makes the server read each piece alone, so that its input buffer stays small.
                try await client.connection.loop.sleep(until: .inMilliseconds(10))
            }
            let deadline = Deadline.inSeconds(5)
            while test.server.counts.bytesHeld < 16_000 && !deadline.hasPassed { await Task.yield() }
            #expect(test.server.counts.bytesHeld >= 16_000)
            #expect(try await client.exchange("\r\n").text == "hello")
            while test.server.counts.bytesHeld > 0 && !deadline.hasPassed { await Task.yield() }
            #expect(test.server.counts.bytesHeld == 0)
        }
    }

    @Test func `unfinished requests without a credential share a sixteenth of the memory for each address`()
        async throws
    {
        // One address may hold 2 MiB.
        var configuration = ServerConfiguration.test.with(\.bufferedBytesMax, 32 << 20)
        configuration.trustedProxies = try #require(TrustedProxies(["127.0.0.1"]))
        try await withServer([Self.upload], configuration) { test in
            let head = { (address: String) in
                "POST /upload HTTP/1.1\r\n\(host)X-Forwarded-For: \(address)\r\nContent-Length: 700000\r\n\r\n"
            }
            let body = String(repeating: "a", count: 699_999)
            var clients: [RawClient] = []
            for number in 1...4 {
                let client = try await test.connect()
                try await client.send(head("2001:db8::\(number)"))
                // The server may refuse the request before it has all bytes.
                try? await client.send(body)
                clients.append(client)
            }
            try await Task.sleep(for: .milliseconds(100))
            let other = try await test.connect()
            try await other.send(head("2001:db8:0:1::1"))
            try await other.send(body)
            #expect(try await other.exchange("a").text == "700000")

            var statuses: [Int] = []
            for client in clients {
                try? await client.send("a")
                statuses.append(try await client.answer().status)
            }
            #expect(Set(statuses) == [200, 503])
            // The bytes of all requests have been returned to the share.
            let late = try await test.connect()
            try await late.send(head("2001:db8::1"))
            try await late.send(body)
            #expect(try await late.exchange("a").text == "700000")
        }
    }

    @Test func `unread responses share half of the memory: who has read nothing for the longest time goes`()
        async throws
    {
        // The kernel's buffers cannot hold this response for a client that does not read.
        let big = [UInt8](repeating: 1, count: 16 << 20)
        let route = Route(.get, "/big") { _ in Response(status: .ok, body: .bytes(big)) }
        // 33 MiB have room for two such responses. Unread responses may use half of this, which has room for one.
        // Beside two responses, there is no room for two request bodies.
        let configuration = ServerConfiguration.test.with(\.bufferedBytesMax, 33 << 20)
        try await withServer([route, .hello, Self.upload], configuration) { test in
            let request = "GET /big HTTP/1.1\r\n\(host)\r\n"
            let first = try await test.connect()
            try await first.send(request)
            #expect(try await first.begins())
            try await Task.sleep(for: .milliseconds(100))
            let second = try await test.connect()
            try await second.send(request)
            #expect(try await second.begins())
            try await Task.sleep(for: .milliseconds(100))

            var uploads: [RawClient] = []
            for _ in 0..<2 {
                let client = try await test.connect()
                try await client.send("POST /upload HTTP/1.1\r\n\(host)Content-Length: 700000\r\n\r\n")
                try await client.send(String(repeating: "a", count: 699_999))
                uploads.append(client)
            }
            for client in uploads { #expect(try await client.exchange("a").text == "700000") }

            // The server closed the first connection to free its memory, long before the stall timeout of 30 s.
            await #expect(throws: (any Error).self) { try await first.answer() }
            #expect(try await second.answer().body.count == big.count)
            #expect(try await second.exchange(request).body.count == big.count)
            #expect(try await second.exchange("GET /hello HTTP/1.1\r\n\(host)\r\n").status == 200)
        }
    }

    /// POST `/upload`, up to 1 MiB, for every client.
    private static let upload = Route(.post, "/upload", bodyBytesMax: 1 << 20) { request in
        Response(status: .ok, body: .bytes(Array(String(request.body.count).utf8)))
    }

    @Test func `a handler whose client closed its socket runs to its end`() async throws {
        let (started, starts) = AsyncStream<Void>.makeStream()
        let (finished, finishes) = AsyncStream<Bool>.makeStream()
        let gate = Latch()
        let route = Route(.post, "/slow") { _ in
            starts.yield()
            await gate.wait()
            finishes.yield(Task.isCancelled)
            return Response(status: .ok, body: .bytes([UInt8](repeating: 0, count: 1 << 20)))
        }
        try await withServer([route]) { test in
            let client = try await test.connect()
            try await client.send("POST /slow HTTP/1.1\r\n\(host)Content-Length: 0\r\n\r\n")
            for await _ in started { break }
            client.connection.close()
            gate.reach()
            for await wasCancelled in finished {
                #expect(!wasCancelled)
                break
            }
        }
    }

    @Test func `requests that are served already are not late, however long they take`() async throws {
        let route = Route(
            .get, "/busy",
            responder: { _ in
                usleep(10_000)
                return .response(Response(status: .ok))
            })
        // The loop serves 64 requests of this connection in a row, each in 10 ms. These 640 ms exceed the idle timeout
        // of 500 ms.
        try await withServer([route], .test.with(\.idleTimeoutMilliseconds, 500)) { test in
            let client = try await test.connect()
            try await client.send(String(repeating: "GET /busy HTTP/1.1\r\n\(host)\r\n", count: 70))
            for _ in 0..<70 { #expect(try await client.answer().status == 200) }
        }
    }

    @Test func `a client that took long to read its answer may ask again`() async throws {
        let big = [UInt8](repeating: 1, count: 16 << 20)
        let route = Route(.get, "/big", responder: { _ in .response(Response(status: .ok, body: .bytes(big))) })
        try await withServer([route, .hello], .test.with(\.idleTimeoutMilliseconds, 800)) { test in
            let client = try await test.connect()
            try await client.send("GET /big HTTP/1.1\r\n\(host)\r\n")
            try await client.connection.loop.sleep(until: .inMilliseconds(1_100))
            #expect(try await client.answer().body.count == big.count)
            #expect(try await client.exchange("GET /hello HTTP/1.1\r\n\(host)\r\n").text == "hello")
        }
    }

    @Test func `a body stays counted until its handler ends, also when the connection is closed`() async throws {
        let (started, starts) = AsyncStream<Void>.makeStream()
        let gate = Latch()
        let route = Route(.post, "/slow") { request in
            starts.yield()
            await gate.wait()
            return Response(status: .ok, body: .bytes(request.body))
        }
        try await withServer([route]) { test in
            let client = try await test.connect()
            let body = String(repeating: "a", count: 20_000)
            try await client.send("POST /slow HTTP/1.1\r\n\(host)Content-Length: 20000\r\n\r\n\(body)")
            for await _ in started { break }
            await test.server.drain(withinSeconds: 0)
            #expect(test.server.counts.bytesHeld >= 20_000)
            #expect(test.server.counts.connectionsOpen == 1)
            gate.reach()
            let deadline = Deadline.inSeconds(5)
            while test.server.counts.connectionsOpen > 0 && !deadline.hasPassed { await Task.yield() }
            #expect(test.server.counts.connectionsOpen == 0)
            #expect(test.server.counts.bytesHeld == 0)
            #expect(test.observations.all.map(\.status) == [.ok])
        }
    }
}
