// Tests of the metrics about events: the outcomes that count as failures, and the labels of an event. Alerts are based
// on the number of failures.

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
        metrics.count(.chargerTargeted, .iosNative, .failed(.cancelled))
        #expect(failedCount(prometheus).isEmpty)
        metrics.count(.chargerTargeted, .iosNative, .failed(.unavailable("the disk is full")))
        #expect(failedCount(prometheus) == ["1"])
    }

    @Test(arguments: [
        ("ios_native", "ios_native"), ("android_native", "android_native"), ("flutter", "flutter"), ("web", "web"),
        ("Web", "other"), ("web ", "other"), ("", "other"), ("a-text-that-a-client-made-up", "other"),
    ])
    func `an unknown source makes no series of its own`(text: String, label: String) {
        #expect(EventSource(text).label == label)
    }

    @Test func `every combination has its own series, with its own labels`() {
        let prometheus = PrometheusMetrics()
        let metrics = IngestMetrics(prometheus)
        let names = EventName.listed + [.diagnostic("battery")]
        for source in EventSource.allCases {
            for name in names { metrics.count(name, source, .rateLimited) }
        }
        var expected: [String: Int] = [:]
        for source in EventSource.allCases {
            for name in names {
                let event = if case .diagnostic = name { "diagnostic" } else { name.canonical }
                expected[
                    #"dwell_events_total{event="\#(event)",source="\#(source.label)",verdict="rate_limited"}"#,
                    default: 0
                ] += 1
            }
        }
        let lines = prometheus.text().split(separator: "\n").filter { $0.hasPrefix("dwell_events_total{") }
        let counted = lines.compactMap { line in
            line.lastIndex(of: " ").flatMap { index in
                Int(line[line.index(after: index)...]).map { (String(line[..<index]), $0) }
            }
        }
        #expect(Dictionary(counted, uniquingKeysWith: +) == expected)
    }
}
