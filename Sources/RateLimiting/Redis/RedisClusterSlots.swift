// Asks the nodes of a cluster which primary has which slot. Each question uses a new connection, because the
// connections for requests do not accept such a long reply.

internal import Sockets

enum RedisClusterSlots {
    /// Asks the servers in turn, until one replies with at least one slot. Throws the failure of the last server.
    static func fetch(
        from servers: [SocketAddress], _ endpoint: RedisEndpoint, on loop: EventLoop
    ) async throws(RedisFailure) -> RedisSlotMap {
        var last = RedisFailure.connection
        for server in servers {
            do throws(RedisFailure) {
                let map = try await fetch(from: server, endpoint, on: loop)
                // A node that has not joined a cluster yet knows no slots.
                if !map.primaries.isEmpty { return map }
                last = .unexpectedReply
            } catch {
                last = error
            }
        }
        throw last
    }

    private static func fetch(
        from server: SocketAddress, _ endpoint: RedisEndpoint, on loop: EventLoop
    ) async throws(RedisFailure) -> RedisSlotMap {
        let deadline = Deadline.inMilliseconds(RedisConnection.greetingTimeoutMilliseconds)
        let stream = try await RedisStream.connect(to: server, endpoint, on: loop, until: deadline)
        defer { stream.close() }
        var commands = RedisConnection.authentication(endpoint)
        commands.append(["CLUSTER", "SLOTS"])
        let replies = try await RedisConnection.converse(stream, commands, .slots, until: deadline)
        guard case .ip(let host, _) = server, let reply = replies.last,
            let map = RedisSlotMap(reply, askedHost: host)
        else { throw .unexpectedReply }
        return map
    }
}
