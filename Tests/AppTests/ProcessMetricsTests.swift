import PrometheusExport
import Testing

@testable import App

@Suite struct ProcessMetricsTests {
    @Test func `the process is measured`() throws {
        let metrics = PrometheusMetrics()
        ProcessMetrics(metrics, version: "1.2.3", startedAtMilliseconds: 1_700_000_000_500).sample()
        let lines = metrics.text().split(separator: "\n")
        #expect(lines.contains("process_start_time_seconds 1700000000.5"))
        #expect(lines.contains("dwell_build_info{version=\"1.2.3\"} 1"))
        let value = { (name: String) in
            lines.first { $0.hasPrefix(name + " ") }.flatMap { Int($0.dropFirst(name.count + 1)) } ?? 0
        }
        #if os(Linux)
            #expect(value("process_resident_memory_bytes") > 1_000_000)
            #expect(value("process_open_fds") > 2)
        #endif
    }
}
