package import JourneyModel

/// The port that makes events durable. Each implementation passes `EventStoreContract` in TestSupport.
package protocol EventStore: Sendable {
    /// Makes one event durable, or finds it already stored, or refuses it. Returns only after the transaction that
    /// stored it is on disk. A refused event leaves nothing behind, and does not affect the others in its
    /// transaction. Appends of one driver take effect in the order of the calls.
    ///
    /// Cancelling the calling task cancels neither the wait nor the commit.
    nonisolated(nonsending) func append(_ request: consuming AppendRequest) async -> EventOutcome

    /// The same for several requests, in order, in as few transactions as the store chooses: one outcome per request.
    nonisolated(nonsending) func append(_ requests: [AppendRequest]) async -> [EventOutcome]

    /// The stored event under this driver's key, if there is one, exactly as `append` returns it for a repeat
    /// (`.replayed`, or `.keyReused` when the canonical form differs); nil when the key is new. Read for a request that
    /// the rate limiter would refuse: a repeat costs nothing.
    func lookUp(_ submission: EventSubmission, of driver: DriverID) async throws(StoreFailure) -> EventOutcome?

    /// The same for several submissions, in one read of the store.
    func lookUp(_ submissions: [EventSubmission], of driver: DriverID) async throws(StoreFailure) -> [EventOutcome?]

    /// Registers a session before its first event (`POST /native/sessions`).
    func register(_ registration: SessionRegistration) async throws(StoreFailure) -> RegistrationOutcome
}

/// One event to be stored, with everything that the store must not look up itself: time and settings.
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
    /// This driver has registered it already; the first registration remains.
    case existed
    /// Another driver's: 404.
    case sessionNotFound
}

/// Why the store failed. The cases are promises to a phone's retry queue (contract, section 5).
package enum StoreFailure: Error, Hashable, Sendable {
    /// Not stored: its driver was deleted during the request, and must not be created again. 401.
    case driverErased
    /// Certainly not stored: 503. The text is for the log, never for the client.
    case unavailable(String)
    /// The commit itself failed; may or may not be stored: 500.
    case unknown(String)
    /// For reads only: the task was cancelled while it waited. The store works, and no one receives the result.
    case cancelled
}
