import CoreMetrics
import JourneyModel
import MetricInstruments

extension MetricFamily {
    static let outboxWaiting = MetricFamily(
        "dwell_outbox_waiting",
        "Pending deliveries: events to analytics, one-time codes, revocations to Apple, push notifications.")
    static let outboxAgeSeconds = MetricFamily(
        "dwell_outbox_age_seconds", "Age of the oldest pending delivery in the queue; 0: none pending.")
}

/// The metrics of one delivery queue: the number of waiting entries, and the age of the oldest waiting entry.
struct OutboxGauges: Sendable {
    private let waiting: any MeterHandler
    private let age: any MeterHandler

    init(queue: String, factory: any MetricsFactory) {
        waiting = factory.gauge(.outboxWaiting, [("queue", queue)])
        age = factory.gauge(.outboxAgeSeconds, [("queue", queue)])
    }

    /// Sets both gauges.
    ///
    /// - Parameter oldest: when the oldest waiting entry was queued; nil when the queue is empty.
    func set(_ count: Int, oldest: Moment?, at now: Moment) {
        waiting.set(Int64(count))
        age.set(Double(max(0, oldest.map { now.milliseconds(since: $0) } ?? 0)) / 1000)
    }
}
