// Metrics that are read rather than counted: sizes, states, the operating system's data on the process. They are
// sampled when a backend is read, and passed to swift-metrics like counted metrics. A backend that pushes its metrics
// calls `sample` every few seconds instead.

package import CoreMetrics
internal import Synchronization

package final class MetricSampling: Sendable {
    private let samplers = Mutex<[@Sendable () -> Void]>([])

    package init() {}

    /// Adds a sampler, which reads values and records them. It must not block.
    package func add(_ sampler: @escaping @Sendable () -> Void) {
        samplers.withLock { $0.append(sampler) }
    }

    package func sample() {
        for sampler in samplers.withLock({ $0 }) { sampler() }
    }
}

/// Mirrors a count kept elsewhere since the start: adds its growth to a counter.
package final class SampledCounter: Sendable {
    private let counter: any CounterHandler
    private let reportedCount = Mutex<Int64>(0)

    package init(_ family: MetricFamily, _ dimensions: [(String, String)] = [], factory: any MetricsFactory) {
        counter = factory.counter(family, dimensions)
    }

    package func sample(_ count: Int) {
        let growth = reportedCount.withLock { reportedCount in
            defer { reportedCount = max(reportedCount, Int64(count)) }
            return max(0, Int64(count) - reportedCount)
        }
        counter.increment(by: growth)
    }
}
