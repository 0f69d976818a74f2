// Sign-in metrics, counted from the committed actions in the audit table. All servers on the database write to this
// table, so each server also counts the actions at the other servers.
//
// Counting begins when /metrics is first read. Entries that are older than this first read are not counted.
//
// The entries are counted in the order of their ids. On PostgreSQL, an entry may become visible after entries with
// higher ids, because its transaction commits later. A sample therefore counts only up to the id that was the newest
// some seconds earlier (`auditSettlesMilliseconds`).

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
    private let clock: @Sendable () -> Int64
    /// Samples count only the entries whose ids are higher than this id. Nil until the first sample.
    private var countedID: Int64?
    /// The id of the newest entry at an earlier sample, and the time of that sample. The entries up to this id are
    /// counted at the first sample that is at least `auditSettlesMilliseconds` later.
    private var settling: (id: Int64, readAtMilliseconds: Int64)?

    private static let outcomes: [AuditOutcome] = [.done, .refused, .failed]

    /// - Parameter clock: returns the milliseconds of a monotonic clock, which never goes backwards.
    init(store: any AccountStatistics, factory: any MetricsFactory, clock: @escaping @Sendable () -> Int64) {
        self.store = store
        self.clock = clock
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
        guard let newestID = try? await store.newestAuditID() else { return }
        guard let since = countedID else {
            countedID = newestID
            return
        }
        let newest = (id: newestID, readAtMilliseconds: clock())
        let settlesMilliseconds = store.auditSettlesMilliseconds
        let last = settlesMilliseconds > 0 ? settling ?? newest : newest
        guard newest.readAtMilliseconds - last.readAtMilliseconds >= settlesMilliseconds else {
            settling = last
            return
        }
        guard let new = try? await store.auditCounts(after: since, through: last.id) else { return }
        // The actor is reentrant: another call may have counted the same entries during the await.
        guard countedID == since else { return }
        // `last.id` may be lower than `since`, because the newest entry may have been deleted after it was counted.
        countedID = max(since, last.id)
        settling = newest
        for entries in new {
            guard let row = AuditAction.allCases.firstIndex(of: entries.action),
                let column = Self.outcomes.firstIndex(of: entries.outcome)
            else { continue }
            counts.count(row * Self.outcomes.count + column, by: Int64(entries.count))
        }
    }
}
