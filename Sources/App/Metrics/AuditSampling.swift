// Counts the committed actions in the audit table as sign-in metrics. All servers on the database write to this table.
// Each server's counts therefore include the actions at the other servers.
//
// Counting begins when /metrics is first read. Earlier entries are not counted.
//
// The entries are counted in the order of their ids. On PostgreSQL, a slow transaction may commit an entry after
// entries with higher ids. Therefore an id is counted only when it is at least `auditSettlesMilliseconds` old.

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
    /// The next sample counts only entries whose ids are higher than this id. Nil until the first sample.
    private var countedID: Int64?
    /// The highest id at an earlier sample, and the time of that sample. When `auditSettlesMilliseconds` have passed
    /// since that time, the next sample counts the entries up to this id.
    private var settling: (id: Int64, readAtMilliseconds: Int64)?

    private static let outcomes: [AuditOutcome] = [.done, .refused, .failed]

    /// - Parameter clock: returns the milliseconds of a monotonic clock.
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
