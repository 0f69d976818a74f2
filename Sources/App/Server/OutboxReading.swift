// Reads the state of the delivery queues for the operator page, from the database and from memory.

import Engine
import Identity
import JourneyModel
import Outbound
import Push

struct OutboxReading: Sendable {
    let stores: Stores
    /// Holds the last failure of analytics forwarding; nil if events are not forwarded.
    let analyticsFailure: DeliveryFailure?
    /// The delivery of codes by webhook; nil if codes are not sent to a webhook.
    let codes: WebhookCodeDelivery?
    let revocationFailure: DeliveryFailure
    /// The last failed notification; nil if the server sends no notifications.
    let pushFailure: DeliveryFailure?
    let clock: @Sendable () -> Moment

    /// Returns the status of each queue. If the database cannot be read, leaves out the queues that are stored in the
    /// database.
    func status() async -> [OutboxStatus] {
        var queues: [OutboxStatus] = []
        if let analyticsFailure, let position = try? await stores.feed.position(of: AnalyticsForwarding.consumer) {
            let oldest = try? await stores.eventStatistics.receivedAt(ofFirstEventAfter: position.last)
            queues.append(
                OutboxStatus(
                    queue: "analytics", waitingCount: Int(position.waitingCount), oldest: oldest.flatMap { $0 },
                    lostCount: Int(position.lostCount), lastFailure: analyticsFailure.last))
        }
        if let codes {
            queues.append(
                OutboxStatus(
                    queue: "codes", waitingCount: codes.codesWaiting, oldest: codes.oldestWaitingSince,
                    lastFailure: codes.failure.last))
        }
        if let waiting = try? await stores.accountStatistics.waitingRevocations() {
            queues.append(
                OutboxStatus(
                    queue: "revocations", waitingCount: waiting.count, oldest: waiting.oldest,
                    lastFailure: revocationFailure.last))
        }
        if let pushFailure, let waiting = try? await stores.pushes.waitingPushes(at: clock()) {
            queues.append(
                OutboxStatus(
                    queue: "push", waitingCount: waiting.count, oldest: waiting.oldest, lastFailure: pushFailure.last))
        }
        return queues
    }
}
