// The delivery queues of the operator page, and the last failure of each queue.

package import JourneyModel
import Synchronization

/// The last failed delivery of one queue, kept only in memory. The task that makes the deliveries records the failure.
package final class DeliveryFailure: Sendable {
    package struct Failure: Hashable, Sendable {
        /// The reason in the wording of the log, without secrets.
        package var reason: String
        package var at: Moment
    }

    private let failure = Mutex<Failure?>(nil)

    package init() {}

    package var last: Failure? { failure.withLock { $0 } }

    package func record(_ reason: String, at now: Moment) {
        failure.withLock { $0 = Failure(reason: reason, at: now) }
    }
}

package struct OutboxStatus: Hashable, Sendable {
    /// The name of the queue, as in the metrics: `analytics`, `codes`, `revocations` or `push`.
    package var queue: String
    package var waitingCount: Int
    /// When the oldest waiting delivery was queued; in the queue `push`, when it became due.
    package var oldest: Moment?
    /// The number of events that analytics will never receive; nil for the other queues.
    package var lostCount: Int?
    package var lastFailure: DeliveryFailure.Failure?

    package init(
        queue: String, waitingCount: Int, oldest: Moment?, lostCount: Int? = nil,
        lastFailure: DeliveryFailure.Failure? = nil
    ) {
        self.queue = queue
        self.waitingCount = waitingCount
        self.oldest = oldest
        self.lostCount = lostCount
        self.lastFailure = lastFailure
    }
}
