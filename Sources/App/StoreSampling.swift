// The figures of the store that take a question to the database: what is due, what waits to be forwarded, how far back
// events go. Asked when /metrics is read.

import CoreMetrics
import Engine
import JourneyModel
import SQLiteStore
import Telemetry

struct StoreSampling: Sendable {
    private let store: SQLiteEventStore
    private let forwards: Bool
    private let due: any MeterHandler
    private let oldest: any MeterHandler
    private let waiting: any MeterHandler
    private let lost: any MeterHandler

    /// `forwards`: events go to analytics; without it nothing waits, whatever was forwarded once.
    init(store: SQLiteEventStore, forwards: Bool, factory: any MetricsFactory) {
        self.store = store
        self.forwards = forwards
        due = factory.gauge(MetricFamilies.deadlinesDue)
        oldest = factory.gauge(MetricFamilies.oldestEventSeconds)
        waiting = factory.gauge(MetricFamilies.analyticsWaiting)
        lost = factory.gauge(MetricFamilies.analyticsLost)
    }

    /// A database that cannot be read keeps the figures as they are.
    func sample(at now: Moment) async {
        if let count = try? await store.dueDriverCount(at: now) { due.set(Int64(count)) }
        if let age = try? await oldestEventMilliseconds(at: now) { oldest.set(Double(age) / 1000) }
        guard forwards, let place = try? await store.place(of: AnalyticsForwarding.consumer) else { return }
        waiting.set(place.waitingCount)
        lost.set(place.lostCount)
    }

    private func oldestEventMilliseconds(at now: Moment) async throws(StoreFailure) -> Int64 {
        guard let receivedAt = try await store.oldestEventReceivedAt() else { return 0 }
        return max(0, now.milliseconds(since: receivedAt))
    }
}
