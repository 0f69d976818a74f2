// Stored events, for consumers outside the database. The event table serves as the outbox: consumers read events in the
// order of row numbers. The database stores the last row number that each consumer has processed.
//
// On SQLite, row numbers follow the order of commits. On PostgreSQL, "row number" means the event's position in the
// feed, which follows the order of transaction numbers. On both stores, a consumer misses no committed event.

package import JourneyModel

/// The port by which a consumer reads events and stores its position.
package protocol EventFeed: Sendable {
    /// Returns at most `limit` events with row numbers above `id`, in ascending order, each with its current verdict.
    /// If a driver is being deleted, the result ends before that driver's first event.
    func storedEvents(after id: Int64, limit: Int) async throws(StoreFailure) -> [FeedEvent]

    /// Whether row numbers are consecutive. If true, a gap tells the consumer that events were deleted before it read
    /// them, and the consumer counts them as lost. If false, the store itself counts them.
    var hasConsecutiveIDs: Bool { get }

    /// Returns the position of the named consumer. Without a stored position, the consumer starts at the first event.
    func position(of consumer: String) async throws(StoreFailure) -> FeedPosition

    /// Stores on disk that the consumer has processed every event up to `id`. `lostCount` is how many of the newly
    /// processed events were never delivered. If `id` is below the stored position, nothing changes.
    func move(_ consumer: String, to id: Int64, losing lostCount: Int64, at now: Moment) async throws(StoreFailure)
}

package struct FeedPosition: Hashable, Sendable {
    /// The row number of the last processed event. For a new consumer, the row number before the first stored event.
    package var last: Int64
    /// The row number of the newest stored event.
    package var newest: Int64
    /// The number of processed events that were never delivered: the service refused them, or they were deleted before
    /// they were read.
    package var lostCount: Int64
    private var countedWaiting: Int64?

    /// - Parameter waitingCount: the number of stored events that the consumer has not processed, possibly limited to a
    ///   high number. If row numbers are consecutive, this is nil, because `newest` minus `last` gives the number.
    package init(last: Int64, newest: Int64, lostCount: Int64, waitingCount: Int64? = nil) {
        self.last = last
        self.newest = newest
        self.lostCount = lostCount
        countedWaiting = waitingCount
    }

    package var waitingCount: Int64 { countedWaiting ?? max(newest - last, 0) }
}

/// One stored event, as consumers outside the database read it.
package struct FeedEvent: Hashable, Sendable {
    /// The row number. The feed delivers events in ascending order of row numbers.
    package var id: Int64
    package var driver: DriverID
    package var eventID: String
    package var name: EventName
    package var sessionID: String?
    package var sent: SentMembers
    /// When the event happened, corrected to the server's clock.
    package var occurredAt: Moment
    package var receivedAt: Moment
    /// The metadata as a compact JSON object. It may contain coordinates.
    package var metadata: String?
    package var settingsVersion: String
    package var verdict: Verdict
    /// The driver's state right after the event.
    package var state: JourneyState
    /// The reason why the journey ended, if `state` is SESSION_ENDED.
    package var endedBy: Journey.Ending?

    package init(
        id: Int64, driver: DriverID, eventID: String, name: EventName, sessionID: String?, sent: SentMembers,
        occurredAt: Moment, receivedAt: Moment, metadata: String?, settingsVersion: String, verdict: Verdict,
        state: JourneyState,
        endedBy: Journey.Ending? = nil
    ) {
        self.id = id
        self.driver = driver
        self.eventID = eventID
        self.name = name
        self.sessionID = sessionID
        self.sent = sent
        self.occurredAt = occurredAt
        self.receivedAt = receivedAt
        self.metadata = metadata
        self.settingsVersion = settingsVersion
        self.verdict = verdict
        self.state = state
        self.endedBy = endedBy
    }
}
