// A swift-metrics backend for Prometheus: the series, and their text (PrometheusText). Another backend would also need
// `text` for /metrics, and `values` for the history on the operator page.
//
// The number of series is limited. Labels come from fixed sets, which clients cannot change. In addition, no family can
// have more than `seriesMax` series.

package import CoreMetrics
package import MetricInstruments
internal import Synchronization

package final class PrometheusMetrics: DescribedMetricsFactory {
    /// The maximum number of series per family. The largest families of this server have a few hundred series.
    static let seriesMax = 4096

    enum Series {
        case counter(CounterSeries)
        case gauge(GaugeSeries)
        case fraction(GaugeSeries)
        case seconds(HistogramSeries)
        case sizes(HistogramSeries)
    }

    struct Family {
        var help: String
        var bounds: [Int64]
        /// The series in the order in which they were created. The labels are stored as rendered:
        /// `route="/healthz",method="GET"`.
        var series: [(labels: String, series: Series)] = []
        var indexes: [String: Int] = [:]
    }

    private let families = Mutex<[String: Family]>([:])

    package init() {}

    /// Sets the help text and the bounds of a family. Must be called before the family's first series is created. A
    /// second call for the same family does nothing.
    package func describe(_ family: MetricFamily) {
        families.withLock { families in
            guard families[family.name] == nil else { return }
            families[family.name] = Family(help: family.help, bounds: family.bounds)
        }
    }

    /// Returns all metrics in the text exposition format 0.0.4. Families without a series are left out.
    package func text() -> String {
        PrometheusText.render(families.withLock { $0 })
    }

    /// The current value of one series: the count of a counter, or the number of values in each bucket of a histogram.
    /// A bucket contains values above the previous bucket's bound, up to its own bound. The last bucket has no bound.
    package struct Value: Sendable {
        let labels: String
        package var count: Int64 = 0
        package var buckets: [Int64] = []

        /// Returns the value of a label. Works only if the value has no escapes, as is true of values from fixed sets.
        package func label(_ name: String) -> String? {
            for part in labels.split(separator: ",") where part.hasPrefix("\(name)=\"") {
                return String(part.dropFirst(name.utf8.count + 2).dropLast())
            }
            return nil
        }
    }

    /// Returns the current values of a family's counters and histograms.
    package func values(of family: MetricFamily) -> [Value] {
        families.withLock { $0[family.name]?.series ?? [] }.compactMap { labels, series -> Value? in
            switch series {
            case .counter(let counter): Value(labels: labels, count: counter.value)
            case .seconds(let histogram), .sizes(let histogram): Value(labels: labels, buckets: histogram.counts)
            case .gauge, .fraction: nil
            }
        }
    }

    // MARK: - MetricsFactory

    package func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        let new = CounterSeries()
        guard case .counter(let series) = series(label, dimensions, { _ in .counter(new) }) else { return new }
        return series
    }

    package func makeFloatingPointCounter(
        label: String, dimensions: [(String, String)]
    ) -> any FloatingPointCounterHandler {
        let new = GaugeSeries()
        guard case .fraction(let series) = series(label, dimensions, { _ in .fraction(new) }) else { return new }
        return series
    }

    package func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        gauge(label, dimensions)
    }

    package func makeRecorder(
        label: String, dimensions: [(String, String)], aggregate: Bool
    ) -> any RecorderHandler {
        guard aggregate else { return gauge(label, dimensions) }
        let made = series(label, dimensions) { .sizes(HistogramSeries(bounds: $0)) }
        guard case .sizes(let series) = made else { return HistogramSeries(bounds: []) }
        return series
    }

    package func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        let made = series(label, dimensions) { .seconds(HistogramSeries(bounds: $0)) }
        guard case .seconds(let series) = made else { return HistogramSeries(bounds: []) }
        return series
    }

    // These four functions do nothing, because a series exists until the process ends. If a counter disappeared and
    // came back, readers of the metrics would see a restart of the server.
    package func destroyCounter(_ handler: any CounterHandler) {}
    package func destroyFloatingPointCounter(_ handler: any FloatingPointCounterHandler) {}
    package func destroyRecorder(_ handler: any RecorderHandler) {}
    package func destroyTimer(_ handler: any TimerHandler) {}

    /// Removes a gauge whose labels no longer apply. An example is the gauge of a settings version that is not in force
    /// anymore.
    package func destroyMeter(_ handler: any MeterHandler) {
        families.withLock { families in
            for (name, family) in families {
                let index = family.series.firstIndex { _, series in
                    guard case .gauge(let gauge) = series else { return false }
                    return gauge === handler
                }
                guard let index else { continue }
                var family = family
                family.series.remove(at: index)
                family.indexes = Dictionary(uniqueKeysWithValues: family.series.enumerated().map { ($1.labels, $0) })
                families[name] = family
                return
            }
        }
    }

    private func gauge(_ label: String, _ dimensions: [(String, String)]) -> GaugeSeries {
        let new = GaugeSeries()
        guard case .gauge(let series) = series(label, dimensions, { _ in .gauge(new) }) else { return new }
        return series
    }

    /// Returns the series with these labels, and creates it if necessary. Returns nil if the new series would exceed
    /// the family's `seriesMax`. Values for these labels are then not exported.
    private func series(
        _ name: String, _ dimensions: [(String, String)], _ make: (_ bounds: [Int64]) -> Series
    ) -> Series? {
        let labels = PrometheusText.labels(dimensions)
        return families.withLock { families in
            var family = families[name] ?? Family(help: name, bounds: [])
            if let index = family.indexes[labels] { return family.series[index].series }
            guard family.series.count < Self.seriesMax else { return nil }
            let series = make(family.bounds)
            family.indexes[labels] = family.series.count
            family.series.append((labels, series))
            families[name] = family
            return series
        }
    }
}
