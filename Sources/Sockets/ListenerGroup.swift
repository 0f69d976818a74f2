// Listens on one address, spreads the connections over all loops, and registers the open connections.

internal import Synchronization

/// A function that serves one connection, on the connection's loop. It must set `Connection.whenChanged`. It must call
/// `whenOver` once, on the loop, when the connection is closed and none of its tasks runs any more.
///
/// The second argument is nil if the connection is within the limits. If it names an exceeded limit, the function must
/// reject the connection and close it within a few seconds.
package typealias ConnectionServing =
    @Sendable (Connection, RejectedConnection?, _ whenOver: @escaping @Sendable () -> Void) -> Void

/// The listeners of one address. For TCP, every loop has a listener on the same port (SO_REUSEPORT), and the kernel
/// distributes the connections. A Unix socket has one listener, which gives connections to the loops in rotation.
package final class ListenerGroup: Sendable {
    /// The address at which the group listens. If port 0 was requested, it has the port that the kernel chose. An
    /// inherited socket has the address to which it is bound.
    package let address: SocketAddress

    private let loops: EventLoopGroup
    private let serve: ConnectionServing
    /// The limiter that counts the connections. Other groups may share it.
    private let limiter: ConnectionLimiter
    /// The number of this group's open connections, including those that are being rejected.
    private let openCount = Atomic<Int>(0)
    /// Whether another process opened the listening socket and keeps it open.
    private let isInherited: Bool
    /// One registry per loop, at the loop's index.
    private let registries: [ConnectionRegistry]
    private let listeners = Mutex<[(Listener, EventLoop)]>([])
    private let acceptingEnded = Atomic<Bool>(false)
    private let allClosed = Latch()

    /// The time that a rejected client has to read its response.
    private static let rejectionTimeoutMilliseconds = 2_000

    private init(
        _ address: SocketAddress, isInherited: Bool, _ loops: EventLoopGroup, _ limiter: ConnectionLimiter,
        _ serve: @escaping ConnectionServing
    ) {
        self.address = address
        self.isInherited = isInherited
        self.loops = loops
        self.serve = serve
        self.limiter = limiter
        registries = loops.loops.map { ConnectionRegistry($0) }
    }

    // MARK: - Listening

    /// Binds, listens, and serves until `drain`. Other groups may share `limiter`. `backlog` is the maximum number of
    /// connections that the kernel queues per listener; the kernel's own maximum caps it.
    ///
    /// Throws if the address is in use (`.system` with EADDRINUSE) or belongs to another machine. Also throws if the
    /// process has no permission to bind the address.
    package static func listen(
        on address: SocketAddress, loops: EventLoopGroup, limiter: ConnectionLimiter, backlog: Int = 4096,
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
            binding.address(askedFor: address), isInherited: isInherited, loops, limiter, serve)
        try await group.start(binding.descriptors)
        return group
    }

    /// Binds, listens, and serves until `drain`. The limits apply to this group alone.
    package static func listen(
        on address: SocketAddress, loops: EventLoopGroup, limits: ConnectionLimits = ConnectionLimits(),
        backlog: Int = 4096, serve: @escaping ConnectionServing
    ) async throws(TransportError) -> ListenerGroup {
        try await listen(
            on: address, loops: loops, limiter: ConnectionLimiter(limits), backlog: backlog, serve: serve)
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
        // The socket's file must be removed before the socket is closed. As soon as the socket is closed, another
        // server may put its own file at this path. This server must not remove that file.
        if case .unix(let path) = address, !isInherited, !listeners.isEmpty { _ = loops.loops[0].syscalls.unlink(path) }
        for (listener, loop) in listeners { await loop.run { listener.stop() } }
    }

    // MARK: - Serving

    /// Handles an accepted connection. Must be called on the listener's loop.
    private func accepted(_ descriptor: Int32, _ endpoint: Endpoint, on loop: EventLoop) {
        let admission = limiter.enter(endpoint)
        if admission == .closedUnanswered {
            _ = loop.syscalls.close(descriptor)
            return
        }
        openCount.add(1, ordering: .relaxed)
        Socket.setNoDelay(descriptor, endpoint, loop.syscalls)
        let connection = Connection(descriptor, on: loop, remoteAddress: endpoint.text)
        loop.execute { self.begin(connection, endpoint, admission) }
    }

    /// Registers the connection, and serves or rejects it. Must be called on the connection's loop.
    private func begin(_ connection: Connection, _ endpoint: Endpoint, _ admission: ConnectionLimiter.Admission) {
        // If the kernel has no memory for the registration, the connection is closed without a response.
        guard (try? connection.register()) != nil else {
            connection.close()
            return leave(endpoint, admission)
        }
        let registry = registries[connection.loop.index]
        registry.insert(connection)
        guard case .rejected(let reason) = admission else {
            return serve(connection, nil) { [self] in
                registry.remove(connection)
                leave(endpoint, admission)
            }
        }
        let timer = LoopTimer { connection.close() }
        connection.loop.start(timer, .inMilliseconds(ListenerGroup.rejectionTimeoutMilliseconds))
        serve(connection, reason) { [self] in
            connection.loop.remove(timer)
            registry.remove(connection)
            leave(endpoint, admission)
        }
    }

    private var isEmpty: Bool { openCount.load(ordering: .sequentiallyConsistent) == 0 }

    private func leave(_ endpoint: Endpoint, _ admission: ConnectionLimiter.Admission) {
        limiter.leave(endpoint, admission)
        let left = openCount.subtract(1, ordering: .sequentiallyConsistent).newValue
        if left == 0 && acceptingEnded.load(ordering: .sequentiallyConsistent) { allClosed.reach() }
    }

    // MARK: - The end

    /// Marks the connections as draining (`Connection.isDraining`), stops listening, and waits until all connections
    /// are closed. At the deadline, closes the connections that are still open, even if a handler still runs, and
    /// returns their number.
    ///
    /// The open connections are marked before listening stops. When the kernel refuses a new client, all open
    /// connections are therefore already draining. `ConnectionRegistry.insert` marks the connections that are accepted
    /// in between.
    @discardableResult
    package func drain(until deadline: Deadline) async -> Int {
        for registry in registries { await registry.loop.run { registry.beginDrain() } }
        await stopListening()
        acceptingEnded.store(true, ordering: .sequentiallyConsistent)
        if isEmpty { allClosed.reach() }
        let limit = Task {
            try? await loops.loops[0].sleep(until: deadline)
            allClosed.reach()
        }
        await allClosed.wait()
        limit.cancel()
        let left = openCount.load(ordering: .sequentiallyConsistent)
        for registry in registries { await registry.loop.run { registry.closeAll() } }
        return left
    }
}
