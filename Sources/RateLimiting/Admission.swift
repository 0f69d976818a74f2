package import JourneyModel

/// The port that decides whether the rate limits permit an event or a request now. Its methods never throw. If Redis
/// cannot be reached, the limiter in this process decides (contract, section 4).
package protocol Admission: Sendable {
    /// Adds one charge for the claim to the driver's rate limit window. Charges nothing if the window is full, or if
    /// the idempotency key is known (`.known`). While a charge is in the window, its key is known.
    nonisolated(nonsending) func admit(_ claim: AdmissionClaim) async -> AdmissionDecision

    /// Decides several claims in order, so that earlier claims use the remaining quota first. Returns one decision per
    /// claim.
    nonisolated(nonsending) func admit(_ claims: [AdmissionClaim]) async -> [AdmissionDecision]

    /// Returns the driver's quota in one class, as counted in this process. Charges nothing and does not call Redis.
    ///
    /// Charges by other processes are not included. Exception: if Redis replied to `charge` that the driver's window in
    /// Redis is full, this quota is exhausted too.
    func quota(of driver: DriverID, in limitClass: RateLimitClass) -> Quota

    /// Records that the claim's event is on disk. Does not wait.
    ///
    /// While the limiter keeps the idempotency key, claims with this key are `.known` and are not charged. After the
    /// limiter has dropped the key, a repeat of the event is charged. The charge is refunded when the store recognises
    /// the repeat.
    ///
    /// - Parameter isRepeat: whether the event was on disk before this claim.
    func recordStored(_ claim: AdmissionClaim, isRepeat: Bool)

    /// Charges a new event whose claim was `.known`. The event is already on disk, so it is charged even beyond the
    /// limit. Does not wait.
    ///
    /// `admit` did not charge the claim, because an earlier request with the same key was charged. If that request was
    /// refused, its charge may be refunded. The event therefore needs a charge of its own.
    func forceCharge(_ claim: AdmissionClaim)

    /// Refunds the charge of an `.admitted` event. Called if the event was refused later or was a repeat. Does not
    /// wait.
    func refund(_ claim: AdmissionClaim)

    /// Removes the rate limit windows of a deleted driver, in this process and in Redis.
    func forget(_ driver: DriverID) async

    /// Adds `times` charges to the claim's rate limit window, but at most `RateLimits.chargesMax`. Does not wait.
    ///
    /// The window may then have more charges than its limit, by at most `RateLimits.overdraftMax`. The charges beyond
    /// the limit expire one by one, at the rate that the limit permits.
    func charge(_ claim: AdmissionClaim, times: Int)

    /// Returns whether the driver's rate limit window has more charges than its limit. Uses the count in this process,
    /// and does not call Redis.
    func isOverdrawn(by driver: DriverID, in limitClass: RateLimitClass) -> Bool
}

extension Admission {
    /// Does nothing. This default is for limiters that keep no windows.
    package func forget(_ driver: DriverID) async {}

    package nonisolated(nonsending) func admit(_ claims: [AdmissionClaim]) async -> [AdmissionDecision] {
        var decisions: [AdmissionDecision] = []
        decisions.reserveCapacity(claims.count)
        for claim in claims { decisions.append(await admit(claim)) }
        return decisions
    }
}

package struct AdmissionClaim: Hashable, Sendable {
    package var driver: DriverID
    package var limitClass: RateLimitClass
    package var idempotencyKey: String

    package init(driver: DriverID, limitClass: RateLimitClass, idempotencyKey: String) {
        self.driver = driver
        self.limitClass = limitClass
        self.idempotencyKey = idempotencyKey
    }

    /// Returns a claim with a random key, for a request without an idempotency key. If clients chose the key, requests
    /// with a repeated key would be free.
    package static func ofOneRequest(_ limitClass: RateLimitClass, by driver: DriverID) -> AdmissionClaim {
        AdmissionClaim(
            driver: driver, limitClass: limitClass,
            idempotencyKey: String(UInt64.random(in: .min ... .max), radix: 36))
    }

    /// Creates the claim of an event. An event with a session_id is a session event.
    package init(driver: DriverID, hasSession: Bool, idempotencyKey: String) {
        self.init(
            driver: driver, limitClass: hasSession ? .sessionEvents : .preSessionEvents, idempotencyKey: idempotencyKey)
    }

    /// Creates the claim of an event that a service posts for a driver. Events of different drivers may have the same
    /// idempotency key, so the claim's key contains the driver.
    package init(service: DriverID, driver: DriverID, idempotencyKey: String) {
        self.init(
            driver: service, limitClass: .serviceEvents, idempotencyKey: "\(driver.rawValue)\0\(idempotencyKey)")
    }

    /// Returns a claim for an additional charge to the same window. Each additional charge needs its own `number`. The
    /// key contains NUL, which no client can send.
    package func repeated(_ number: Int) -> AdmissionClaim {
        AdmissionClaim(driver: driver, limitClass: limitClass, idempotencyKey: "\0\(number)\0" + idempotencyKey)
    }

    /// The claim of a `forceCharge`. Its key is not the event's key, so that a refund for the event does not remove
    /// this charge. Clients cannot send this key, because it contains NUL.
    package var afterwards: AdmissionClaim {
        AdmissionClaim(driver: driver, limitClass: limitClass, idempotencyKey: "\0" + idempotencyKey)
    }
}

package struct AdmissionDecision: Hashable, Sendable {
    package enum Verdict: Hashable, Sendable {
        /// The claim was charged now. Only `.admitted` claims may be refunded. A refund of a `.known` claim would
        /// remove the charge of an earlier request with the same key.
        case admitted
        /// Nothing was charged, because the idempotency key is known: it belongs to a stored event, or it was already
        /// charged within the window. The store decides later whether the event is a repeat.
        case known
        /// Nothing was charged, because the driver's window is full.
        case refused
    }

    package var verdict: Verdict
    package var quota: Quota

    package init(verdict: Verdict, quota: Quota) {
        self.verdict = verdict
        self.quota = quota
    }
}
