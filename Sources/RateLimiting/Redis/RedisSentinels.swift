// Asks Redis Sentinel for the address of a primary (redis.io/docs/reference/sentinel-clients).

internal import Sockets
internal import Synchronization

final class RedisSentinels: Sendable {
    /// The URL, whose servers are the sentinels.
    private let endpoint: RedisEndpoint
    private let sentinel: RedisEndpoint.Sentinel
    /// The index of the sentinel to ask first. `primary(on:)` sets it to the sentinel that answered, and `askAnother`
    /// to the sentinel after that one.
    private let first = Atomic<Int>(0)

    /// How long one sentinel may take to answer. Client requests do not wait for the answer.
    private static let timeoutMilliseconds = 500

    init(_ endpoint: RedisEndpoint, _ sentinel: RedisEndpoint.Sentinel) {
        self.endpoint = endpoint
        self.sentinel = sentinel
    }

    /// Asks the sentinels in turn until one of them names the primary. Returns the primary's address and this
    /// sentinel's index.
    func primary(on loop: EventLoop) async throws(RedisFailure) -> (address: SocketAddress, sentinel: Int) {
        let start = first.load(ordering: .relaxed)
        var last = RedisFailure.connection
        let servers = endpoint.servers
        for offset in servers.indices {
            let index = (start + offset) % servers.count
            do throws(RedisFailure) {
                let address = try await primary(from: servers[index], on: loop)
                first.store(index, ordering: .relaxed)
                return (address, index)
            } catch {
                last = error
            }
        }
        throw last
    }

    /// Makes `primary(on:)` ask another sentinel first. Must be called when the primary that the sentinel at the index
    /// `sentinel` named could not be used. For example, a sentinel that is cut off from the others keeps naming the old
    /// primary after a promotion.
    func askAnother(than sentinel: Int) {
        // Several links may report the same sentinel. Only the first report changes `first`.
        _ = first.compareExchange(
            expected: sentinel, desired: (sentinel + 1) % endpoint.servers.count, ordering: .relaxed)
    }

    private func primary(
        from server: SocketAddress, on loop: EventLoop
    ) async throws(RedisFailure) -> SocketAddress {
        let deadline = Deadline.inMilliseconds(Self.timeoutMilliseconds)
        let stream = try await RedisStream.connect(to: server, endpoint, on: loop, until: deadline)
        defer { stream.close() }
        var commands = RedisCommands()
        if let password = sentinel.password { commands.append(["AUTH", password]) }
        commands.append(["SENTINEL", "GET-MASTER-ADDR-BY-NAME", sentinel.primaryName])
        let replies = try await RedisConnection.converse(stream, commands, until: deadline)
        return try Self.address(replies.last ?? .null)
    }

    /// Parses a reply, which has the host and the port as strings. The reply is null if the sentinel knows no primary
    /// with the requested name.
    static func address(_ reply: RedisReply) throws(RedisFailure) -> SocketAddress {
        if reply == .null { throw .unknownPrimary }
        guard case .array(let elements) = reply, elements.count == 2, case .string(let host) = elements[0],
            case .string(let portText) = elements[1], RedisEndpoint.isHost(host),
            let port = RedisEndpoint.decimal(portText[...]), (1...65535).contains(port)
        else { throw .unexpectedReply }
        return .ip(host: host, port: port)
    }
}
