// Metrics that are read rather than counted: sizes, states, and the operating system's data on the process. A sampler
// reads such values and passes them to swift-metrics.
//
// `sample` runs all samplers. A backend calls it at each scrape, or every few seconds if the backend pushes its
// metrics.

package import CoreMetrics
internal import Synchronization

package final class MetricSampling: Sendable {
    private let samplers = Mutex<[@Sendable () -> Void]>([])

    package init() {}

    /// Adds a sampler: a closure that reads values and records them. The closure must not block.
    package func add(_ sampler: @escaping @Sendable () -> Void) {
        samplers.withLock { $0.append(sampler) }
    }

    package func sample() {
        for sampler in samplers.withLock({ $0 }) { sampler() }
    }
}

/// A counter for a total that other code keeps from the start of the process. Each call of `sample` takes the present
/// total, and adds to the counter how much the total has grown since the previous call.
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
