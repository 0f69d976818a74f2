// Figures that nobody counts because they are there to be read: sizes, states, what the system knows of the process.
// They are read when somebody looks, and handed to swift-metrics like the others. A backend that pushes instead of
// being read calls `sample` every few seconds.

package import CoreMetrics
internal import Synchronization

package final class MetricSampling: Sendable {
    private let samplers = Mutex<[@Sendable () -> Void]>([])

    package init() {}

    /// `sampler` reads and records; it must not wait for anybody.
    package func add(_ sampler: @escaping @Sendable () -> Void) {
        samplers.withLock { $0.append(sampler) }
    }

    package func sample() {
        for sampler in samplers.withLock({ $0 }) { sampler() }
    }
}

/// A count that somebody else keeps since the start: what it has grown by goes into a counter.
package final class SampledCounter: Sendable {
    private let counter: any CounterHandler
    private let told = Mutex<Int64>(0)

    package init(_ family: MetricFamily, _ dimensions: [(String, String)] = [], factory: any MetricsFactory) {
        counter = factory.makeCounter(label: family.name, dimensions: dimensions)
    }

    package func sample(_ count: Int) {
        let growth = told.withLock { told in
            defer { told = max(told, Int64(count)) }
            return max(0, Int64(count) - told)
        }
        counter.increment(by: growth)
    }
}

extension MetricsFactory {
    package func counter(_ family: MetricFamily, _ dimensions: [(String, String)] = []) -> any CounterHandler {
        makeCounter(label: family.name, dimensions: dimensions)
    }

    package func gauge(_ family: MetricFamily, _ dimensions: [(String, String)] = []) -> any MeterHandler {
        makeMeter(label: family.name, dimensions: dimensions)
    }

    package func timer(_ family: MetricFamily, _ dimensions: [(String, String)] = []) -> any TimerHandler {
        makeTimer(label: family.name, dimensions: dimensions)
    }

    /// Of sizes: a histogram.
    package func recorder(_ family: MetricFamily) -> any RecorderHandler {
        makeRecorder(label: family.name, dimensions: [], aggregate: true)
    }
}
