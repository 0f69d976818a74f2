// The health of one Redis server, as seen by all of this process's connections to it. `RedisHealth` decides whether the
// server may be called, and counts the server's failures.

internal import Logging
internal import Synchronization

/// The circuit breaker behind a lock. Logs one line when the server becomes unavailable and one line when it is
/// available again.
///
/// When the breaker opens, all pipelines end, so no request waits for the server any more. The breaker closes when the
/// probe of a new connection succeeds.
final class RedisHealth: Sendable {
    private let breaker = Mutex(CircuitBreaker())
    private let pipelines = Mutex<[ObjectIdentifier: RedisPipeline]>([:])
    private let logger: Logger
    private let now: @Sendable () -> Int64
    private let counts: RedisCounts
    /// Called after a failure or a redirect, because the node's slots may have moved. Nil if the server is not a node
    /// of a cluster.
    private let slotsMayHaveMoved: (@Sendable () -> Void)?

    init(
        logger: Logger, counts: RedisCounts, now: @escaping @Sendable () -> Int64,
        slotsMayHaveMoved: (@Sendable () -> Void)? = nil
    ) {
        self.logger = logger
        self.counts = counts
        self.now = now
        self.slotsMayHaveMoved = slotsMayHaveMoved
    }

    var state: CircuitBreaker.State { breaker.withLock(\.state) }

    var permitsRequests: Bool { breaker.withLock(\.permitsRequests) }

    /// Records that a request got a valid reply. Does nothing while the breaker is open or half-open, because a late
    /// reply must not close the breaker. Only a successful probe closes it.
    func recordSuccess() {
        breaker.withLock { if $0.permitsRequests { $0.recordSuccess() } }
    }

    /// Records the failure of a call, of a probe, or of a connection with waiting calls. A redirect within the cluster
    /// counts as a failure only for a probe, that is, while the breaker is half-open.
    func recordFailure(_ failure: RedisFailure) {
        slotsMayHaveMoved?()
        let isRedirect = slotsMayHaveMoved != nil && failure.isRedirect
        switch failure {
        case .timedOut: counts.timeouts.add(1, ordering: .relaxed)
        case .errorReply where !isRedirect: counts.errorReplies.add(1, ordering: .relaxed)
        default: break
        }
        let time = now()
        let chance = Double.random(in: 0..<1)
        let (opened, wasClosed) = breaker.withLock { breaker -> (Bool, Bool) in
            // Only the redirect of a probe counts as a failure, and opens the breaker again. A redirected probe proves
            // nothing, because Redis redirects a command before it checks whether writes are permitted. The next probe
            // uses a slot that the node has at that time.
            if isRedirect && breaker.state != .halfOpen { return (false, false) }
            let wasClosed = breaker.state == .closed
            return (breaker.recordFailure(at: time, chance: chance), wasClosed)
        }
        if opened && wasClosed {
            logger.warning("Redis unavailable; rate limiting in process", metadata: ["reason": "\(failure)"])
        }
        if opened { for pipeline in pipelines.withLock({ $0.values.map(\.self) }) { pipeline.end() } }
    }

    /// Records that a new connection passed its probe.
    func recordProbeSuccess() {
        let closed = breaker.withLock { breaker in
            // While the breaker is closed, a successful probe must not reset the count of failures. If it did, the
            // breaker would never open for a Redis that answers only the probes.
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

    enum Reconnect: Sendable {
        /// Connect now.
        case now
        case wait(milliseconds: Int64)
    }

    /// Returns whether a link may connect now, or how long it must wait before it asks again. While the breaker is open
    /// or half-open, only one link may connect. The connection of this link is the probe, so the link must record the
    /// result.
    func claimReconnect() -> Reconnect {
        let time = now()
        return breaker.withLock { breaker in
            if breaker.permitsRequests || breaker.startProbe(at: time) { return .now }
            // The probe is not due, or another connection is the probe.
            return .wait(milliseconds: max(breaker.probeDelayMilliseconds(at: time) ?? 0, 20))
        }
    }
}
