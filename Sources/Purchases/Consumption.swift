// Apple's requests for consumption information (CONSUMPTION_REQUEST), and the driver's consent to answering these
// requests. Apple sends such a request when a customer asks for a refund. Without consent, the request is not answered.

package import Identity
package import JourneyModel

/// A driver's decision whether the server may tell Apple how a purchase was used: consent or refusal.
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
    /// Whether the owner of the purchase consents now. False if the owner has not given consent or has withdrawn it, or
    /// if the purchase has no owner.
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
    /// No answer was sent, because the purchase has no owner, or because the owner did not consent or has withdrawn
    /// consent.
    case noConsent = "no_consent"
    /// No answer was sent within twelve hours, because Apple was unreachable or the API was not configured.
    case tooLate = "too_late"
    /// Apple did not accept the answer, or this server does not accept the environment of the request.
    case rejected
}

/// The durable queue of Apple's requests. Every method that changes the queue returns when the change is on disk.
package protocol ConsumptionQueue: Sendable {
    /// Returns the request whose next attempt is due first, with the current `hasConsent`. Returns nil if no attempt is
    /// due.
    func nextConsumptionRequest(dueAt now: Moment) async throws(AccountFailure) -> ConsumptionRequest?

    func finish(_ request: Int64, _ outcome: ConsumptionOutcome, at now: Moment) async throws(AccountFailure)

    /// Schedules the next attempt after a failed one.
    func postpone(_ request: Int64, until next: Moment) async throws(AccountFailure)
}
