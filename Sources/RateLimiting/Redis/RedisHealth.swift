// The state that all connections of a process share about their Redis: whether to call it, and how it has
// responded.

internal import Logging
internal import Synchronization

/// The circuit breaker behind a lock, with counts and a log line for each change of state. When it opens, every
/// active pipeline is ended, so that no request waits on Redis and the probes of new connections determine its
/// state.
final class RedisHealth: Sendable {
    private let breaker = Mutex(CircuitBreaker())
    private let pipelines = Mutex<[ObjectIdentifier: RedisPipeline]>([:])
    private let logger: Logger
    private let now: @Sendable () -> Int64

    let decisionsByRedis = Atomic<Int>(0)
    let decisionsInProcess = Atomic<Int>(0)
    let decisionsCorrected = Atomic<Int>(0)
    let timeouts = Atomic<Int>(0)
    let errorReplies = Atomic<Int>(0)

    init(logger: Logger, now: @escaping @Sendable () -> Int64) {
        self.logger = logger
        self.now = now
    }

    var state: CircuitBreaker.State { breaker.withLock(\.state) }

    var permitsRequests: Bool { breaker.withLock(\.permitsRequests) }

    /// A request got a valid reply. A late one does not close the breaker: only probes do.
    func recordSuccess() {
        breaker.withLock { if $0.permitsRequests { $0.recordSuccess() } }
    }

    /// A call, a probe or a connection with calls on it failed.
    func recordFailure(_ failure: RedisFailure) {
        switch failure {
        case .timedOut: timeouts.add(1, ordering: .relaxed)
        case .errorReply: errorReplies.add(1, ordering: .relaxed)
        case .connection, .unexpectedReply: break
        }
        let time = now()
        let chance = Double.random(in: 0..<1)
        let (opened, wasClosed) = breaker.withLock { breaker in
            let wasClosed = breaker.state == .closed
            return (breaker.recordFailure(at: time, chance: chance), wasClosed)
        }
        if opened && wasClosed {
            logger.warning("Redis unavailable; rate limiting in process", metadata: ["reason": "\(failure)"])
        }
        if opened { for pipeline in pipelines.withLock({ $0.values.map(\.self) }) { pipeline.end() } }
    }

    /// A new connection passed its probe.
    func recordProbeSuccess() {
        let closed = breaker.withLock { breaker in
            // While closed, only successful requests reset the count of consecutive failures: a Redis that serves
            // probes and nothing else must still open the breaker.
            guard breaker.state != .closed else { return false }
            breaker.recordSuccess()
            return true
        }
        if closed { logger.notice("Redis available again") }
    }

    var connections: Int { pipelines.withLock(\.count) }

    func register(_ pipeline: RedisPipeline) {
        pipelines.withLock { $0[ObjectIdentifier(pipeline)] = pipeline }
    }

    func unregister(_ pipeline: RedisPipeline) {
        pipelines.withLock { $0[ObjectIdentifier(pipeline)] = nil }
    }

    enum Turn: Sendable {
        /// Connect now.
        case now
        case wait(milliseconds: Int64)
    }

    /// Whether a closed connection may reconnect now. While the breaker is not closed, returns `.now` to one caller
    /// only, which must record the result.
    func turnToConnect() -> Turn {
        let time = now()
        return breaker.withLock { breaker in
            if breaker.permitsRequests || breaker.startProbe(at: time) { return .now }
            // Another one is probing: check again soon.
            return .wait(milliseconds: max(breaker.probeDelayMilliseconds(at: time) ?? 0, 20))
        }
    }
}
