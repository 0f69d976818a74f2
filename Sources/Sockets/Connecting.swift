// Outgoing connections.

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

extension Connection {
    /// Connects to the first of the name's IP addresses that accepts the connection. `deadline` limits the name lookup
    /// and all attempts together. If no address accepts, throws the error of the last attempt.
    package static func connect(
        to address: SocketAddress, on loop: EventLoop, until deadline: Deadline = .never
    ) async throws(TransportError) -> Connection {
        try await connect(toOneOf: Resolver.resolve(address, until: deadline), on: loop, until: deadline)
    }

    /// Tries the addresses in order. Each attempt gets an equal share of the remaining time: the time divided by the
    /// number of addresses not yet tried. An address that never replies therefore cannot use up the whole time.
    static func connect(
        toOneOf endpoints: [Endpoint], on loop: EventLoop, until deadline: Deadline
    ) async throws(TransportError) -> Connection {
        try await withTaskExecutorPreference(loop) { () async throws(TransportError) -> Connection in
            var last = TransportError.unresolvable
            for (index, endpoint) in endpoints.enumerated() {
                do throws(TransportError) {
                    return try await connect(
                        to: endpoint, on: loop, until: deadline.share(of: endpoints.count - index))
                } catch {
                    if error == .cancelled { throw error }
                    last = error
                }
            }
            throw last
        }
    }

    private static func connect(
        to endpoint: Endpoint, on loop: EventLoop, until deadline: Deadline
    ) async throws(TransportError) -> Connection {
        let syscalls = loop.syscalls
        let descriptor = try Socket.open(family: endpoint.family, syscalls)
        Socket.setNoDelay(descriptor, endpoint, syscalls)
        let connection = Connection(descriptor, on: loop, remoteAddress: endpoint.text)
        do {
            try await connection.start(descriptor, endpoint, until: deadline)
        } catch {
            connection.close()
            throw error
        }
        return connection
    }

    private func start(
        _ descriptor: Int32, _ endpoint: Endpoint, until deadline: Deadline
    ) async throws(TransportError) {
        // After EINTR, the call must not be repeated: the kernel continues the attempt, as after EINPROGRESS
        // (connect(2)).
        let answer = endpoint.withPointer { loop.syscalls.connect(descriptor, $0, $1) }
        try register()
        if answer >= 0 { return }
        guard answer == Int(-EINPROGRESS) || answer == Int(-EINTR) else {
            throw .system(call: "connect", errno: Int32(clamping: -answer))
        }
        try await waitWritable(until: deadline)
        var errno: Int32 = 0
        _ = loop.syscalls.getOption(descriptor, SOL_SOCKET, SO_ERROR, &errno)
        if errno != 0 { throw .system(call: "connect", errno: errno) }
    }
}
