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

    /// Opens a connection to the first server that works. Throws `isCluster` as soon as a server is a node of a
    /// cluster, otherwise the failure of the last server.
    func open(
        _ endpoint: RedisEndpoint, on loop: EventLoop, timeoutMilliseconds: Int
    ) async throws(RedisFailure) -> RedisConnection {
        switch self {
        case .servers:
            let kind = RedisTarget.Kind.named(isOneOfSeveral: endpoint.servers.count > 1)
            return try await Self.open(
                endpoint.servers.map { RedisTarget(address: $0, kind: kind) }, endpoint, on: loop,
                timeoutMilliseconds: timeoutMilliseconds)
        case .sentinels(let sentinels):
            let (address, sentinel) = try await sentinels.primary(on: loop)
            do throws(RedisFailure) {
                return try await RedisConnection.open(
                    RedisTarget(address: address, kind: .primary), endpoint, on: loop,
                    timeoutMilliseconds: timeoutMilliseconds)
            } catch {
                sentinels.askAnother(than: sentinel)
                throw error
            }
        case .clusterNode(let address, let probeTag):
            return try await RedisConnection.open(
                RedisTarget(address: address, kind: .clusterNode(probeTag: probeTag())), endpoint, on: loop,
                timeoutMilliseconds: timeoutMilliseconds)
        }
    }

    private static func open(
        _ targets: [RedisTarget], _ endpoint: RedisEndpoint, on loop: EventLoop, timeoutMilliseconds: Int
    ) async throws(RedisFailure) -> RedisConnection {
        var last = RedisFailure.connection
        for target in targets {
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
