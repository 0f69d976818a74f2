// Counts the checks of access tokens by result: accepted, missing, refused, or undecided because the store could not be
// read. Each request counts once, even if its token is checked again after the body has arrived.

import CoreMetrics
import MetricInstruments

extension MetricFamily {
    static let tokens = MetricFamily(
        "dwell_access_tokens_total", "Access tokens by verification result.")
}

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
        findings = CounterTable(.tokens, count: Finding.allCases.count, factory: factory) { index in
            [("result", Finding(rawValue: index)?.label ?? "other")]
        }
    }

    func count(_ finding: Finding) {
        findings.count(finding.rawValue)
    }
}
