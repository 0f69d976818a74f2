// Counts the purchases that apps send, by outcome, and the notifications of the App Store, by type and outcome.

import CoreMetrics
import MetricInstruments
import Purchases

extension MetricFamily {
    static let purchases = MetricFamily(
        "dwell_purchases_total", "Purchases sent by apps, by outcome.")
    static let storeNotifications = MetricFamily(
        "dwell_store_notifications_total", "App Store Server Notifications, by type and outcome.")
}

struct PurchaseMetrics: Sendable {
    enum Purchase: String, CaseIterable {
        case stored, refused
        case ownedByAnother = "owned_by_another"
        case failed

        init(_ failure: PurchaseFailure) {
            switch failure {
            case .refused, .unknownTransaction, .needsSignedTransaction: self = .refused
            case .ownedByAnother: self = .ownedByAnother
            case .store, .appleUnavailable, .busy: self = .failed
            }
        }
    }

    private let purchases: [Purchase: any CounterHandler]
    private let factory: any MetricsFactory

    init(_ factory: any MetricsFactory) {
        self.factory = factory
        purchases = Dictionary(
            uniqueKeysWithValues: Purchase.allCases.map { outcome in
                (outcome, factory.counter(.purchases, [("outcome", outcome.rawValue)]))
            })
        // Create these series at the start, with the value 0. Prometheus computes a rate only between two samples of a
        // series. If the first refusal created the series, Prometheus would therefore miss this refusal.
        for outcome in ["refused", "failed"] { _ = notifications("unknown", outcome) }
    }

    func count(purchase outcome: Purchase) {
        purchases[outcome]?.increment(by: 1)
    }

    /// Counts a notification by type and outcome. Unknown types are counted as `other`, so that the set of labels is
    /// fixed.
    func count(_ taken: TakenNotification) {
        let notification = taken.notification
        let isKnown = NotificationTypes.rows.contains { $0.type == notification.type }
        let outcome = taken.outcome == .repeated ? "repeated" : "stored"
        count(isKnown ? notification.type : "other", outcome)
    }

    func count(refusedNotification failure: PurchaseFailure) {
        if case .refused = failure { count("unknown", "refused") } else { count("unknown", "failed") }
    }

    private func count(_ type: String, _ outcome: String) {
        notifications(type, outcome).increment(by: 1)
    }

    private func notifications(_ type: String, _ outcome: String) -> any CounterHandler {
        factory.counter(.storeNotifications, [("type", type), ("outcome", outcome)])
    }
}
