// When a customer asks for a refund, Apple asks how the purchase was used (CONSUMPTION_REQUEST). The server answers
// only if the driver has consented.

package import Identity
package import JourneyModel

/// Whether the driver permits the server to tell Apple how the driver's purchases were used.
package struct ConsumptionConsent: Hashable, Sendable {
    package var isGiven: Bool
    /// The time when `isGiven` last changed.
    package var changedAt: Moment

    package init(isGiven: Bool, changedAt: Moment) {
        self.isGiven = isGiven
        self.changedAt = changedAt
    }
}

/// A request from Apple that has no outcome yet.
package struct ConsumptionRequest: Hashable, Sendable {
    package var id: Int64
    package var environment: AppStoreEnvironment
    package var bundleID: String
    package var transactionID: String
    /// The time when Apple signed the request.
    package var requestedAt: Moment
    /// The number of failed attempts to answer.
    package var attemptCount: Int
    /// Whether the purchase has an owner who consents now.
    package var hasConsent: Bool

    package init(
        id: Int64, environment: AppStoreEnvironment, bundleID: String, transactionID: String, requestedAt: Moment,
        attemptCount: Int, hasConsent: Bool
    ) {
        self.id = id
        self.environment = environment
        self.bundleID = bundleID
        self.transactionID = transactionID
        self.requestedAt = requestedAt
        self.attemptCount = attemptCount
        self.hasConsent = hasConsent
    }
}

package enum ConsumptionOutcome: String, Hashable, Sendable, CaseIterable {
    case answered
    /// No answer was sent, because the purchase has no owner or its owner does not consent.
    case noConsent = "no_consent"
    /// Twelve hours passed without an answer, because Apple was unreachable or the API was not configured.
    case tooLate = "too_late"
    /// Apple did not accept the answer, or this server does not accept the environment of the request.
    case rejected
}

/// The durable queue of Apple's requests. Every method that changes the queue returns when the change is on disk.
package protocol ConsumptionQueue: Sendable {
    /// Returns the due request whose next attempt is earliest; nil if no request is due. `hasConsent` is the owner's
    /// current consent.
    func nextConsumptionRequest(dueAt now: Moment) async throws(AccountFailure) -> ConsumptionRequest?

    func finish(_ request: Int64, _ outcome: ConsumptionOutcome, at now: Moment) async throws(AccountFailure)

    /// Schedules the next attempt after a failed one.
    func postpone(_ request: Int64, until next: Moment) async throws(AccountFailure)
}
