// Where a connection to Redis leads: to a server of the URL, to the primary that the sentinels name, or to a cluster
// node.

internal import Sockets

enum RedisSource: Sendable {
    /// The servers of the URL. If there are several, they must be nodes of a cluster.
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

    /// Opens a connection. For `.servers`, tries the servers in the URL's order until one works. Throws `isCluster` as
    /// soon as a server is a cluster node. If all servers fail, throws the failure of the last server tried.
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
