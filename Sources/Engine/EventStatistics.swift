// Numbers about the stored events and their deadlines, for metrics and the operator page.

package import JourneyModel

package protocol EventStatistics: Sendable {
    /// Returns the number of drivers whose deadline lies before `now` and whose expiry is not stored yet.
    func dueDriverCount(at now: Moment) async throws(StoreFailure) -> Int

    /// Returns the receive time of the oldest stored event; nil if there is none.
    func oldestEventReceivedAt() async throws(StoreFailure) -> Moment?

    /// Returns the receive time of the first event after position `id` of the event feed; nil if there is no such
    /// event.
    func receivedAt(ofFirstEventAfter id: Int64) async throws(StoreFailure) -> Moment?
}
