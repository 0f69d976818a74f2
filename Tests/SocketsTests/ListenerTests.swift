// Tests of listening: limits, exhausted descriptors, stale socket files, a port in use, many connections, time slices.

import Synchronization
import TestSupport
import Testing

@testable import Sockets

#if canImport(Glibc)
    import Glibc
#endif

extension SocketsSuite {
    @Suite struct ListenerTests {
        private static let anyPort = SocketAddress.ip(host: "127.0.0.1", port: 0)

        @Test func `a handler runs on its connection's loop, and the loops share the work`() async throws {
            struct WhichLoop: ConnectionHandler {
                func serve(_ connection: Connection) async {
                    await Task.yield()
                    let isHome = EventLoop.current === connection.loop
                    try? await connection.write([isHome ? UInt8(connection.loop.index) : 255])
                }
            }
            let loops = try EventLoopGroup(count: 2)
            let path = "/tmp/dwell-loops-\(getpid()).sock"
            let listening = try await ListenerGroup.listen(on: .unix(path: path), loops: loops, handler: WhichLoop())
            var seen: [UInt8] = []
            for _ in 0..<4 {
                let client = try await Connection.connect(to: listening.address, on: loops.loops[0])
                seen += try await client.read(count: 1, until: .inSeconds(5))
                client.close()
            }
            #expect(seen.sorted() == [0, 0, 1, 1])
            await listening.drain(until: .inSeconds(5))
            await loops.shutdown()
            #expect(access(path, F_OK) != 0, "the socket's file was left behind")
        }

        @Test func `over the limit the handler is asked to turn away, and later there is room again`() async throws {
            struct Limited: ConnectionHandler {
                func serve(_ connection: Connection) async { await Echo().serve(connection) }
                func reject(_ connection: Connection, _ reason: RejectedConnection) async {
                    try? await connection.write(Array("\(reason)".utf8))
                }
            }
            let cases: [(ConnectionLimits, String)] = [
                (ConnectionLimits(connectionsMax: 1), "connectionsMax"),
                (ConnectionLimits(connectionsMax: 9, connectionsPerAddressMax: 1), "connectionsPerAddressMax"),
            ]
            for (limits, reason) in cases {
                let loops = try EventLoopGroup(count: 2)
                let listening = try await ListenerGroup.listen(
                    on: Self.anyPort, loops: loops, limits: limits, handler: Limited())
                let first = try await exchange(listening.address, loops)
                let second = try await Connection.connect(to: listening.address, on: loops.next())
                #expect(try await second.read(count: 99, until: .inSeconds(5)) == Array(reason.utf8))
                second.close()
                first.close()
                // The limit permits another connection only after the server has noticed the close of `first`.
                let deadline = Deadline.inSeconds(5)
                var admitted: Connection?
                while admitted == nil && !deadline.hasPassed {
                    admitted = try? await exchange(listening.address, loops)
                }
                #expect(admitted != nil)
                admitted?.close()
                #expect(await listening.drain(until: .inSeconds(5)) == 0)
                await loops.shutdown()
            }
        }

        /// Connects, sends one byte and reads it back.
        private func exchange(_ address: SocketAddress, _ loops: EventLoopGroup) async throws -> Connection {
            let client = try await Connection.connect(to: address, on: loops.next(), until: .inSeconds(5))
            do {
                try await client.write([42])
                guard try await client.read(until: .inSeconds(5)) == [42] else { throw TransportError.reset }
            } catch {
                client.close()
                throw error
            }
            return client
        }

        @Test(arguments: [EMFILE, ENFILE, ENOBUFS]) func `accepting recovers when descriptors come back`(
            errno: Int32
        ) async throws {
            let script = FaultScript(Fault(.accept, errno), at: 1, count: 7)
            let loops = try EventLoopGroup(count: 1, syscalls: script.syscalls)
            let listening = try await ListenerGroup.listen(on: Self.anyPort, loops: loops, handler: Echo())
            let deadline = Deadline.inSeconds(10)
            var client: Connection?
            while client == nil && !deadline.hasPassed { client = try? await exchange(listening.address, loops) }
            #expect(client != nil)
            client?.close()
            #expect(await listening.drain(until: .inSeconds(5)) == 0)
            await loops.shutdown()
            #expect(script.openDescriptors.isEmpty)
        }

        @Test func `who waits while there are no descriptors is served when they come back`() async throws {
            let script = FaultScript(Fault(.accept, EMFILE), at: 1, count: 3)
            let loops = try EventLoopGroup(count: 1, syscalls: script.syscalls)
            let listening = try await ListenerGroup.listen(on: Self.anyPort, loops: loops, handler: Echo())
            let client = try await exchange(listening.address, loops)
            #expect(script.wasReached)
            client.close()
            #expect(await listening.drain(until: .inSeconds(5)) == 0)
            await loops.shutdown()
        }

        @Test func `when they do not come back in good time, one after the other is turned away`() async throws {
            let script = FaultScript(Fault(.accept, EMFILE), at: 1, count: 1)
            let loops = try EventLoopGroup(count: 1, syscalls: script.syscalls)
            let loopback = try #require(
                try await Resolver.resolve(Self.anyPort, until: .inSeconds(5)).first)
            let descriptor = try Socket.listen(on: loopback, backlog: 8, sharesPort: false, script.syscalls)
            let port = try Socket.localEndpoint(descriptor, script.syscalls).port
            let listener = Listener(descriptor, on: loops.loops[0], backlogWaitMilliseconds: 0) { descriptor, _ in
                _ = script.syscalls.close(descriptor)
                Issue.record("it was accepted")
            }
            try await loops.loops[0].run { () throws(TransportError) in try listener.start() }
            let client = try await Connection.connect(to: .ip(host: "127.0.0.1", port: port), on: loops.next())
            #expect(try await client.read(until: .inSeconds(5)) == [])
            client.close()
            await loops.loops[0].run { listener.stop() }
            await loops.shutdown()
            #expect(script.openDescriptors.isEmpty)
        }

        @Test func `an address that never replies leaves time for the next one`() async throws {
            let loops = try EventLoopGroup(count: 1)
            let listening = try await ListenerGroup.listen(on: Self.anyPort, loops: loops, handler: Echo())
            let loopback = try #require(try Resolver.resolveNow(Self.anyPort))
            let descriptor = try Socket.listen(on: loopback, backlog: 1, sharesPort: false, .system)
            let silent = try Socket.localEndpoint(descriptor, .system)
            // No code accepts these connections, so they fill the socket's queue. The kernel then drops all further
            // attempts to connect.
            var queued: [Connection] = []
            while queued.count < 8,
                let client = try? await Connection.connect(
                    toOneOf: [silent], on: loops.next(), until: .inMilliseconds(200))
            {
                queued.append(client)
            }
            #expect(queued.count < 8)

            let good = try #require(try Resolver.resolveNow(listening.address))
            let client = try await Connection.connect(
                toOneOf: [silent, good], on: loops.next(), until: .inSeconds(2))
            try await client.write([42])
            #expect(try await client.read(until: .inSeconds(5)) == [42])
            for connection in queued + [client] { connection.close() }
            #expect(await listening.drain(until: .inSeconds(5)) == 0)
            await loops.shutdown()
            close(descriptor)
        }

        @Test func `a taken port is refused although the loops share theirs`() async throws {
            let loops = try EventLoopGroup(count: 2)
            let listening = try await ListenerGroup.listen(on: Self.anyPort, loops: loops, handler: Echo())
            await #expect(throws: TransportError.system(call: "bind", errno: EADDRINUSE)) {
                _ = try await ListenerGroup.listen(on: listening.address, loops: loops, handler: Echo())
            }
            await listening.drain(until: .inSeconds(5))
            await loops.shutdown()
        }

        @Test func `groups that share a limiter share its limits, and drain each for itself`() async throws {
            let loops = try EventLoopGroup(count: 2)
            let limiter = ConnectionLimiter(ConnectionLimits(connectionsMax: 2))
            let one = try await ListenerGroup.listen(on: Self.anyPort, loops: loops, limiter: limiter, handler: Echo())
            let other = try await ListenerGroup.listen(
                on: Self.anyPort, loops: loops, limiter: limiter, handler: Echo())
            let first = try await exchange(one.address, loops)
            let second = try await exchange(other.address, loops)
            await #expect(throws: (any Error).self) { try await exchange(other.address, loops) }
            first.close()
            #expect(await one.drain(until: .inSeconds(5)) == 0, "the other group's connection is none of its business")
            second.close()
            #expect(await other.drain(until: .inSeconds(5)) == 0)
            await loops.shutdown()
        }

        @Test func `an inherited socket is served, and outlives who served it with all that waits`() async throws {
            let loops = try EventLoopGroup(count: 2)
            let loopback = try #require(try await Resolver.resolve(Self.anyPort, until: .inSeconds(5)).first)
            let opened = try Socket.listen(on: loopback, backlog: 8, sharesPort: false, .system)
            let port = try Socket.localEndpoint(opened, .system).port
            // Another process would hand over a blocking socket that is also open under a second descriptor.
            _ = fcntl(opened, F_SETFL, 0)
            for _ in 0..<2 {
                let listening = try await ListenerGroup.listen(
                    on: .inherited(descriptor: dup(opened)), loops: loops, handler: Echo())
                #expect(listening.address == .ip(host: "127.0.0.1", port: port))
                let client = try await exchange(listening.address, loops)
                client.close()
                #expect(await listening.drain(until: .inSeconds(5)) == 0)
            }
            // No listener exists now, so this client waits in the kernel's backlog. The listener below serves it.
            let waiting = try await Connection.connect(to: .ip(host: "127.0.0.1", port: port), on: loops.next())
            try await waiting.write([7])
            let listening = try await ListenerGroup.listen(
                on: .inherited(descriptor: opened), loops: loops, handler: Echo())
            #expect(try await waiting.read(until: .inSeconds(5)) == [7])
            waiting.close()
            #expect(await listening.drain(until: .inSeconds(5)) == 0)
            await loops.shutdown()
        }

        @Test func `an inherited socket that is shut down is tried a few times a second`() async throws {
            let attempts = Atomic<Int>(0)
            var syscalls = Syscalls.system
            syscalls.accept = { descriptor, address, length in
                attempts.wrappingAdd(1, ordering: .relaxed)
                return Syscalls.system.accept(descriptor, address, &length)
            }
            let loops = try EventLoopGroup(count: 1, syscalls: syscalls)
            let loopback = try #require(try await Resolver.resolve(Self.anyPort, until: .inSeconds(5)).first)
            let opened = try Socket.listen(on: loopback, backlog: 8, sharesPort: false, .system)
            defer { close(opened) }
            let listening = try await ListenerGroup.listen(
                on: .inherited(descriptor: dup(opened)), loops: loops, handler: Echo())
            #expect(shutdown(opened, Int32(SHUT_RD)) == 0)
            try await Task.sleep(for: .milliseconds(350))
            // With pauses, the loop makes about four attempts in 350 ms. If a busy machine delays the end of the sleep,
            // it makes more. Without pauses, it makes many thousands.
            let count = attempts.load(ordering: .relaxed)
            #expect((1...100).contains(count))
            // The socket listens again. The kernel may have chosen another port.
            #expect(listen(opened, 8) == 0)
            let port = try Socket.localEndpoint(opened, .system).port
            let client = try await exchange(.ip(host: "127.0.0.1", port: port), loops)
            client.close()
            #expect(await listening.drain(until: .inSeconds(5)) == 0)
            await loops.shutdown()
        }

        @Test func `an inherited descriptor that does not listen is refused`() async throws {
            let loops = try EventLoopGroup(count: 1)
            let descriptor = try Socket.open(family: AF_INET, .system)
            defer { close(descriptor) }
            await #expect(throws: TransportError.system(call: "listen", errno: EINVAL)) {
                _ = try await ListenerGroup.listen(
                    on: .inherited(descriptor: descriptor), loops: loops, handler: Echo())
            }
            await #expect(throws: TransportError.system(call: "fcntl", errno: EBADF)) {
                _ = try await ListenerGroup.listen(on: .inherited(descriptor: 9999), loops: loops, handler: Echo())
            }
            await loops.shutdown()
        }

        @Test func `a stale socket file is replaced, a live one and a plain file are not`() async throws {
            let loops = try EventLoopGroup(count: 1)
            let path = "/tmp/dwell-stale-\(getpid()).sock"
            let endpoint = try #require(Endpoint(unixPath: path))
            close(try Socket.listen(on: endpoint, backlog: 1, sharesPort: false, .system))
            let listening = try await ListenerGroup.listen(on: .unix(path: path), loops: loops, handler: Echo())
            try await exchange(listening.address, loops).close()
            await #expect(throws: TransportError.system(call: "bind", errno: EADDRINUSE)) {
                _ = try await ListenerGroup.listen(on: .unix(path: path), loops: loops, handler: Echo())
            }
            await listening.drain(until: .inSeconds(5))

            close(open(path, O_CREAT | O_WRONLY, 0o600))
            await #expect(throws: TransportError.system(call: "bind", errno: EADDRINUSE)) {
                _ = try await ListenerGroup.listen(on: .unix(path: path), loops: loops, handler: Echo())
            }
            #expect(access(path, F_OK) == 0)
            unlink(path)
            await loops.shutdown()
        }

        /// A listener removes the socket's file before it closes the socket. Otherwise, another server could create its
        /// own file between the two steps, and the listener would remove that file.
        @Test func `the socket still listens when its file is removed`() async throws {
            let path = "/tmp/dwell-removed-\(getpid()).sock"
            let endpoint = try #require(Endpoint(unixPath: path))
            let answer = Mutex<Int?>(nil)
            var syscalls = Syscalls.system
            syscalls.unlink = { path in
                if let client = try? Socket.open(family: AF_UNIX, .system) {
                    let connected = endpoint.withPointer { Syscalls.system.connect(client, $0, $1) }
                    answer.withLock { $0 = connected }
                    close(client)
                }
                return Syscalls.system.unlink(path)
            }
            let loops = try EventLoopGroup(count: 1, syscalls: syscalls)
            let listening = try await ListenerGroup.listen(on: .unix(path: path), loops: loops, handler: Echo())
            await listening.drain(until: .inSeconds(5))
            await loops.shutdown()
            let connected = answer.withLock { $0 }
            #expect(connected == 0)
        }

        @Test(arguments: ["", String(repeating: "x", count: 108)])
        func `an impossible path is refused`(path: String) async throws {
            let loops = try EventLoopGroup(count: 1)
            await #expect(throws: TransportError.unresolvable) {
                _ = try await ListenerGroup.listen(on: .unix(path: path), loops: loops, handler: Echo())
            }
            await loops.shutdown()
        }

        @Test func `four hundred connections talk at once, and none is left`() async throws {
            let script = FaultScript(Fault(.send, EPIPE), at: .max - 1)
            let loops = try EventLoopGroup(count: 2, syscalls: script.syscalls)
            let listening = try await ListenerGroup.listen(on: Self.anyPort, loops: loops, handler: Echo())
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<400 {
                    group.addTask {
                        let client = try await Connection.connect(to: listening.address, on: loops.next())
                        defer { client.close() }
                        for turn in 0..<10 {
                            let bytes = [UInt8](repeating: UInt8(turn), count: 1 + number * 100)
                            async let written: Void = client.write(bytes, until: .inSeconds(20))
                            let answer = try await client.read(count: bytes.count, until: .inSeconds(20))
                            try await written
                            #expect(answer == bytes)
                        }
                    }
                }
                try await group.waitForAll()
            }
            #expect(await listening.drain(until: .inSeconds(5)) == 0)
            await loops.shutdown()
            #expect(script.openDescriptors.isEmpty)
            #expect(script.closedTwice.isEmpty)
        }

        @Test func `a connection that never stops sending leaves the others their turn`() async throws {
            let loops = try EventLoopGroup(count: 1)
            let clients = try EventLoopGroup(count: 1)
            let listening = try await ListenerGroup.listen(on: Self.anyPort, loops: loops, handler: Sink())
            let flood = try await Connection.connect(to: listening.address, on: clients.next())
            let flooding = Task {
                let bytes = [UInt8](repeating: 0, count: 1 << 20)
                while true { try await flood.write(bytes) }
            }
            for _ in 0..<20 {
                let client = try await Connection.connect(to: listening.address, on: clients.next())
                try await client.write([1])
                client.shutdownWrite()
                #expect(try await client.read(until: .inSeconds(5)) == [1])
                client.close()
            }
            flooding.cancel()
            _ = await flooding.result
            flood.close()
            #expect(await listening.drain(until: .inSeconds(5)) == 0)
            await loops.shutdown()
            await clients.shutdown()
        }
    }
}

private struct Sink: ConnectionHandler {
    func serve(_ connection: Connection) async {
        do {
            while try await connection.read({ $0.count }) > 0 {}
            try await connection.write([1])
        } catch {}
    }
}
