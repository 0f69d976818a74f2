// Operations for both listening and connecting sockets. Every socket is non-blocking and closed on exec.

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

enum Socket {
    static func open(family: Int32, _ syscalls: Syscalls) throws(TransportError) -> Int32 {
        let type = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
        let answer = Syscalls.retried { syscalls.socket(family, type) }
        if answer < 0 { throw .system(call: "socket", errno: Int32(clamping: -answer)) }
        return Int32(answer)
    }

    /// Turns Nagle's algorithm off. The algorithm would delay a response to wait for more bytes, but a response is
    /// written in one call. A failure is harmless and is ignored.
    static func setNoDelay(_ descriptor: Int32, _ endpoint: Endpoint, _ syscalls: Syscalls) {
        guard endpoint.family != AF_UNIX else { return }
        _ = syscalls.setOption(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, 1)
    }

    /// Returns a bound, listening socket. `sharesPort`: whether other sockets may bind the same port. The kernel then
    /// distributes connections among these sockets.
    static func listen(
        on endpoint: Endpoint, backlog: Int, sharesPort: Bool, _ syscalls: Syscalls
    ) throws(TransportError) -> Int32 {
        let descriptor = try open(family: endpoint.family, syscalls)
        do {
            if endpoint.family != AF_UNIX {
                try set(descriptor, SOL_SOCKET, SO_REUSEADDR, syscalls)
                if sharesPort { try set(descriptor, SOL_SOCKET, SO_REUSEPORT, syscalls) }
            }
            try check("bind", Syscalls.retried { endpoint.withPointer { syscalls.bind(descriptor, $0, $1) } })
            let backlog = Int32(clamping: max(1, backlog))
            try check("listen", Syscalls.retried { syscalls.listen(descriptor, backlog) })
        } catch {
            _ = syscalls.close(descriptor)
            throw error
        }
        return descriptor
    }

    static func localEndpoint(_ descriptor: Int32, _ syscalls: Syscalls) throws(TransportError) -> Endpoint {
        let (endpoint, answer) = Endpoint.filled { syscalls.localName(descriptor, $0, &$1) }
        try check("getsockname", answer)
        return endpoint
    }

    private static func set(
        _ descriptor: Int32, _ level: Int32, _ name: Int32, _ syscalls: Syscalls
    ) throws(TransportError) {
        try check("setsockopt", syscalls.setOption(descriptor, level, name, 1))
    }

    private static func check(_ call: String, _ answer: Int) throws(TransportError) {
        if answer < 0 { throw .system(call: call, errno: Int32(clamping: -answer)) }
    }
}
