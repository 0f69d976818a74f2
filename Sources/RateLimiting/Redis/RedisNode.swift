// A Redis server that makes rate limit decisions: its connections, one per event loop, and its circuit breaker. A
// single Redis is one node, and so is the primary behind sentinels. A cluster has one node for each primary.

internal import Sockets
internal import Synchronization

final class RedisNode: Sendable {
    /// The host of the node if it belongs to a cluster; nil otherwise.
    let clusterHost: String?
    let health: RedisHealth
    /// Whether sentinels say which server is the primary.
    private let hasSentinels: Bool
    /// One link per loop, at the loop's index.
    private let links: [RedisLink]
    private let turn = Atomic<Int>(0)

    init(
        _ source: RedisSource, _ endpoint: RedisEndpoint, loops: EventLoopGroup, timeoutMilliseconds: Int,
        _ health: RedisHealth
    ) {
        (clusterHost, hasSentinels) =
            switch source {
            case .servers: (nil, false)
            case .sentinels: (nil, true)
            case .clusterNode(.ip(let host, _), _): (host, false)
            case .clusterNode: ("", false)
            }
        self.health = health
        links = loops.loops.map {
            RedisLink(on: $0, source, endpoint, timeoutMilliseconds: timeoutMilliseconds, health)
        }
    }

    /// Keeps one connection per loop until the task is cancelled. Returns true at once if the server turns out to be a
    /// node of a cluster.
    func run() async -> Bool {
        await withTaskGroup(of: Bool.self) { group in
            for link in links { group.addTask(executorPreference: link.loop) { await link.run() } }
            let isCluster = await group.next() ?? false
            group.cancelAll()
            return isCluster
        }
    }

    /// Returns a working connection, preferably that of the current loop. Returns nil if no connection works, or if the
    /// breaker is not closed.
    func serving() -> RedisLink.Serving? {
        guard health.permitsRequests else { return nil }
        if let loop = EventLoop.current, links.indices.contains(loop.index), links[loop.index].loop === loop,
            let serving = links[loop.index].serving
        {
            return serving
        }
        let start = UInt(bitPattern: turn.wrappingAdd(1, ordering: .relaxed).oldValue)
        for offset in links.indices {
            let index = Int((start &+ UInt(offset)) % UInt(links.count))
            if let serving = links[index].serving { return serving }
        }
        return nil
    }

    /// Records an error reply to a request.
    func recordError(_ text: String, _ serving: RedisLink.Serving) {
        health.recordFailure(RedisFailure(errorText: text))
        // The server has become a replica. Ending the pipeline closes the connection, and the link asks the sentinels
        // for the new primary.
        if hasSentinels && text.hasPrefix("READONLY") { serving.pipeline.end() }
    }
}
