// Tests of the drain that SIGTERM starts (contract, section 7). The server stops accepting connections, but still
// answers requests on open connections, with Connection: close. The drain ends within the time limit.

import Testing

@testable import HTTP1
@testable import HTTPServer
@testable import Sockets

@Suite struct DrainTests {
    @Test func `an open connection gets one more answer, with close; nobody new is let in`() async throws {
        // A connect at the moment when the listener closes can take a second, because the kernel retries it. The idle
        // limit of 4 s is longer, so `open` is still open for its second request.
        try await withServer([.hello], .test.with(\.drainIdleMilliseconds, 4_000)) { test in
            let open = try await test.connect()
            _ = try await open.exchange("GET /hello HTTP/1.1\r\n\(host)\r\n")
            let draining = Task { await test.server.drain(withinSeconds: 5) }
            // Once the listeners are closed, connecting fails.
            let deadline = Deadline.inSeconds(5)
            while !deadline.hasPassed, let client = try? await test.connect() { client.connection.close() }
            await #expect(throws: TransportError.self) { try await test.connect() }
            let answer = try await open.exchange("GET /hello HTTP/1.1\r\n\(host)\r\n")
            #expect(answer.text == "hello")
            #expect(answer.fields.first("Connection") == "close")
            #expect(try await open.isAtEnd())
            open.connection.close()
            _ = await draining.value
        }
    }

    @Test func `a request in flight is answered, with close`() async throws {
        let (started, starts) = AsyncStream<Void>.makeStream()
        let gate = Latch()
        let route = Route(.get, "/slow") { _ in
            starts.yield()
            await gate.wait()
            return Response(status: .ok)
        }
        try await withServer([route]) { test in
            let client = try await test.connect()
            try await client.send("GET /slow HTTP/1.1\r\n\(host)\r\n")
            for await _ in started { break }
            let draining = Task { await test.server.drain(withinSeconds: 5) }
            let deadline = Deadline.inSeconds(5)
            while !deadline.hasPassed, let other = try? await test.connect() { other.connection.close() }
            gate.reach()
            let answer = try await client.answer()
            #expect(answer.status == 200)
            #expect(answer.fields.first("Connection") == "close")
            client.connection.close()
            _ = await draining.value
        }
    }

    @Test func `idle connections do not hold the drain up`() async throws {
        try await withServer([.hello], .test.with(\.drainIdleMilliseconds, 50)) { test in
            let client = try await test.connect()
            _ = try await client.exchange("GET /hello HTTP/1.1\r\n\(host)\r\n")
            let start = Deadline.now
            await test.server.drain(withinSeconds: 20)
            #expect(Deadline.now < start.advanced(byMilliseconds: 5_000))
            #expect(try await client.isAtEnd())
        }
    }

    @Test func `what does not end is closed at the deadline, and the handler runs on`() async throws {
        let (started, starts) = AsyncStream<Void>.makeStream()
        let (finished, finishes) = AsyncStream<Void>.makeStream()
        let gate = Latch()
        let route = Route(.get, "/stuck") { _ in
            starts.yield()
            await gate.wait()
            finishes.yield()
            return Response(status: .ok)
        }
        try await withServer([route]) { test in
            let client = try await test.connect()
            try await client.send("GET /stuck HTTP/1.1\r\n\(host)\r\n")
            for await _ in started { break }
            await test.server.drain(withinSeconds: 0)
            #expect(try await client.isAtEnd())
            gate.reach()
            for await _ in finished { break }
        }
    }
}
