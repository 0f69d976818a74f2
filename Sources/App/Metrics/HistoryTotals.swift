// The totals for the history on the operator page: events by outcome and by source, responses by status, and durations.
// They are read from existing metrics. The durations leave out streams, because a stream lasts as long as its client
// listens.

import Engine
import HTTPServer
import MetricInstruments
import PrometheusExport

enum HistoryTotals {
    static func read(_ metrics: PrometheusMetrics) -> [String: Int] {
        var totals: [String: Int] = [:]
        for series in metrics.values(of: .events) {
            if let outcome = series.label("verdict") { totals["event.\(outcome)", default: 0] += Int(series.count) }
            if let source = series.label("source") { totals["source.\(source)", default: 0] += Int(series.count) }
        }
        for series in metrics.values(of: .requests) {
            if let status = series.label("status") { totals["status.\(status)", default: 0] += Int(series.count) }
        }
        let bounds = MetricFamily.requestSeconds.bounds
        for series in metrics.values(of: .requestSeconds) {
            guard series.label("route")?.hasSuffix("/stream") == false else { continue }
            for (index, count) in series.buckets.enumerated() where count > 0 {
                let bound = index < bounds.count ? String(bounds[index] / 1000) : "inf"
                totals["duration.\(bound)", default: 0] += Int(count)
            }
        }
        return totals
    }
}
