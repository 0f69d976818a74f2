// The metrics that need a query of the database, for example drivers by state, due deadlines and waiting deliveries.
// The queries run when a client reads /metrics.

import CoreMetrics
import Engine
import Identity
import JourneyModel
import MetricInstruments
import Push

extension MetricFamily {
    static let lastBackupSeconds = MetricFamily(
        "dwell_last_backup_timestamp_seconds", "Time of the last successful dwell backup (Unix time); 0: never.")
    static let codeSendsUsed = MetricFamily(
        "dwell_code_sends_used_ratio",
        "Used share of the hourly limit on one-time codes: total, numbers without an account, most used prefix.")
}

struct StoreSampling: Sendable {
    private let stores: Stores
    private let drivers: DriverCounts
    private let driverGauges: [(JourneyState, any MeterHandler)]
    private let due: any MeterHandler
    private let oldest: any MeterHandler
    /// Nil if Dwell does not make the backups of the database.
    private let backup: (any MeterHandler)?
    private let revocations: OutboxGauges
    /// Nil if the server sends no notifications.
    private let pushes: OutboxGauges?
    private let codeLimits: CodeSendLimits
    private let codeSends: [CodeSendUse.Limit: any MeterHandler]
    /// The metrics of analytics forwarding. Nil if forwarding is off, because no event counts as waiting in this case.
    private let analytics: (waiting: OutboxGauges, lost: SampledCounter)?

    init(
        stores: Stores, drivers: DriverCounts, forwards: Bool, sendsPushes: Bool, codeLimits: CodeSendLimits,
        factory: any MetricsFactory
    ) {
        self.stores = stores
        self.drivers = drivers
        driverGauges = JourneyState.allCases.map {
            ($0, factory.gauge(.drivers, [("state", $0.rawValue)]))
        }
        due = factory.gauge(.deadlinesDue)
        oldest = factory.gauge(.oldestEventSeconds)
        backup = stores.backups == nil ? nil : factory.gauge(.lastBackupSeconds)
        revocations = OutboxGauges(queue: "revocations", factory: factory)
        pushes = sendsPushes ? OutboxGauges(queue: "push", factory: factory) : nil
        analytics =
            forwards
            ? (
                OutboxGauges(queue: "analytics", factory: factory),
                SampledCounter(.analyticsLost, factory: factory)
            ) : nil
        self.codeLimits = codeLimits
        codeSends = Dictionary(
            uniqueKeysWithValues: CodeSendUse.Limit.allCases.map {
                ($0, factory.gauge(.codeSendsUsed, [("limit", $0.rawValue)]))
            })
    }

    /// Queries the database and sets the metrics. If the database cannot be read, the metrics do not change.
    func sample(at now: Moment) async {
        if let count = try? await stores.eventStatistics.dueDriverCount(at: now) { due.set(Int64(count)) }
        if let age = try? await oldestEventMilliseconds(at: now) { oldest.set(Double(age) / 1000) }
        for use in (try? await stores.accountStatistics.codeSendUses(codeLimits, at: now)) ?? [] where use.max > 0 {
            codeSends[use.limit]?.set(Double(use.count) / Double(use.max))
        }
        if let backup, let last = try? await stores.backups?.lastBackup() {
            backup.set(Double(last.completedAt.millisecondsSinceEpoch) / 1000)
        }
        if let queue = try? await stores.accountStatistics.waitingRevocations() {
            revocations.set(queue.count, oldest: queue.oldest, at: now)
        }
        if let pushes, let queue = try? await stores.pushes.waitingPushes(at: now) {
            pushes.set(queue.count, oldest: queue.oldest, at: now)
        }
        if let analytics, let position = try? await stores.feed.position(of: AnalyticsForwarding.consumer) {
            let oldest = try? await stores.eventStatistics.receivedAt(ofFirstEventAfter: position.last)
            analytics.waiting.set(Int(position.waitingCount), oldest: oldest.flatMap { $0 }, at: now)
            analytics.lost.sample(Int(position.lostCount))
        }
        // Count the drivers last. Counting may take longer than a scrape waits, and the other metrics should be set by
        // then.
        if let counts = try? await drivers.current() {
            for (state, gauge) in driverGauges { gauge.set(Int64(counts[state] ?? 0)) }
        }
    }

    private func oldestEventMilliseconds(at now: Moment) async throws(StoreFailure) -> Int64 {
        guard let receivedAt = try await stores.eventStatistics.oldestEventReceivedAt() else { return 0 }
        return max(0, now.milliseconds(since: receivedAt))
    }
}
