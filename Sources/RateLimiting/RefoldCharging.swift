// The additional charges of a late event. When a late event is stored, the driver's later events are refolded until the
// journey equals the stored one. The number of refolded events determines the number of additional charges.

import JourneyModel

/// The port through which the store queries and charges the rate limiter. The store calls the methods while it writes,
/// so they must not block.
package protocol RefoldCharging: Sendable {
    /// Returns whether a late event may be stored; if not, the store refuses it. Returns false if the claim's window
    /// has more charges than its limit, or if `sharingTime` has reached its maximum.
    ///
    /// `sharingTime` is the number of the driver's stored events with the same corrected time as the late event.
    func permitsRefold(_ claim: AdmissionClaim, sharingTime: Int) -> Bool

    /// Charges the claim for the `rowCount` stored events that were refolded or sorted when the claim's event was
    /// stored. Called when the claim's event is on disk, or when the store has given up the refold.
    func charge(_ claim: AdmissionClaim, rowCount: Int)

    /// Returns whether the claim's rate limit is off. If so, no late event is refused, however many events must be
    /// refolded.
    func isUnlimited(_ claim: AdmissionClaim) -> Bool
}

extension RefoldCharging {
    package func isUnlimited(_ claim: AdmissionClaim) -> Bool { false }
}

/// The implementation of `RefoldCharging` that charges the window of the late event.
package struct RefoldCharges: RefoldCharging {
    /// The number of refolded events per additional charge. Fewer refolded events are not charged. An ordinary late
    /// event of a phone causes a refold of fewer than ten events.
    ///
    /// A request may cost the server at most ten times as much as the median request with the same charge
    /// (docs/cost.md). An event that refolds 100 others costs about five times as much as the median event.
    package static let rowsPerCharge = 100
    /// The maximum number of events of one driver with the same corrected time in milliseconds. The maximum does not
    /// apply if the rate limit is turned off.
    ///
    /// To find the position of a further event, SQLite sorts all events with the same time, which takes 2 ms for 1000
    /// events. A phone sends only a few events with the same time.
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
