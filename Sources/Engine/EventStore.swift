package import JourneyModel
package import RateLimiting

/// The port that makes events durable. Each implementation passes `EventStoreContract` in TestSupport.
package protocol EventStore: Sendable {
    /// Stores one event, unless it is already stored or the store refuses it. If the event is stored, returns only
    /// after its transaction is on disk.
    ///
    /// A refused event changes nothing in the database, and does not affect the other events of its transaction. The
    /// events of a driver are applied in the order of the calls.
    ///
    /// If the calling task is cancelled, the event is still stored, and the call still waits for the commit.
    nonisolated(nonsending) func append(_ request: consuming AppendRequest) async -> EventOutcome

    /// Appends the events in order, as if `append` were called for each event. The store decides how many transactions
    /// it uses. Returns one outcome per request.
    nonisolated(nonsending) func append(_ requests: [AppendRequest]) async -> [EventOutcome]

    /// Looks for the driver's stored event with the idempotency key of `submission`. Returns `.replayed` if the members
    /// of both events are the same, `.keyReused` if they differ, and nil without such an event.
    ///
    /// `Ingest` calls this method for an event that is over the rate limit, because even then a repeat gets its
    /// response.
    func lookUp(_ submission: EventSubmission, of driver: DriverID) async throws(StoreFailure) -> EventOutcome?

    /// Looks up several submissions with one read of the store. Returns one element per submission.
    func lookUp(_ submissions: [EventSubmission], of driver: DriverID) async throws(StoreFailure) -> [EventOutcome?]

    /// Registers a session before its first event (`POST /native/sessions`).
    func register(_ registration: SessionRegistration) async throws(StoreFailure) -> RegistrationOutcome
}

/// A request to store one event. It contains the time and the settings, because the store must not look them up.
package struct AppendRequest: Sendable {
    package var driver: DriverID
    package var submission: EventSubmission
    package var receivedAt: Moment
    /// The driver's settings. They do not apply if `chargerSettings` has settings for the event's charger.
    package var settings: VersionedSettings
    /// The settings for certain chargers; empty if no rule of SETTINGS_RULES_FILE names chargers. The store determines
    /// the event's charger (`Journey.settingsCharger`).
    package var chargerSettings: [SettingsChoice.ForChargers]
    /// Whether an event with an unknown session_id is refused (`SESSION_REGISTRATION=required`). If false, such an
    /// event opens a session.
    package var requiresRegisteredSession: Bool
    package var sender: OrderedEvent.Sender
    /// The service that sent the event. Nil for an event of the driver's app, and for the event that the server makes
    /// when the driver enters the right verification code.
    ///
    /// A service's event counts against the rate limit of the service. If the event names an unknown driver, it is
    /// refused with `driverNotFound`.
    package var service: DriverID?

    package init(
        driver: DriverID, submission: EventSubmission, receivedAt: Moment, settings: VersionedSettings,
        chargerSettings: [SettingsChoice.ForChargers] = [], requiresRegisteredSession: Bool = false,
        sender: OrderedEvent.Sender = .app, service: DriverID? = nil
    ) {
        self.sender = sender
        self.service = service
        self.driver = driver
        self.submission = submission
        self.receivedAt = receivedAt
        self.settings = settings
        self.chargerSettings = chargerSettings
        self.requiresRegisteredSession = requiresRegisteredSession
    }
}

extension AppendRequest {
    /// The event's idempotency key, and the driver or service whose rate limit applies.
    package var claim: AdmissionClaim { .ofEvent(submission, of: driver, from: service) }
}

extension AdmissionClaim {
    static func ofEvent(
        _ submission: EventSubmission, of driver: DriverID, from service: DriverID?
    ) -> AdmissionClaim {
        if let service {
            return AdmissionClaim(service: service, driver: driver, idempotencyKey: submission.idempotencyKey)
        }
        return AdmissionClaim(
            driver: driver, hasSession: submission.sessionID != nil, idempotencyKey: submission.idempotencyKey)
    }
}

extension ClockCorrection {
    /// Returns the correction of the phone's clock for the request's event.
    ///
    /// - Parameter memory: what the driver's earlier events have shown about the phone's clock.
    package init(_ request: AppendRequest, memory: ClockMemory) {
        if request.sender == .service {
            self = .ofService(
                occurredAt: request.submission.occurredAt,
                sentAt: request.submission.sentAt ?? request.submission.timestamp, receivedAt: request.receivedAt,
                memory: memory)
        } else {
            self.init(
                occurredAt: request.submission.occurredAt, sentAt: request.submission.sentAt,
                timestamp: request.submission.timestamp, receivedAt: request.receivedAt, memory: memory)
        }
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
    /// The driver already has this session. If the session was registered before, that registration stays unchanged. If
    /// only an event had opened the session, it is registered now.
    case existed
    /// The session belongs to another driver: 404.
    case sessionNotFound
}

/// Why the store failed. The retry queues of phones need the difference between these cases (contract, section 5).
package enum StoreFailure: Error, Hashable, Sendable {
    /// The event is not stored: 401. Its driver was deleted during the request, and the event must not create the
    /// driver again.
    case driverErased
    /// The event is certainly not stored: 503. The text is for the log and never reaches the client.
    case unavailable(String)
    /// The commit failed, so the event may or may not be stored: 500.
    case unknown(String)
    /// The task was cancelled, so the caller no longer needs the result. The store did not fail.
    ///
    /// Only three kinds of work can be cancelled: a waiting read, a pause of background work, and the deletion of a
    /// driver. A deletion has several steps, and is cancelled only between two steps. UnfinishedErasures completes the
    /// cancelled deletion.
    case cancelled
}
