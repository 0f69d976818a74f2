// The outcomes that count as failed events in the metrics. Alerts are based on this count.

import JourneyModel
import PrometheusExport
import Testing

@testable import Engine

struct IngestMetricsTests {
    private func failedCount(_ prometheus: PrometheusMetrics) -> [Substring] {
        prometheus.text().split(separator: "\n").filter {
            $0.hasPrefix("dwell_events_total{") && $0.contains(#"event="chargerTargeted""#)
                && $0.contains(#"verdict="failed""#)
        }.compactMap { $0.split(separator: " ").last }
    }

    @Test func `a read that its client gave up is no failure, and a store that does not answer is one`() {
        let prometheus = PrometheusMetrics()
        let metrics = IngestMetrics(prometheus)
        metrics.count(.chargerTargeted, .failed(.cancelled))
        #expect(failedCount(prometheus).isEmpty)
        metrics.count(.chargerTargeted, .failed(.unavailable("the disk is full")))
        #expect(failedCount(prometheus) == ["1"])
    }
}
