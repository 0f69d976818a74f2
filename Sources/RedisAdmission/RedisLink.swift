// One loop's way to Redis: keeps a connection up, and says whether there is one now.

internal import Engine
internal import Sockets
internal import Synchronization

final class RedisLink: Sendable {
    /// A connection that serves, as callers see it.
    struct Serving: Sendable {
        var pipeline: RedisPipeline
        var scriptDigest: String
    }

    let loop: EventLoop
    private let endpoint: RedisEndpoint
    private let timeoutMilliseconds: Int
    private let health: RedisHealth
    private let current = Mutex<Serving?>(nil)

    /// Between attempts while the breaker is closed, that is while another loop's connection serves: doubled from
    /// the first to the last.
    private static let delayMilliseconds: Int64 = 50
    private static let delayMillisecondsMax: Int64 = 2000
    /// A connection that lived so long was a good one: the next attempt comes at once.
    private static let goodLife = Duration.seconds(1)

    init(on loop: EventLoop, _ endpoint: RedisEndpoint, timeoutMilliseconds: Int, _ health: RedisHealth) {
        self.loop = loop
        self.endpoint = endpoint
        self.timeoutMilliseconds = timeoutMilliseconds
        self.health = health
    }

    /// nil while there is no connection that has proved itself.
    var serving: Serving? { current.withLock { $0 } }

    /// Connects, serves, and connects again, until the task is cancelled.
    func run() async {
        var badAttempts: Int64 = 0
        while !Task.isCancelled {
            if case .wait(let milliseconds) = health.turnToConnect() {
                await Self.sleep(milliseconds)
                continue
            }
            badAttempts = await connectAndServe() ? 0 : badAttempts + 1
            if badAttempts > 0 {
                let delay = min(Self.delayMilliseconds << min(badAttempts - 1, 10), Self.delayMillisecondsMax)
                await Self.sleep(Int64.random(in: delay / 2...delay))
            }
        }
    }

    /// True when the connection was a good one.
    private func connectAndServe() async -> Bool {
        do throws(RedisFailure) {
            let connection = try await RedisConnection.open(
                endpoint, on: loop, timeoutMilliseconds: timeoutMilliseconds)
            let begin = ContinuousClock.now
            await serve(connection)
            return ContinuousClock.now - begin >= Self.goodLife
        } catch {
            health.recordFailure(error)
            return false
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

    /// Returns early when the task is cancelled.
    private static func sleep(_ milliseconds: Int64) async {
        try? await Task.sleep(for: .milliseconds(milliseconds))
    }
}
