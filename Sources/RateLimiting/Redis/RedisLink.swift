// The connection of one event loop to one node. A link reconnects when the connection is lost, and provides a working
// connection to callers.

internal import Sockets
internal import Synchronization

final class RedisLink: Sendable {
    /// A working connection, as callers see it.
    struct Serving: Sendable {
        var pipeline: RedisPipeline
        var scriptDigest: String
    }

    let loop: EventLoop
    private let source: RedisSource
    private let endpoint: RedisEndpoint
    private let timeoutMilliseconds: Int
    private let health: RedisHealth
    private let current = Mutex<Serving?>(nil)

    /// The upper bound of the random delay, in milliseconds, after a failed attempt to connect. Each further failure in
    /// a row doubles the bound, up to `delayMillisecondsMax`. While the breaker is not closed, the link also waits
    /// until a probe is due.
    private static let delayMilliseconds: Int64 = 50
    private static let delayMillisecondsMax: Int64 = 2000
    /// If a connection lasted at least this long, the link reconnects without a delay.
    private static let stableDuration = Duration.seconds(1)

    init(
        on loop: EventLoop, _ source: RedisSource, _ endpoint: RedisEndpoint, timeoutMilliseconds: Int,
        _ health: RedisHealth
    ) {
        self.loop = loop
        self.source = source
        self.endpoint = endpoint
        self.timeoutMilliseconds = timeoutMilliseconds
        self.health = health
    }

    /// The working connection; nil while no connection has passed its probe.
    var serving: Serving? { current.withLock { $0 } }

    /// Keeps the link connected until the task is cancelled. Returns true as soon as the server turns out to be a node
    /// of a cluster.
    func run() async -> Bool {
        var badAttempts: Int64 = 0
        while !Task.isCancelled {
            if case .wait(let milliseconds) = health.claimReconnect() {
                await Self.sleep(milliseconds)
                continue
            }
            switch await connectAndServe() {
            case .isCluster: return true
            case .wasStable: badAttempts = 0
            case .failed: badAttempts += 1
            }
            if badAttempts > 0 {
                let delay = min(Self.delayMilliseconds << min(badAttempts - 1, 10), Self.delayMillisecondsMax)
                await Self.sleep(Int64.random(in: delay / 2...delay))
            }
        }
        return false
    }

    private enum Outcome {
        /// The connection lasted for at least `stableDuration`.
        case wasStable
        case failed
        case isCluster
    }

    private func connectAndServe() async -> Outcome {
        do throws(RedisFailure) {
            let connection = try await source.open(endpoint, on: loop, timeoutMilliseconds: timeoutMilliseconds)
            let begin = ContinuousClock.now
            await serve(connection)
            return ContinuousClock.now - begin >= Self.stableDuration ? .wasStable : .failed
        } catch {
            if error == .isCluster { return .isCluster }
            health.recordFailure(error)
            return .failed
        }
    }

    private func serve(_ connection: RedisConnection) async {
        let pipeline = RedisPipeline()
        health.register(pipeline)
        health.recordProbeSuccess()
        current.withLock { $0 = Serving(pipeline: pipeline, scriptDigest: connection.scriptDigest) }
        let failure = await connection.serve(pipeline) { [health] in health.recordFailure($0) }
        current.withLock { $0 = nil }
        health.unregister(pipeline)
        if let failure { health.recordFailure(failure) }
    }

    /// Waits for that time. Returns early if the task is cancelled.
    private static func sleep(_ milliseconds: Int64) async {
        try? await Task.sleep(for: .milliseconds(milliseconds))
    }
}
