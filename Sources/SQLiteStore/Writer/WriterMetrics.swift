// The writer's metrics: how many requests share a commit, how long it takes, and how it ends.

import CoreMetrics
import Telemetry

struct WriterMetrics: Sendable {
    private let size: any RecorderHandler
    private let duration: any TimerHandler
    private let committed: any CounterHandler
    private let failed: any CounterHandler

    init(_ factory: any MetricsFactory) {
        size = factory.recorder(MetricFamilies.commitSize)
        duration = factory.timer(MetricFamilies.commitSeconds)
        committed = factory.counter(MetricFamilies.commits, [("outcome", "committed")])
        failed = factory.counter(MetricFamilies.commits, [("outcome", "failed")])
    }

    func record(requests: Int, took: Duration, isCommitted: Bool) {
        size.record(Int64(requests))
        let (seconds, attoseconds) = took.components
        duration.recordNanoseconds(seconds &* 1_000_000_000 &+ attoseconds / 1_000_000_000)
        (isCommitted ? committed : failed).increment(by: 1)
    }
}
