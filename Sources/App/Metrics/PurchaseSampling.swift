// Metrics of entitlements by status. A background task counts the entitlements. The metrics are absent until the task
// has counted all entitlements once.

import CoreMetrics
import MetricInstruments
import Purchases

extension MetricFamily {
    fileprivate static let entitlements = MetricFamily(
        "dwell_entitlements", "Entitlements by status and environment, counted in the background.")
    fileprivate static let refundsToday = MetricFamily(
        "dwell_purchase_refunds_today", "Transactions refunded since midnight UTC, by environment.")
}

enum PurchaseSampling {
    /// Returns a sampler with separate counts for production and the sandbox.
    static func sampler(_ purchases: PurchaseCounts, _ factory: any MetricsFactory) -> @Sendable () -> Void {
        {
            guard let totals = purchases.totals else { return }
            for environment in [AppStoreEnvironment.production, .sandbox] {
                let label = ("environment", environment.rawValue.lowercased())
                let counts = totals[environment]
                for status in Entitlement.Status.allCases {
                    factory.gauge(.entitlements, [("status", status.rawValue), label]).set(Int64(counts.count(status)))
                }
                factory.gauge(.refundsToday, [label]).set(Int64(counts.refundsToday))
            }
        }
    }
}
