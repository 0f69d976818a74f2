// The metrics of `RedisRateLimiter`: its connections, the number of decisions by each limiter, and the failures.

package import CoreMetrics
import MetricInstruments

extension MetricFamily {
    static let redisDecisions = MetricFamily(
        "dwell_redis_decisions_total", "Rate limit decisions by limiter; corrected: the process overrode Redis.")
    static let redisFailures = MetricFamily(
        "dwell_redis_failures_total", "Redis calls that timed out or returned an error.")
    static let redisConnections = MetricFamily(
        "dwell_redis_connections", "Usable connections to Redis.")
    static let redisNodes = MetricFamily(
        "dwell_redis_nodes", "Redis servers that decide (of a cluster, the primaries with slots), by connection.")
    static let redisBreaker = MetricFamily(
        "dwell_redis_breaker_state",
        "1 for the circuit breaker's state, 0 for the others; of a cluster, the state of a breaker that is not closed.")
}

extension RedisRateLimiter {
    /// Returns a function that copies `status` to metrics of `factory` whenever it is called.
    package func sampler(_ factory: any MetricsFactory) -> @Sendable () -> Void {
        let connections = factory.gauge(.redisConnections)
        let connected = factory.gauge(.redisNodes, [("state", "connected")])
        let lost = factory.gauge(.redisNodes, [("state", "lost")])
        let states = [CircuitBreaker.State.closed, .open, .halfOpen].map {
            ($0, factory.gauge(.redisBreaker, [("state", $0.rawValue)]))
        }
        let decisions = ["redis", "process", "corrected"].map {
            SampledCounter(.redisDecisions, [("by", $0)], factory: factory)
        }
        let timeouts = SampledCounter(.redisFailures, [("reason", "timeout")], factory: factory)
        let errors = SampledCounter(.redisFailures, [("reason", "error_reply")], factory: factory)
        return {
            let status = self.status
            connections.set(Int64(status.connections))
            connected.set(Int64(status.nodesConnected))
            lost.set(Int64(status.nodes - status.nodesConnected))
            for (state, gauge) in states { gauge.set(Int64(state == status.breaker ? 1 : 0)) }
            let counts = [status.decisionsByRedis, status.decisionsInProcess, status.decisionsCorrected]
            for (counter, count) in zip(decisions, counts) { counter.sample(count) }
            timeouts.sample(status.timeouts)
            errors.sample(status.errorReplies)
        }
    }
}
