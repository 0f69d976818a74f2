// Resolves configured addresses (`SocketAddress`) to addresses of the system (`Endpoint`). Numeric addresses and paths
// are converted at once. For names, getaddrinfo is called on a limited number of other threads, because it blocks.

internal import Dispatch
internal import Synchronization

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

enum Resolver {
    /// The maximum number of running lookups. A lookup that hangs occupies a thread until getaddrinfo gives up.
    private static let lookupsMax = 8
    private static let lookups = Mutex(Lookups())
    private static let queue = DispatchQueue(label: "dwell.resolver", attributes: .concurrent)

    private struct Lookup: Sendable {
        var host: String
        var port: Int
        let outcome = Outcome()
    }

    private struct Lookups {
        var running = 0
        /// The lookups that wait for a running lookup to end, in the order of their start.
        var waiting: [Lookup] = []

        /// Returns whether the lookup can run now. If not, adds it to `waiting`.
        mutating func starts(_ lookup: Lookup) -> Bool {
            if running < Resolver.lookupsMax {
                running += 1
                return true
            }
            waiting.removeAll { $0.outcome.isSettled }
            waiting.append(lookup)
            return false
        }

        /// Called when a lookup has ended. Returns the lookup that takes its place, or nil if none waits.
        mutating func next() -> Lookup? {
            waiting.removeAll { $0.outcome.isSettled }
            if waiting.isEmpty {
                running -= 1
                return nil
            }
            return waiting.removeFirst()
        }
    }

    /// Returns the endpoint of a numeric address or of a path. Returns nil for a name, which needs a lookup.
    static func resolveNow(_ address: SocketAddress) throws(TransportError) -> Endpoint? {
        switch address {
        case .inherited: throw .unresolvable
        case .unix(let path):
            guard let endpoint = Endpoint(unixPath: path) else { throw .unresolvable }
            return endpoint
        case .ip(let host, let port):
            guard (0...65535).contains(port) else { throw .unresolvable }
            return lookUp(host, port, AI_NUMERICHOST).first
        }
    }

    /// Returns one or more addresses, in the order in which to try them. While `lookupsMax` lookups run, a new lookup
    /// waits. Throws `.timedOut` at the deadline, although the lookup may continue.
    static func resolve(_ address: SocketAddress, until deadline: Deadline) async throws(TransportError) -> [Endpoint] {
        if let endpoint = try resolveNow(address) { return [endpoint] }
        guard case .ip(let host, let port) = address else { throw .unresolvable }
        let lookup = Lookup(host: host, port: port)
        let outcome = lookup.outcome
        if lookups.withLock({ $0.starts(lookup) }) { start(lookup) }
        if deadline != .never {
            let limit = DispatchTime.now() + .milliseconds(deadline.remainingMilliseconds)
            queue.asyncAfter(deadline: limit) { outcome.settle(.failure(.timedOut)) }
        }
        let endpoints = try await withTaskCancellationHandler {
            await outcome.value()
        } onCancel: {
            outcome.settle(.failure(.cancelled))
        }.get()
        if endpoints.isEmpty { throw .unresolvable }
        return endpoints
    }

    private static func start(_ lookup: Lookup) {
        queue.async {
            lookup.outcome.settle(.success(lookUp(lookup.host, lookup.port, 0)))
            if let next = lookups.withLock({ $0.next() }) { start(next) }
        }
    }

    private static func lookUp(_ host: String, _ port: Int, _ flags: Int32) -> [Endpoint] {
        if host.isEmpty || host.utf8.contains(0) { return [] }
        var hints = addrinfo()
        hints.ai_flags = flags
        hints.ai_family = AF_UNSPEC
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(host, nil, &hints, &list) == 0 else { return [] }
        defer { freeaddrinfo(list) }
        var endpoints: [Endpoint] = []
        var next = list
        while let entry = next, endpoints.count < 16 {
            if let address = entry.pointee.ai_addr {
                var endpoint = Endpoint(copying: address, length: entry.pointee.ai_addrlen)
                endpoint.setPort(port)
                endpoints.append(endpoint)
            }
            next = entry.pointee.ai_next
        }
        return endpoints
    }

    /// The outcome of a lookup: its result, the deadline or a cancellation, whichever comes first.
    private final class Outcome: Sendable {
        typealias Value = Result<[Endpoint], TransportError>
        private struct State {
            var value: Value?
            var waiting: UnsafeContinuation<Value, Never>?
        }
        private let state = Mutex(State())

        var isSettled: Bool { state.withLock { $0.value != nil } }

        func settle(_ value: Value) {
            let waiting = state.withLock { state -> UnsafeContinuation<Value, Never>? in
                if state.value != nil { return nil }
                state.value = value
                return state.waiting
            }
            waiting?.resume(returning: value)
        }

        func value() async -> Value {
            await withUnsafeContinuation { continuation in
                let value = state.withLock { state in
                    if state.value == nil { state.waiting = continuation }
                    return state.value
                }
                if let value { continuation.resume(returning: value) }
            }
        }
    }
}
