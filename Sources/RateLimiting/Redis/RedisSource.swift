// The servers to which the links of a node connect: those in the URL, the sentinels' primary, or one node of a cluster.

internal import Sockets

enum RedisSource: Sendable {
    /// The servers that the URL names. If there are several, they must be nodes of a cluster.
    case servers
    case sentinels(RedisSentinels)
    /// `probeTag` returns a hash tag whose slot belongs to the node; nil if the node has no slot.
    case clusterNode(SocketAddress, probeTag: @Sendable () -> String?)

    init(_ endpoint: RedisEndpoint) {
        self =
            if let sentinel = endpoint.sentinel { .sentinels(RedisSentinels(endpoint, sentinel)) } else {
                .servers
            }
    }

    /// Opens a connection. With `.servers`, tries the servers in order until one works, but throws `isCluster` as soon
    /// as one is a node of a cluster. If no connection can be opened, throws the failure of the last attempt.
    func open(
        _ endpoint: RedisEndpoint, on loop: EventLoop, timeoutMilliseconds: Int
    ) async throws(RedisFailure) -> RedisConnection {
        func connect(_ address: SocketAddress, _ kind: RedisTarget.Kind) async throws(RedisFailure) -> RedisConnection {
            try await RedisConnection.open(
                RedisTarget(address: address, kind: kind), endpoint, on: loop, timeoutMilliseconds: timeoutMilliseconds)
        }
        switch self {
        case .servers:
            var last = RedisFailure.connection
            for address in endpoint.servers {
                do throws(RedisFailure) {
                    return try await connect(address, .named(isOneOfSeveral: endpoint.servers.count > 1))
                } catch {
                    if error == .isCluster { throw error }
                    last = error
                }
            }
            throw last
        case .sentinels(let sentinels):
            let (address, sentinel) = try await sentinels.primary(on: loop)
            do throws(RedisFailure) {
                return try await connect(address, .primary)
            } catch {
                sentinels.askAnother(than: sentinel)
                throw error
            }
        case .clusterNode(let address, let probeTag):
            return try await connect(address, .clusterNode(probeTag: probeTag()))
        }
    }
}
