// Metrics of the write transactions of all stores: requests per transaction, duration, and commit or failure.

package import CoreMetrics
package import MetricInstruments

extension MetricFamily {
    package static let commitSize = MetricFamily(
        "dwell_store_commit_requests", "Requests per transaction.", bounds: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512])
    package static let commitSeconds = MetricFamily(
        "dwell_store_commit_duration_seconds", "Duration of a write transaction, from BEGIN to the synced COMMIT.",
        bounds: durations)
    package static let commits = MetricFamily(
        "dwell_store_commits_total", "Write transactions.")
    package static let writesWaiting = MetricFamily(
        "dwell_store_writes_waiting", "Requests queued for the writer.")
}

package struct StoreMetrics: Sendable {
    private let size: any RecorderHandler
    private let duration: any TimerHandler
    private let committed: any CounterHandler
    private let failed: any CounterHandler

    package init(_ factory: any MetricsFactory) {
        size = factory.recorder(.commitSize)
        duration = factory.timer(.commitSeconds)
        committed = factory.counter(.commits, [("outcome", "committed")])
        failed = factory.counter(.commits, [("outcome", "failed")])
    }

    package func record(requests: Int, took: Duration, isCommitted: Bool) {
        size.record(Int64(requests))
        let (seconds, attoseconds) = took.components
        duration.recordNanoseconds(seconds &* 1_000_000_000 &+ attoseconds / 1_000_000_000)
        (isCommitted ? committed : failed).increment(by: 1)
    }
}
