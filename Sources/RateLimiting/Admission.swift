package import JourneyModel

/// The port that decides whether an event may be stored now. Never throws: an admission that cannot reach its Redis
/// decides in the process instead (contract, section 4).
package protocol Admission: Sendable {
    /// Charges the claim to the driver's window unless its key is known or the window is full. A repeated call with
    /// the same key while it is in the window is `.known` and charges nothing more.
    nonisolated(nonsending) func admit(_ claim: AdmissionClaim) async -> AdmissionDecision

    /// The same for several claims, in order: the first ones get what is left of a window. One decision per claim.
    nonisolated(nonsending) func admit(_ claims: [AdmissionClaim]) async -> [AdmissionDecision]

    /// The driver's quota in one limit, as far as this process knows. Charges nothing and makes no call.
    func quota(of driver: DriverID, in limitClass: RateLimitClass) -> Quota

    /// The event is on disk: a later claim with its key is `.known` and free, for as long as the key is remembered;
    /// after that the store finds the repeat, and the charge is refunded. Does not wait.
    ///
    /// - Parameter isRepeat: it was on disk before this claim.
    func recordStored(_ claim: AdmissionClaim, isRepeat: Bool)

    /// A new event is on disk whose claim was `.known`: it was admitted on the charge of another request with its
    /// key, which may be refunded. Charges the event itself, also beyond the limit, so that it is paid for whatever
    /// happens to the other one. Does not wait.
    func forceCharge(_ claim: AdmissionClaim)

    /// An `.admitted` event was refused after all, or was a repeat: refunds the charge. Does not wait.
    func refund(_ claim: AdmissionClaim)

    /// The driver was deleted: removes what is stored under its id outside this process.
    func forget(_ driver: DriverID) async

    /// Charges the claim's window `times` more, also beyond the limit, up to `RateLimits.overdraftMax`. Charges
    /// beyond the limit expire one by one, at the rate of the limit. Does not wait.
    func charge(_ claim: AdmissionClaim, times: Int)

    /// Whether the window has more charges than its limit, as far as this process knows. Makes no call.
    func isOverdrawn(by driver: DriverID, in limitClass: RateLimitClass) -> Bool
}

extension Admission {
    /// The process itself holds only hashes, until they expire.
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

    /// The claim of one request that has no key of its client's. The key is generated for each: with one chosen by the
    /// client, a repeat would be free.
    package static func ofOneRequest(_ limitClass: RateLimitClass, by driver: DriverID) -> AdmissionClaim {
        AdmissionClaim(
            driver: driver, limitClass: limitClass,
            idempotencyKey: String(UInt64.random(in: .min ... .max), radix: 36))
    }

    /// The claim of an event: with a session_id it is a session event.
    package init(driver: DriverID, hasSession: Bool, idempotencyKey: String) {
        self.init(
            driver: driver, limitClass: hasSession ? .sessionEvents : .preSessionEvents, idempotencyKey: idempotencyKey)
    }

    /// One of several charges of this claim. Clients cannot send the NUL.
    package func repeated(_ number: Int) -> AdmissionClaim {
        AdmissionClaim(driver: driver, limitClass: limitClass, idempotencyKey: "\0\(number)\0" + idempotencyKey)
    }

    /// The claim under which an event is charged by `forceCharge`: a refund of its key does not affect it. Clients
    /// cannot send the NUL.
    package var afterwards: AdmissionClaim {
        AdmissionClaim(driver: driver, limitClass: limitClass, idempotencyKey: "\0" + idempotencyKey)
    }
}

package struct AdmissionDecision: Hashable, Sendable {
    package enum Verdict: Hashable, Sendable {
        /// Charged now. Only this one may be refunded: a repeat must not refund the charge of the first.
        case admitted
        /// The key was recorded as stored, or is already charged within the window: nothing charged now. The store
        /// has the final decision.
        case known
        /// Nothing charged.
        case refused
    }

    package var verdict: Verdict
    package var quota: Quota

    package init(verdict: Verdict, quota: Quota) {
        self.verdict = verdict
        self.quota = quota
    }
}
