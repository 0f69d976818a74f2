// The servers to which the links of a node connect: those in the URL, the primary that the sentinels name, or one node
// of a cluster.

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

    /// Returns the servers to try, in this order. The first that works is used.
    func targets(_ endpoint: RedisEndpoint, on loop: EventLoop) async throws(RedisFailure) -> [RedisTarget] {
        switch self {
        case .servers:
            let isOneOfSeveral = endpoint.servers.count > 1
            return endpoint.servers.map { RedisTarget(address: $0, kind: .named(isOneOfSeveral: isOneOfSeveral)) }
        case .sentinels(let sentinels):
            return [RedisTarget(address: try await sentinels.primary(on: loop), kind: .primary)]
        case .clusterNode(let address, let probeTag):
            return [RedisTarget(address: address, kind: .clusterNode(probeTag: probeTag()))]
        }
    }

    /// Opens a connection to the first server that works. Throws `isCluster` as soon as a server is a node of a
    /// cluster, otherwise the failure of the last server.
    func open(
        _ endpoint: RedisEndpoint, on loop: EventLoop, timeoutMilliseconds: Int
    ) async throws(RedisFailure) -> RedisConnection {
        var last = RedisFailure.connection
        for target in try await targets(endpoint, on: loop) {
            do throws(RedisFailure) {
                return try await RedisConnection.open(
                    target, endpoint, on: loop, timeoutMilliseconds: timeoutMilliseconds)
            } catch {
                if error == .isCluster { throw error }
                last = error
            }
        }
        throw last
    }
}
