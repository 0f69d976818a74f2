// Apple's requests for consumption information (CONSUMPTION_REQUEST), which a customer who asks for a refund causes, and
// the consent without which they are not answered.

package import Identity
package import JourneyModel

/// A driver's last answer to whether Apple may be told how a purchase was used.
package struct ConsumptionConsent: Hashable, Sendable {
    package var isGiven: Bool
    /// When it last changed.
    package var changedAt: Moment

    package init(isGiven: Bool, changedAt: Moment) {
        self.isGiven = isGiven
        self.changedAt = changedAt
    }
}

/// A request of Apple's, until it has an outcome.
package struct ConsumptionRequest: Hashable, Sendable {
    package var id: Int64
    package var environment: AppStoreEnvironment
    package var bundleID: String
    package var transactionID: String
    /// When Apple signed it.
    package var requestedAt: Moment
    /// Failed attempts to answer.
    package var attemptCount: Int
    /// Whether the owner of the purchase has given consent, and not withdrawn it. False without an owner.
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
    /// The owner of the purchase had not given consent, or has withdrawn it: Apple got no answer.
    case noConsent = "no_consent"
    /// Not answered within twelve hours, because Apple was not reached or the API is not configured.
    case tooLate = "too_late"
    /// Apple did not accept the answer.
    case rejected
}

/// Durable requests. Each change is on disk when it returns.
package protocol ConsumptionQueue: Sendable {
    /// The request whose next attempt is due first; nil if none is due. `hasConsent` is current.
    func nextConsumptionRequest(dueAt now: Moment) async throws(AccountFailure) -> ConsumptionRequest?

    func finish(_ request: Int64, _ outcome: ConsumptionOutcome, at now: Moment) async throws(AccountFailure)

    /// After a failed attempt.
    func postpone(_ request: Int64, until next: Moment) async throws(AccountFailure)
}
