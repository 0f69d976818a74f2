// Tests with clients that go away. If a TCP client resets its connection, or a client of the Unix socket closes its
// connection, the handler's task is cancelled.
//
// A client that has closed only its sending side still gets its response. The handler of a streamed response is told
// when its client resets, closes or half-closes the connection.

import Synchronization
import Testing

@testable import HTTP1
@testable import HTTPServer
@testable import Sockets

#if canImport(Glibc)
    import Glibc
#endif

@Suite(.timeLimit(.minutes(1))) struct GoneClientTests {
    /// A handler that waits for an hour or until its task is cancelled.
    private struct Waiting: Sendable {
        private let begun = AsyncStream<Void>.makeStream()
        private let ended = AsyncStream<Bool>.makeStream()

        func wait() async {
            begun.continuation.yield()
            ended.continuation.yield((try? await Task.sleep(for: .seconds(3600))) == nil)
        }

        func hasBegun() async { for await _ in begun.stream { break } }

        /// Waits until the handler has ended. Returns whether it was cancelled.
        func wasCancelled() async -> Bool {
            for await wasCancelled in ended.stream { return wasCancelled }
            return false
        }

        var route: Route {
            Route(.get, "/wait") { [self] _ in
                await wait()
                return Response(status: .ok)
            }
        }

        var stream: Route {
            Route(.get, "/stream") { [self] _ in
                Response(
                    status: .ok,
                    body: .stream { writer in
                        try await writer.write([1])
                        await wait()
                    })
            }
        }
    }

    private static let unix = SocketAddress.unix(path: "/tmp/dwell-gone-\(getpid()).sock")

    /// Runs the body with a server on TCP and on a Unix socket. If a client on the given event loops closes its
    /// connection, the connection is reset.
    private func withBoth(
        _ routes: [Route], _ body: (TestServer, EventLoopGroup) async throws -> Void
    ) async throws {
        var configuration = ServerConfiguration.test
        configuration.addresses.append(Self.unix)
        let clients = try EventLoopGroup(count: 1, syscalls: .resetting)
        try await withServer(routes, configuration) { try await body($0, clients) }
        await clients.shutdown()
    }

    @Test(arguments: ["/wait", "/stream"])
    func `a reset cancels the handler's task, and only that`(path: String) async throws {
        let waiting = Waiting()
        try await withBoth([waiting.route, waiting.stream, .hello]) { test, clients in
            for address in test.addresses {
                let client = try await RawClient(address, clients)
                let other = try await test.connect()
                try await client.send("GET \(path) HTTP/1.1\r\n\(host)\r\n")
                await waiting.hasBegun()
                client.connection.close()
                #expect(await waiting.wasCancelled(), "\(address)")
                #expect(try await other.exchange("GET /hello HTTP/1.1\r\n\(host)\r\n").status == 200)
            }
        }
    }

    @Test func `a client that half-closes is answered, and its handler not disturbed`() async throws {
        let (started, starts) = AsyncStream<Void>.makeStream()
        let gate = Latch()
        let wasCancelled = Atomic<Bool>(true)
        let route = Route(.get, "/slow") { _ in
            starts.yield()
            await gate.wait()
            wasCancelled.store(Task.isCancelled, ordering: .relaxed)
            return Response(status: .ok, body: .bytes([UInt8](repeating: 7, count: 300_000)))
        }
        try await withServer([route, .hello]) { test in
            let client = try await test.connect()
            try await client.send("GET /slow HTTP/1.1\r\n\(host)\r\nGET /hello HTTP/1.1\r\n\(host)\r\n")
            for await _ in started { break }
            client.connection.shutdownWrite()
            // When the server answers `other`, it has already noticed that `client` closed its sending side. If it
            // cancelled the handler's task for this reason, it would have done so by then.
            let other = try await test.connect()
            _ = try await other.exchange("GET /hello HTTP/1.1\r\n\(host)\r\n")
            gate.reach()
            #expect(try await client.answer().body.count == 300_000)
            #expect(try await client.answer().text == "hello")
            #expect(try await client.isAtEnd())
            let cancelled = wasCancelled.load(ordering: .relaxed)
            #expect(!cancelled)
        }
    }

    @Test func `a drain that has waited long enough cancels what still waits`() async throws {
        let waiting = Waiting()
        try await withServer([waiting.route]) { test in
            let client = try await test.connect()
            try await client.send("GET /wait HTTP/1.1\r\n\(host)\r\n")
            await waiting.hasBegun()
            await test.server.drain(withinSeconds: 0)
            #expect(await waiting.wasCancelled())
        }
    }

    @Test func `a client that takes nothing ends a stream that waits for something else`() async throws {
        let waiting = Waiting()
        let route = Route(.get, "/stalled") { _ in
            Response(
                status: .ok,
                body: .stream { writer in
                    let writing = Task {
                        while true { try await writer.write([UInt8](repeating: 0, count: 1 << 16)) }
                    }
                    await waiting.wait()
                    _ = await writing.result
                })
        }
        try await withServer([route], .test.with(\.writeStallMilliseconds, 200)) { test in
            let client = try await test.connect()
            try await client.send("GET /stalled HTTP/1.1\r\n\(host)\r\n")
            #expect(await waiting.wasCancelled())
        }
    }

    @Test(arguments: [true, false])
    func `a stream is told when its client ends its side, before or after it began`(before: Bool) async throws {
        let (told, tells) = AsyncStream<Void>.makeStream()
        let route = Route(.get, "/stream") { _ in
            Response(
                status: .ok,
                body: .stream { writer in
                    try await writer.write(Array("one".utf8))
                    writer.whenClientEndsSending { tells.yield() }
                    for await _ in told { break }
                    try await writer.write(Array("two".utf8))
                })
        }
        try await withServer([route]) { test in
            let client = try await test.connect()
            try await client.send("GET /stream HTTP/1.1\r\n\(host)\r\n")
            if before { client.connection.shutdownWrite() }
            _ = try await client.begins()
            if !before { client.connection.shutdownWrite() }
            #expect(try await client.answer().text == "onetwo")
        }
    }

    /// When a stream ends, the closure that it registered with `whenClientEndsSending` must be released. Otherwise the
    /// stream would still count against the driver's limit of streams.
    @Test func `a stream that ended holds nothing of what it was told with`() async throws {
        let (released, releases) = AsyncStream<Void>.makeStream()
        final class Place: Sendable {
            let release: @Sendable () -> Void
            init(_ release: @escaping @Sendable () -> Void) { self.release = release }
            deinit { release() }
        }
        let waiting = Waiting()
        let route = Route(.get, "/stream") { _ in
            let place = Place { releases.yield() }
            return Response(
                status: .ok,
                body: .stream { writer in
                    writer.whenClientEndsSending { withExtendedLifetime(place) {} }
                    try await writer.write([1])
                    await waiting.wait()
                })
        }
        try await withBoth([route]) { test, clients in
            for address in test.addresses {
                let client = try await RawClient(address, clients)
                try await client.send("GET /stream HTTP/1.1\r\n\(host)\r\n")
                await waiting.hasBegun()
                client.connection.close()
                for await _ in released { break }
            }
        }
    }
}

extension Syscalls {
    /// System calls with a `close` that sets the linger time to 0. With this linger time, Linux resets the connection
    /// (the ABORT call of RFC 9293).
    fileprivate static let resetting: Syscalls = {
        var calls = Syscalls.system
        calls.close = { descriptor in
            var option = linger(l_onoff: 1, l_linger: 0)
            setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
            return Syscalls.system.close(descriptor)
        }
        return calls
    }()
}
