// Binds an address and opens its listening descriptors.

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

struct Binding {
    /// The bound address, with the port that the system chose.
    var endpoint: Endpoint
    /// The listening descriptors. A TCP address has one descriptor for each loop. A Unix socket or an inherited socket
    /// has only one.
    var descriptors: [Int32]

    static func bind(
        _ endpoint: Endpoint, _ address: SocketAddress, loops: Int, backlog: Int, _ syscalls: Syscalls
    ) throws(TransportError) -> Binding {
        if case .unix(let path) = address { try removeStaleSocket(path, endpoint, syscalls) }
        if endpoint.port != 0 { try refuseSharing(endpoint, syscalls) }
        let count = endpoint.family == AF_UNIX ? 1 : loops
        var binding = Binding(endpoint: endpoint, descriptors: [])
        do throws(TransportError) {
            for _ in 0..<count {
                let descriptor = try Socket.listen(
                    on: binding.endpoint, backlog: backlog, sharesPort: count > 1, syscalls)
                binding.descriptors.append(descriptor)
                binding.endpoint = try Socket.localEndpoint(descriptor, syscalls)
            }
        } catch {
            for descriptor in binding.descriptors { _ = syscalls.close(descriptor) }
            throw error
        }
        return binding
    }

    /// Takes over an inherited listening socket. The first loop accepts connections for all loops. Throws `.system`
    /// with EINVAL if the socket is not listening.
    static func adopt(_ descriptor: Int32, _ syscalls: Syscalls) throws(TransportError) -> Binding {
        let owned = syscalls.makeOwn(descriptor)
        if owned < 0 { throw .system(call: "fcntl", errno: Int32(clamping: -owned)) }
        var listens: Int32 = 0
        let answer = syscalls.getOption(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens)
        if answer < 0 { throw .system(call: "getsockopt", errno: Int32(clamping: -answer)) }
        if listens == 0 { throw .system(call: "listen", errno: EINVAL) }
        return Binding(endpoint: try Socket.localEndpoint(descriptor, syscalls), descriptors: [descriptor])
    }

    func address(askedFor asked: SocketAddress) -> SocketAddress {
        switch asked {
        case .ip(let host, _): .ip(host: host, port: endpoint.port)
        case .unix: asked
        case .inherited:
            endpoint.family == AF_UNIX
                ? .unix(path: endpoint.unixPath) : .ip(host: endpoint.text, port: endpoint.port)
        }
    }

    /// Throws if another server listens on the port. To find out, binds a socket without SO_REUSEPORT, which fails in
    /// this case. With SO_REUSEPORT, both servers could bind the port, and each would silently get some of the
    /// connections.
    private static func refuseSharing(_ endpoint: Endpoint, _ syscalls: Syscalls) throws(TransportError) {
        let probe = try Socket.listen(on: endpoint, backlog: 1, sharesPort: false, syscalls)
        _ = syscalls.close(probe)
    }

    /// Removes the socket file that a killed server left at the path, because a bind fails if the path exists. Removes
    /// the file only if it is a socket that refuses connections. Any other file stays, and the bind fails.
    private static func removeStaleSocket(
        _ path: String, _ endpoint: Endpoint, _ syscalls: Syscalls
    ) throws(TransportError) {
        let mode = syscalls.fileMode(path)
        guard mode >= 0, mode & Int(S_IFMT) == Int(S_IFSOCK) else { return }
        let probe = try Socket.open(family: endpoint.family, syscalls)
        defer { _ = syscalls.close(probe) }
        let answer = endpoint.withPointer { syscalls.connect(probe, $0, $1) }
        if answer == Int(-ECONNREFUSED) { _ = syscalls.unlink(path) }
    }
}
