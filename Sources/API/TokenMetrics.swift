// Results of access token checks: how many were valid, and why the others were not.

import CoreMetrics
import Telemetry

struct TokenMetrics: Sendable {
    enum Finding: Int, CaseIterable {
        case accepted, missing, refused, undecided

        fileprivate var label: String {
            switch self {
            case .accepted: "accepted"
            case .missing: "missing"
            case .refused: "refused"
            case .undecided: "undecided"
            }
        }
    }

    private let findings: CounterTable

    init(_ factory: any MetricsFactory) {
        findings = CounterTable(MetricFamilies.tokens, count: Finding.allCases.count, factory: factory) { place in
            [("result", Finding(rawValue: place)?.label ?? "other")]
        }
    }

    func count(_ finding: Finding) {
        findings.count(finding.rawValue)
    }
}
