// The declaration of a metric. Each module declares its metrics in an extension of `MetricFamily`, beside the code that
// they measure. The names follow Prometheus's conventions (base units, `_total` for counters).

package import CoreMetrics

/// The properties that all series of one name share.
package struct MetricFamily: Hashable, Sendable {
    package var name: String
    package var help: String
    /// Upper bounds of a histogram's buckets, ascending. For a timer the unit is nanoseconds. For a recorder the bounds
    /// are plain numbers.
    package var bounds: [Int64]

    package init(_ name: String, _ help: String, bounds: [Int64] = []) {
        self.name = name
        self.help = help
        self.bounds = bounds
    }

    /// Bounds for durations. The lowest bound is 250 µs, because a read takes about this time. The highest is 10 s,
    /// because no request should take longer.
    package static let durations: [Int64] = [
        250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000, 25_000_000, 50_000_000, 100_000_000,
        250_000_000, 1_000_000_000, 10_000_000_000,
    ]
}

/// A backend that shows help texts and has histograms. `describe` is called with a family before each instrument of
/// that family is created.
package protocol DescribedMetricsFactory: MetricsFactory {
    func describe(_ family: MetricFamily)
}

extension MetricsFactory {
    package func counter(_ family: MetricFamily, _ dimensions: [(String, String)] = []) -> any CounterHandler {
        described(family).makeCounter(label: family.name, dimensions: dimensions)
    }

    package func fractionCounter(_ family: MetricFamily) -> any FloatingPointCounterHandler {
        described(family).makeFloatingPointCounter(label: family.name, dimensions: [])
    }

    package func gauge(_ family: MetricFamily, _ dimensions: [(String, String)] = []) -> any MeterHandler {
        described(family).makeMeter(label: family.name, dimensions: dimensions)
    }

    package func timer(_ family: MetricFamily, _ dimensions: [(String, String)] = []) -> any TimerHandler {
        described(family).makeTimer(label: family.name, dimensions: dimensions)
    }

    /// Returns a histogram of sizes.
    package func recorder(_ family: MetricFamily) -> any RecorderHandler {
        described(family).makeRecorder(label: family.name, dimensions: [], aggregate: true)
    }

    private func described(_ family: MetricFamily) -> Self {
        (self as? any DescribedMetricsFactory)?.describe(family)
        return self
    }
}
