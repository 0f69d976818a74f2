// The length of the outbox of notifications, for metrics and the operator page.

package import Engine
package import JourneyModel

package protocol PushQueueStatistics: Sendable {
    /// Counts the notifications that are due. A notification for a later time does not count as waiting.
    func waitingPushes(at now: Moment) async throws(StoreFailure) -> WaitingPushes
}

/// The notifications that are due and not delivered yet: their number, and when the oldest of them was due.
package struct WaitingPushes: Hashable, Sendable {
    package var count: Int
    package var oldest: Moment?

    package init(count: Int, oldest: Moment? = nil) {
        (self.count, self.oldest) = (count, oldest)
    }
}
