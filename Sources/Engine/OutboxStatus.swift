// The delivery queues, with the last failure of each, for the operator page.

package import JourneyModel
import Synchronization

/// The last failure of one queue's deliveries, written by the delivering task. In memory only.
package final class DeliveryFailure: Sendable {
    package struct Failure: Hashable, Sendable {
        /// The reason as it is logged, without secrets.
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
    /// `analytics`, `codes` or `revocations`, as in the metrics.
    package var queue: String
    package var waitingCount: Int
    /// The time since which the oldest delivery has been waiting.
    package var oldest: Moment?
    /// The number of events that analytics will never receive.
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
