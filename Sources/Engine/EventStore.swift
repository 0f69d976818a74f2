package import JourneyModel

/// The port that makes events durable. Each implementation passes `EventStoreContract` in TestSupport.
package protocol EventStore: Sendable {
    /// Makes one event durable, or finds it already stored, or refuses it. Returns only after the transaction that
    /// stored the event is on disk. A refused event changes nothing in the database, nor for other events in its
    /// transaction. Appends of one driver take effect in the order of the calls.
    ///
    /// Cancelling the calling task cancels neither the wait nor the commit.
    nonisolated(nonsending) func append(_ request: consuming AppendRequest) async -> EventOutcome

    /// Appends several events, in order, each as `append` does for one. The store chooses the number of transactions.
    /// Returns one outcome per request.
    nonisolated(nonsending) func append(_ requests: [AppendRequest]) async -> [EventOutcome]

    /// Returns the outcome that `append` returns for a repeat (`.replayed`, or `.keyReused` when the canonical form
    /// differs); nil when this driver has no event with that key. Called for a request that the rate limiter would
    /// refuse, because a repeat is not charged.
    func lookUp(_ submission: EventSubmission, of driver: DriverID) async throws(StoreFailure) -> EventOutcome?

    /// Looks up several submissions in one read of the store. Returns one element per submission.
    func lookUp(_ submissions: [EventSubmission], of driver: DriverID) async throws(StoreFailure) -> [EventOutcome?]

    /// Registers a session before its first event (`POST /native/sessions`).
    func register(_ registration: SessionRegistration) async throws(StoreFailure) -> RegistrationOutcome
}

/// One event to be stored, with the time and the settings, which the store must not look up itself.
package struct AppendRequest: Sendable {
    package var driver: DriverID
    package var submission: EventSubmission
    package var receivedAt: Moment
    package var settings: VersionedSettings
    /// `SESSION_REGISTRATION=required`: an unknown session_id is refused instead of opened.
    package var requiresRegisteredSession: Bool

    package init(
        driver: DriverID, submission: EventSubmission, receivedAt: Moment, settings: VersionedSettings,
        requiresRegisteredSession: Bool = false
    ) {
        self.driver = driver
        self.submission = submission
        self.receivedAt = receivedAt
        self.settings = settings
        self.requiresRegisteredSession = requiresRegisteredSession
    }
}

package struct SessionRegistration: Sendable {
    package var sessionID: String
    package var driver: DriverID
    package var chargerID: String?
    package var merchantID: String?
    package var receivedAt: Moment

    package init(sessionID: String, driver: DriverID, chargerID: String?, merchantID: String?, receivedAt: Moment) {
        self.sessionID = sessionID
        self.driver = driver
        self.chargerID = chargerID
        self.merchantID = merchantID
        self.receivedAt = receivedAt
    }
}

package enum RegistrationOutcome: Hashable, Sendable {
    case created
    /// This driver has already registered the session; the first registration remains.
    case existed
    /// The session belongs to another driver: 404.
    case sessionNotFound
}

/// The reason why the store failed. A phone's retry queue relies on these cases (contract, section 5).
package enum StoreFailure: Error, Hashable, Sendable {
    /// Not stored, because the event's driver was deleted during the request, and must not be created again: 401.
    case driverErased
    /// The event is certainly not stored: 503. The text is for the log, never for the client.
    case unavailable(String)
    /// The commit itself failed; the event may or may not be stored: 500.
    case unknown(String)
    /// The task was cancelled while a read waited. The store works; the caller no longer needs the result. Reads only.
    case cancelled
}
