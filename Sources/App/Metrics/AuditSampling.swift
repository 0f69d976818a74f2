// Sign-in metrics, counted from the audit. The audit contains the committed actions of all handlers, so the handlers
// themselves need not count. It also contains the actions at other servers on the same database, so each server counts
// them too. Counting begins when /metrics is first read. Entries from before that are not counted.

import CoreMetrics
import Identity
import MetricInstruments

extension MetricFamily {
    static let signIns = MetricFamily(
        "dwell_auth_total", "Sign-in and account actions, by audit action and outcome.")
}

actor AuditSampling {
    private let store: any AccountStatistics
    private let counts: CounterTable
    private var lastID: Int64?

    private static let outcomes: [AuditOutcome] = [.done, .refused, .failed]

    init(store: any AccountStatistics, factory: any MetricsFactory) {
        self.store = store
        let actions = AuditAction.allCases
        counts = CounterTable(.signIns, count: actions.count * Self.outcomes.count, factory: factory) {
            [
                ("action", actions[$0 / Self.outcomes.count].rawValue),
                ("outcome", Self.outcomes[$0 % Self.outcomes.count].rawValue),
            ]
        }
    }

    /// Counts the new audit entries. If the database cannot be read, the counts do not change.
    func sample() async {
        guard let since = lastID else {
            lastID = try? await store.newestAuditID()
            return
        }
        guard let new = try? await store.auditCounts(after: since), new.newestID > since else { return }
        // The actor is reentrant: another call may have counted the same entries during the await.
        guard lastID == since else { return }
        lastID = new.newestID
        for (action, outcome, count) in new.counts {
            guard let row = AuditAction.allCases.firstIndex(of: action),
                let column = Self.outcomes.firstIndex(of: outcome)
            else { continue }
            counts.count(row * Self.outcomes.count + column, by: Int64(count))
        }
    }
}
