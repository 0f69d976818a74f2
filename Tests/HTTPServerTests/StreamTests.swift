// Tests of streamed response bodies, of back-pressure, and of what a client receives if a stream breaks off.

import Synchronization
import Testing

@testable import HTTP1
@testable import HTTPServer
@testable import Sockets

#if canImport(Glibc)
    import Glibc
#endif

@Suite struct StreamTests {
    private static let three = Route(.get, "/three") { _ in
        Response(
            status: .ok,
            body: .stream { writer in
                for text in ["one", "", "two", "three"] { try await writer.write(Array(text.utf8)) }
            })
    }

    @Test func `a stream is chunked, and the connection goes on`() async throws {
        try await withServer([Self.three]) { test in
            let client = try await test.connect()
            for _ in 0..<2 {
                let answer = try await client.exchange("GET /three HTTP/1.1\r\n\(host)\r\n")
                #expect(answer.text == "onetwothree")
                #expect(answer.fields.first("Transfer-Encoding") == "chunked")
            }
            let head = try await client.exchange("HEAD /three HTTP/1.1\r\n\(host)\r\n")
            #expect(head.status == 200)
            let last = try await client.exchange("GET /three HTTP/1.0\r\n\r\n")
            #expect(last.text == "onetwothree")
            #expect(last.fields.first("Transfer-Encoding") == nil)
            #expect(test.observations.all.map(\.bytesOut).allSatisfy { $0 > 50 })
        }
    }

    @Test func `a stream that fails ends without its last chunk`() async throws {
        struct Failure: Error {}
        let route = Route(.get, "/broken") { _ in
            Response(
                status: .ok,
                body: .stream { writer in
                    try await writer.write([1])
                    throw Failure()
                })
        }
        try await withServer([route]) { test in
            let client = try await test.connect()
            await #expect(throws: (any Error).self) {
                try await client.exchange("GET /broken HTTP/1.1\r\n\(host)\r\n")
            }
            // The server reports the broken response to the observer, like any other response.
            #expect(test.observations.all.map(\.status) == [.ok])
            #expect(test.observations.all.allSatisfy { $0.bytesOut > 50 })
        }
    }

    @Test func `a writer waits for a client that does not read, and throws when it is gone`() async throws {
        let written = Atomic<Int>(0)
        let (ended, ends) = AsyncStream<Void>.makeStream()
        let route = Route(.get, "/endless") { _ in
            Response(
                status: .ok,
                body: .stream { writer in
                    defer { ends.yield() }
                    while true {
                        try await writer.write([UInt8](repeating: 0, count: 1 << 16))
                        written.wrappingAdd(1 << 16, ordering: .relaxed)
                    }
                })
        }
        try await withServer([route], .test.with(\.writeStallMilliseconds, 200)) { test in
            let client = try await test.connect()
            try await client.send("GET /endless HTTP/1.1\r\n\(host)\r\n")
            for await _ in ended { break }
            // The kernel's two socket buffers take a few MB each, and then the writer must wait. Without back-pressure,
            // the writer would have written gigabytes.
            #expect(written.load(ordering: .relaxed) < 64 << 20)
        }
    }

    @Test func `a chunk is counted in the memory budget, also if earlier output is stalled already`() async throws {
        let route = Route(.get, "/chunk") { _ in
            Response(
                status: .ok, body: .stream { writer in try await writer.write([UInt8](repeating: 0, count: 100_000)) })
        }
        // The kernel accepts no bytes, as if its buffer were full of earlier responses. The output therefore already
        // stalls at the head, before the chunk.
        var syscalls = Syscalls.system
        syscalls.send = { _, _ in Int(-EAGAIN) }
        let serverLoops = try EventLoopGroup(count: 1, syscalls: syscalls)
        try await withServer([route], on: serverLoops) { test in
            let client = try await test.connect()
            try await client.send("GET /chunk HTTP/1.1\r\n\(host)\r\n")
            let deadline = Deadline.inSeconds(5)
            while test.server.counts.bytesHeld < 100_000 && !deadline.hasPassed { await Task.yield() }
            #expect(test.server.counts.bytesHeld >= 100_000)
        }
        await serverLoops.shutdown()
    }

    @Test func `a writer may be used from another task, and not after the stream's end`() async throws {
        let (writers, handOver) = AsyncStream<any ResponseBodyWriter>.makeStream()
        let route = Route(.get, "/kept") { _ in
            Response(
                status: .ok,
                body: .stream { writer in
                    try await Task.detached { try await writer.write(Array("from elsewhere".utf8)) }.value
                    handOver.yield(writer)
                })
        }
        try await withServer([route]) { test in
            let client = try await test.connect()
            #expect(try await client.exchange("GET /kept HTTP/1.1\r\n\(host)\r\n").text == "from elsewhere")
            for await writer in writers {
                await #expect(throws: TransportError.closed) { try await writer.write([1]) }
                break
            }
        }
    }

    @Test func `a writer that outlived its stream cannot write into the next one`() async throws {
        let (writers, handOver) = AsyncStream<any ResponseBodyWriter>.makeStream()
        let (begun, begins) = AsyncStream<Void>.makeStream()
        let gate = Latch()
        let kept = Route(.get, "/kept") { _ in
            Response(status: .ok, body: .stream { writer in handOver.yield(writer) })
        }
        let next = Route(.get, "/next") { _ in
            Response(
                status: .ok,
                body: .stream { writer in
                    begins.yield()
                    await gate.wait()
                    try await writer.write(Array("next".utf8))
                })
        }
        try await withServer([kept, next]) { test in
            let client = try await test.connect()
            #expect(try await client.exchange("GET /kept HTTP/1.1\r\n\(host)\r\n").text == "")
            try await client.send("GET /next HTTP/1.1\r\n\(host)\r\n")
            for await _ in begun { break }
            for await writer in writers {
                writer.whenClientEndsSending { Issue.record("told of another stream's client") }
                await #expect(throws: TransportError.closed) { try await writer.write([1]) }
                break
            }
            client.connection.shutdownWrite()
            gate.reach()
            #expect(try await client.answer().text == "next")
        }
    }
}
