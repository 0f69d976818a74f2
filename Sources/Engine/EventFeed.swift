// Stored events, for consumers outside the database. The event table itself serves as the outbox: a consumer reads the
// events in the order of their row numbers. The database stores the row number of each consumer's last processed event.
//
// On SQLite, row numbers follow the order of the commits. On PostgreSQL, the "row number" is the event's position in
// the feed, which follows the order of transaction numbers. On both stores, a consumer that reads in this order misses
// no committed event.

package import JourneyModel

/// The port by which a consumer reads events and stores its position.
package protocol EventFeed: Sendable {
    /// Returns at most `limit` events with row numbers above `id`, each with its current verdict, in ascending order of
    /// row numbers. While a driver is being deleted, the result ends before that driver's first event.
    func storedEvents(after id: Int64, limit: Int) async throws(StoreFailure) -> [FeedEvent]

    /// Whether row numbers are consecutive. If so, a gap shows the consumer that events were deleted before it read
    /// them. If not, the store itself counts each deleted event that the consumer has not read as lost.
    var hasConsecutiveIDs: Bool { get }

    /// Returns the position of the consumer with this name. A consumer without a stored position starts at the first
    /// event.
    func position(of consumer: String) async throws(StoreFailure) -> FeedPosition

    /// Stores that the consumer has processed every event up to `id`, and that `lostCount` of the newly processed
    /// events were never delivered. A position never moves back: a call with an `id` below the stored position changes
    /// nothing. Returns once the position is on disk.
    func move(_ consumer: String, to id: Int64, losing lostCount: Int64, at now: Moment) async throws(StoreFailure)
}

package struct FeedPosition: Hashable, Sendable {
    /// The row number of the last processed event. For a new consumer, the row number before the first stored event.
    package var last: Int64
    /// The row number of the newest stored event.
    package var newest: Int64
    /// The number of processed events that were never delivered, because the service refused them or because they were
    /// deleted before they were read.
    package var lostCount: Int64
    private var countedWaiting: Int64?

    /// - Parameter waitingCount: the number of stored events that the consumer has not processed. A store may stop
    ///   counting at a high number. If row numbers are consecutive, this is nil, because the number is then the
    ///   difference of `newest` and `last`.
    package init(last: Int64, newest: Int64, lostCount: Int64, waitingCount: Int64? = nil) {
        self.last = last
        self.newest = newest
        self.lostCount = lostCount
        countedWaiting = waitingCount
    }

    package var waitingCount: Int64 { countedWaiting ?? max(newest - last, 0) }
}

/// One stored event, in the form in which consumers outside the database read it.
package struct FeedEvent: Hashable, Sendable {
    /// The event's row number. Row numbers ascend in the order in which the feed delivers the events.
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
