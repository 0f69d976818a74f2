// Tests everything that ends a wait: bytes, deadline, cancellation, close, drain, the peer's end of stream. Also tests
// that reads and writes of a connection are independent. All connections use real sockets.

import TestSupport
import Testing

@testable import Sockets

extension SocketsSuite {
    @Suite struct ReadinessWaiterTests {
        private func withPair(
            _ body: (_ client: Connection, _ server: Connection, _ listening: ListenerGroup) async throws -> Void
        ) async throws {
            let loops = try EventLoopGroup(count: 2)
            let keeper = Keeper()
            let listening = try await ListenerGroup.listen(
                on: .ip(host: "127.0.0.1", port: 0), loops: loops, handler: keeper)
            let client = try await Connection.connect(to: listening.address, on: loops.next(), until: .inSeconds(5))
            let server = await keeper.next()
            try await body(client, server, listening)
            client.close()
            keeper.letGo()
            await listening.drain(until: .inSeconds(5))
            await loops.shutdown()
        }

        @Test func `a read whose deadline passes throws timedOut, and the next read finds the bytes`() async throws {
            try await withPair { client, server, _ in
                let start = Deadline.now
                await #expect(throws: TransportError.timedOut) { try await client.read(until: .inMilliseconds(30)) }
                #expect(Deadline.now >= start.advanced(byMilliseconds: 30))
                try await server.write([1, 2, 3])
                #expect(try await client.read(until: .inSeconds(5)) == [1, 2, 3])
            }
        }

        @Test func `a write to a peer that does not read times out, by stall and by deadline`() async throws {
            try await withPair { client, server, _ in
                let much = [UInt8](repeating: 7, count: 64 << 20)
                await #expect(throws: TransportError.timedOut) {
                    try await client.write(much, stallTimeoutMilliseconds: 50)
                }
                await #expect(throws: TransportError.timedOut) {
                    try await client.write(much, until: .inMilliseconds(50))
                }
                server.close()
            }
        }

        @Test func `a cancelled task's read throws cancelled, and the connection lives`() async throws {
            try await withPair { client, server, _ in
                let reading = Task { try await client.read() }
                try await waiting(client)
                reading.cancel()
                await #expect(throws: TransportError.cancelled) { try await reading.value }
                try await server.write([9])
                #expect(try await client.read(until: .inSeconds(5)) == [9])
            }
        }

        @Test func `a task that is cancelled already does not wait`() async throws {
            try await withPair { client, _, _ in
                let reading = Task {
                    withUnsafeCurrentTask { $0?.cancel() }
                    return try await client.read()
                }
                await #expect(throws: TransportError.cancelled) { try await reading.value }
            }
        }

        @Test func `closing wakes reader and writer`() async throws {
            try await withPair { client, _, _ in
                let reading = Task { try await client.read() }
                let writing = Task { try await client.write([UInt8](repeating: 7, count: 64 << 20)) }
                try await waiting(client)
                client.close()
                await #expect(throws: TransportError.closed) { try await reading.value }
                await #expect(throws: TransportError.closed) { try await writing.value }
                await #expect(throws: TransportError.closed) { try await client.read() }
            }
        }

        @Test func `a second reader is refused, a writer beside the reader is not`() async throws {
            try await withPair { client, server, _ in
                let reading = Task { try await client.read() }
                try await waiting(client)
                await #expect(throws: TransportError.alreadyWaiting) { try await client.read() }
                try await client.write([1])
                #expect(try await server.read(until: .inSeconds(5)) == [1])
                try await server.write([2])
                #expect(try await reading.value == [2])
            }
        }

        @Test
        func `after a half-close the other direction works, and the end is read again and again`() async throws {
            try await withPair { client, server, _ in
                try await client.write([1, 2])
                client.shutdownWrite()
                #expect(try await server.read(count: 3, until: .inSeconds(5)) == [1, 2])
                #expect(try await server.read(until: .inSeconds(5)).isEmpty)
                #expect(try await server.read(until: .inSeconds(5)).isEmpty)
                try await server.write([3])
                #expect(try await client.read(until: .inSeconds(5)) == [3])
            }
        }

        @Test func `a drain ends the reads that asked for it`() async throws {
            try await withPair { client, server, listening in
                let reading = Task { try await server.read(endsOnDrain: true) }
                try await waiting(server)
                let draining = Task { await listening.drain(until: .inMilliseconds(200)) }
                await #expect(throws: TransportError.draining) { try await reading.value }
                // A read without `endsOnDrain` continues during the drain. At the drain's deadline, the connection is
                // closed and the read fails.
                try await client.write([5])
                #expect(try await server.read() == [5])
                await #expect(throws: TransportError.closed) { try await server.read() }
                #expect(await draining.value == 1)
            }
        }

        @Test func `sleep ends at its deadline or with its task`() async throws {
            let loops = try EventLoopGroup(count: 1)
            let start = Deadline.now
            try await loops.next().sleep(until: .inMilliseconds(20))
            #expect(Deadline.now >= start.advanced(byMilliseconds: 20))
            let sleeping = Task { try await loops.next().sleep(until: .inSeconds(60)) }
            sleeping.cancel()
            await #expect(throws: TransportError.cancelled) { try await sleeping.value }
            await loops.shutdown()
        }

        /// Returns when a task waits to read from the connection.
        private func waiting(_ connection: Connection) async throws {
            let deadline = Deadline.inSeconds(5)
            while await !connection.loop.run({ connection.hasReader }) {
                if deadline.hasPassed { throw TransportError.timedOut }
                await Task.yield()
            }
        }
    }
}
