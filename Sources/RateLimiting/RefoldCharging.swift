// The additional charges of a late event. When a late event is stored, the driver's events after it are refolded until
// the result no longer changes. The number of refolded events determines the number of additional charges.

import JourneyModel

/// The port through which the store queries and charges the rate limiter. The store calls the methods while it writes,
/// so they must not block.
package protocol RefoldCharging: Sendable {
    /// Returns whether a late event may be stored; if not, the store refuses it. `sharingTime` is the number of the
    /// driver's events with the same corrected time. Returns false if `sharingTime` has reached its maximum. Also
    /// returns false if the claim's window has more charges than its limit.
    func permitsRefold(_ claim: AdmissionClaim, sharingTime: Int) -> Bool

    /// Charges the claim for `rowCount` stored events, which were refolded or sorted in order to store the claim's
    /// event. Called when the claim's event is on disk, or when the store has given up the refold.
    func charge(_ claim: AdmissionClaim, rowCount: Int)

    /// Returns whether the claim's rate limit is off. Then no late event is refused, however many events it refolds.
    func isUnlimited(_ claim: AdmissionClaim) -> Bool
}

extension RefoldCharging {
    package func isUnlimited(_ claim: AdmissionClaim) -> Bool { false }
}

/// The implementation of `RefoldCharging` that charges the window of the late event.
package struct RefoldCharges: RefoldCharging {
    /// The number of refolded events per additional charge. Fewer refolded events cost nothing. A request may cost the
    /// server at most ten times as much as the median request with the same charge (docs/cost.md). An event that
    /// refolds 100 others costs about five times as much as the median event. An ordinary late event of a phone refolds
    /// fewer than ten events.
    package static let rowsPerCharge = 100
    /// The maximum number of events of one driver with the same corrected time in milliseconds. The maximum does not
    /// apply if the rate limit is turned off. To find the place of a further event in the order, SQLite sorts all
    /// events with the same time, which takes 2 ms for 1000 events. A phone sends only a few events with the same time.
    package static let sharingTimeMax = 1_000

    private let admission: any Admission
    private let limits: RateLimits

    package init(admission: any Admission, limits: RateLimits) {
        self.admission = admission
        self.limits = limits
    }

    package func permitsRefold(_ claim: AdmissionClaim, sharingTime: Int) -> Bool {
        if isUnlimited(claim) { return true }
        return sharingTime < Self.sharingTimeMax && !admission.isOverdrawn(by: claim.driver, in: claim.limitClass)
    }

    package func isUnlimited(_ claim: AdmissionClaim) -> Bool { limits.isOff(claim.limitClass) }

    package func charge(_ claim: AdmissionClaim, rowCount: Int) {
        let charges = rowCount / Self.rowsPerCharge
        if charges > 0 { admission.charge(claim, times: charges) }
    }
}
