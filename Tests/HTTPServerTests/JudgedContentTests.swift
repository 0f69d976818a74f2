// Tests of a route's `judge`, which decides after a request's head whether the server accepts the content. Rejected
// content is not read. Accepted content counts against the client's memory limit.

import Synchronization
import Testing

@testable import HTTP1
@testable import HTTPServer
@testable import Sockets

@Suite struct JudgedContentTests {
    /// Returns a POST `/judged` route that accepts every request with an `Authorization` field. The field's value names
    /// the client.
    private static func route(_ asked: Asked = Asked(), bodyBytesMax: Int = 1 << 20) -> Route {
        Route(
            .post, "/judged", bodyBytesMax: bodyBytesMax,
            judge: { request in
                asked.count.wrappingAdd(1, ordering: .relaxed)
                guard let name = request.fields.first("Authorization") else {
                    return .refused(Response(status: .unauthorized, body: .bytes(Array("who?".utf8))))
                }
                return .welcome(client: name)
            },
            handler: { request in
                asked.handled.wrappingAdd(1, ordering: .relaxed)
                return Response(status: .ok, body: .bytes(Array(String(request.body.count).utf8)))
            })
    }

    private final class Asked: Sendable {
        let count = Atomic<Int>(0)
        let handled = Atomic<Int>(0)
    }

    private func head(_ length: Int, _ fields: String = "") -> String {
        "POST /judged HTTP/1.1\r\n\(host)\(fields)Content-Length: \(length)\r\n\r\n"
    }

    /// Polls until the condition holds. Throws after a minute.
    private func eventually(_ holds: () -> Bool) async throws {
        let deadline = Deadline.inSeconds(60)
        while !holds() {
            if deadline.hasPassed { throw UnexpectedEnd() }
            await Task.yield()
        }
    }

    @Test func `without a credential the answer comes before the body`() async throws {
        let asked = Asked()
        try await withServer([Self.route(asked)]) { test in
            let client = try await test.connect()
            try await client.send(head(1 << 20))
            let answer = try await client.answer()
            #expect(answer.status == 401)
            #expect(answer.text == "who?")
            #expect(answer.fields.first("Connection") == "close")
            #expect(test.server.counts.bytesHeld == 0)

            let chunked = try await test.connect()
            try await chunked.send("POST /judged HTTP/1.1\r\n\(host)Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
            #expect(try await chunked.answer().status == 401)
            #expect(asked.handled.load(ordering: .relaxed) == 0)
        }
    }

    @Test func `who waits for 100 gets the refusal instead`() async throws {
        try await withServer([Self.route()]) { test in
            let client = try await test.connect()
            try await client.send(head(5, "Expect: 100-continue\r\n"))
            #expect(try await client.answer().status == 401)

            let welcome = try await test.connect()
            try await welcome.send(head(5, "Authorization: a\r\nExpect: 100-continue\r\n"))
            #expect(try await welcome.answer().status == 100)
            #expect(try await welcome.exchange("hello").text == "5")
        }
    }

    @Test func `a body that comes with its head is not asked about twice`() async throws {
        let asked = Asked()
        try await withServer([Self.route(asked)]) { test in
            let client = try await test.connect()
            for _ in 0..<3 { #expect(try await client.exchange(head(5, "Authorization: a\r\n") + "hello").text == "5") }
            #expect(asked.count.load(ordering: .relaxed) == 0)
            try await client.send(head(10, "Authorization: a\r\n") + "hello")
            try await eventually { asked.count.load(ordering: .relaxed) == 1 }
            for letter in ["w", "o", "r", "l"] { try await client.send(letter) }
            #expect(try await client.exchange("d").text == "10")
            #expect(asked.count.load(ordering: .relaxed) == 1)
        }
    }

    @Test func `one client's held bodies leave room for everybody else, and are counted by what they take`()
        async throws
    {
        // With a budget of 16 MiB, the server uses at most 2 MiB for one client. One body of 1 MiB and its input buffer
        // fit into 2 MiB, but two such bodies do not.
        try await withServer([Self.route()], .test.with(\.bufferedBytesMax, 16 << 20)) { test in
            let body = String(repeating: "a", count: (1 << 20) - 1)
            let holding = try await test.connect()
            try await holding.send(head(1 << 20, "Authorization: greedy\r\n"))
            try await holding.send(body)
            try await eventually { test.server.counts.bytesHeld > 1_000_000 }
            // An allocator may round the body's array of 1 MiB up to 1.25 MiB. The input buffer has at most two reads
            // of 64 KiB. The bound of 1.5 MiB shows that the array does not grow to twice the announced length.
            #expect(test.server.counts.bytesHeld <= 3 << 19)

            let second = try await test.connect()
            try await second.send(head(1 << 20, "Authorization: greedy\r\n"))
            try? await second.send(body)
            #expect(try await second.answer().status == 503)
            let other = try await test.connect()
            #expect(
                try await other.exchange(head(500_000, "Authorization: other\r\n") + body.prefix(500_000)).status == 200
            )

            #expect(try await holding.exchange("a").text == "1048576")
            try await eventually { test.server.counts.bytesHeld == 0 }
            #expect(try await holding.exchange(head(5, "Authorization: greedy\r\n") + "hello").text == "5")
        }
    }

    @Test func `time that bytes earn has an end`() async throws {
        let configuration = ServerConfiguration.test.with(\.bodyTimeoutMilliseconds, 100)
            .with(\.bodyBytesPerSecondMin, 1).with(\.bodyTimeMaxMilliseconds, 300)
        try await withServer([.echo], configuration) { test in
            let client = try await test.connect()
            let connection = client.connection
            try await client.send("POST /echo HTTP/1.1\r\n\(host)Content-Length: 1000\r\n\r\n")
            let dripping = Task {
                while true {
                    try await connection.write(Array("a".utf8))
                    try await connection.loop.sleep(until: .inMilliseconds(20))
                }
            }
            #expect(try await client.answer().status == 503)
            dripping.cancel()
            _ = await dripping.result
        }
    }

    @Test(.timeLimit(.minutes(1))) func `an answer does not wait for the judge of the next request`() async throws {
        let gate = Latch()
        let judged = Route(
            .post, "/judged",
            judge: { _ in
                await gate.wait()
                return .welcome(client: nil)
            },
            handler: { request in Response(status: .ok, body: .bytes(request.body)) })
        try await withServer([.hello, judged]) { test in
            let client = try await test.connect()
            try await client.send("GET /hello HTTP/1.1\r\n\(host)\r\n" + head(5))
            #expect(try await client.answer().text == "hello")
            gate.reach()
            #expect(try await client.exchange("world").text == "world")
        }
    }
}
