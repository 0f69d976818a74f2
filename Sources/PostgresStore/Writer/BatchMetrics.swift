// The metrics of batches: those that every store has (StoreMetrics), and the number of conflicts with other instances.

import CoreMetrics
import Engine
import MetricInstruments

extension MetricFamily {
    static let storeConflicts = MetricFamily(
        "dwell_store_conflicts_total", "Drivers folded again because another instance was faster.")
}

struct BatchMetrics: Sendable {
    let commits: StoreMetrics
    private let conflicts: any CounterHandler

    init(_ factory: any MetricsFactory) {
        commits = StoreMetrics(factory)
        conflicts = factory.counter(.storeConflicts)
    }

    func noteConflict() { conflicts.increment(by: 1) }
}
