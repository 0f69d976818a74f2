// Listening on one address with all loops, and the connections that came of it, until they are drained.

internal import Synchronization

/// Serves one connection, on its loop: sets `Connection.whenChanged`, and calls the closure once, on the loop, when the
/// connection is closed and nothing works for it any more. With a reason it is over a limit: it is told so and closed, at
/// latest after a few seconds.
package typealias ConnectionServing =
    @Sendable (Connection, RejectedConnection?, _ whenOver: @escaping @Sendable () -> Void) -> Void

/// For TCP every loop has a listener of its own on the same port (SO_REUSEPORT), and the kernel spreads connections
/// over them. For a Unix socket SO_REUSEPORT does not spread: one listener, whose connections go round the loops.
package final class ListenerGroup: Sendable {
    /// As asked for, with the port that the kernel chose when it was asked for any.
    package let address: SocketAddress

    private let loops: EventLoopGroup
    private let serve: ConnectionServing
    /// Perhaps shared with other groups.
    private let census: ConnectionLimiter
    /// Of this group, those that are turned away included.
    private let openCount = Atomic<Int>(0)
    /// Another process opened the socket, and keeps it.
    private let isInherited: Bool
    /// One for each loop, at the loop's index.
    private let registries: [ConnectionRegistry]
    private let listeners = Mutex<[(Listener, EventLoop)]>([])
    private let acceptingEnded = Atomic<Bool>(false)
    private let everyoneLeft = Latch()

    /// A client that is turned away has so long to take its answer.
    private static let turnAwayMilliseconds = 2_000

    private init(
        _ address: SocketAddress, isInherited: Bool, _ loops: EventLoopGroup, _ census: ConnectionLimiter,
        _ serve: @escaping ConnectionServing
    ) {
        self.address = address
        self.isInherited = isInherited
        self.loops = loops
        self.serve = serve
        self.census = census
        registries = loops.loops.map { ConnectionRegistry($0) }
    }

    // MARK: - Listening

    /// Binds, listens, and serves until `drain`. `census`: who counts the connections; shared by groups whose limits
    /// are meant for all of them. `backlog`: connections that the kernel holds ready, per listener; it clamps the number
    /// to its own maximum. Throws when the address cannot be had: taken (`.system` with EADDRINUSE), not of this
    /// machine, not permitted.
    package static func listen(
        on address: SocketAddress, loops: EventLoopGroup, census: ConnectionLimiter, backlog: Int = 4096,
        serve: @escaping ConnectionServing
    ) async throws(TransportError) -> ListenerGroup {
        let syscalls = loops.loops[0].syscalls
        let binding: Binding
        var isInherited = false
        if case .inherited(let descriptor) = address {
            binding = try Binding.adopt(descriptor, syscalls)
            isInherited = true
        } else {
            guard let endpoint = try await Resolver.resolve(address, until: .never).first else { throw .unresolvable }
            binding = try Binding.bind(endpoint, address, loops: loops.loops.count, backlog: backlog, syscalls)
        }
        let group = ListenerGroup(
            binding.address(askedFor: address), isInherited: isInherited, loops, census, serve)
        try await group.start(binding.descriptors)
        return group
    }

    /// The same with limits of its own.
    package static func listen(
        on address: SocketAddress, loops: EventLoopGroup, limits: ConnectionLimits = ConnectionLimits(),
        backlog: Int = 4096, serve: @escaping ConnectionServing
    ) async throws(TransportError) -> ListenerGroup {
        try await listen(
            on: address, loops: loops, census: ConnectionLimiter(limits), backlog: backlog, serve: serve)
    }

    private func start(_ descriptors: [Int32]) async throws(TransportError) {
        let spreads = descriptors.count == 1
        let listeners = zip(descriptors, loops.loops).map { descriptor, loop in
            let listener = Listener(descriptor, on: loop, isShared: isInherited) { [self] descriptor, endpoint in
                accepted(descriptor, endpoint, on: spreads ? loops.next() : loop)
            }
            return (listener, loop)
        }
        self.listeners.withLock { $0 = listeners }
        do throws(TransportError) {
            for (listener, loop) in listeners {
                try await loop.run { () throws(TransportError) in try listener.start() }
            }
        } catch {
            await stopListening()
            throw error
        }
    }

    private func stopListening() async {
        let listeners = listeners.withLock { listeners in
            defer { listeners = [] }
            return listeners
        }
        for (listener, loop) in listeners { await loop.run { listener.stop() } }
        if case .unix(let path) = address, !isInherited, !listeners.isEmpty { _ = loops.loops[0].syscalls.unlink(path) }
    }

    // MARK: - Serving

    /// Takes the descriptor over. On the listener's loop.
    private func accepted(_ descriptor: Int32, _ endpoint: Endpoint, on loop: EventLoop) {
        let admission = census.enter(endpoint)
        if admission == .closedUnanswered {
            _ = loop.syscalls.close(descriptor)
            return
        }
        openCount.add(1, ordering: .relaxed)
        Socket.setNoDelay(descriptor, endpoint, loop.syscalls)
        let connection = Connection(descriptor, on: loop, remoteAddress: endpoint.text)
        loop.execute { self.begin(connection, endpoint, admission) }
    }

    /// On the connection's loop.
    private func begin(_ connection: Connection, _ endpoint: Endpoint, _ admission: ConnectionLimiter.Admission) {
        // Out of memory for one more registration: the connection cannot be told, only closed.
        guard (try? connection.register()) != nil else {
            connection.close()
            return leave(endpoint, admission)
        }
        let registry = registries[connection.loop.index]
        registry.insert(connection)
        guard case .turnedAway(let reason) = admission else {
            return serve(connection, nil) { [self] in
                registry.remove(connection)
                leave(endpoint, admission)
            }
        }
        let timer = LoopTimer { connection.close() }
        connection.loop.start(timer, .inMilliseconds(ListenerGroup.turnAwayMilliseconds))
        serve(connection, reason) { [self] in
            connection.loop.remove(timer)
            registry.remove(connection)
            leave(endpoint, admission)
        }
    }

    private var isEmpty: Bool { openCount.load(ordering: .sequentiallyConsistent) == 0 }

    private func leave(_ endpoint: Endpoint, _ admission: ConnectionLimiter.Admission) {
        census.leave(endpoint, admission)
        let left = openCount.subtract(1, ordering: .sequentiallyConsistent).newValue
        if left == 0 && acceptingEnded.load(ordering: .sequentiallyConsistent) { everyoneLeft.reach() }
    }

    // MARK: - The end

    /// Lets the connections come to an end (`Connection.isDraining`), stops listening, and closes those that are left at
    /// the deadline. Returns how many were left. Handlers that still run then find their connection closed.
    ///
    /// The connections are told first, so a refused client can rely on the others knowing. One that is let in
    /// between the two is told as it comes (`ConnectionRegistry.insert`).
    @discardableResult
    package func drain(until deadline: Deadline) async -> Int {
        for registry in registries { await registry.loop.run { registry.beginDrain() } }
        await stopListening()
        acceptingEnded.store(true, ordering: .sequentiallyConsistent)
        if isEmpty { everyoneLeft.reach() }
        let limit = Task {
            try? await loops.loops[0].sleep(until: deadline)
            everyoneLeft.reach()
        }
        await everyoneLeft.wait()
        limit.cancel()
        let left = openCount.load(ordering: .sequentiallyConsistent)
        for registry in registries { await registry.loop.run { registry.closeAll() } }
        return left
    }
}
