// The cost of a late event beyond its first charge. The driver's later events are refolded until the result no longer
// changes; the number of refolded events determines the additional charges.

import JourneyModel

/// The port through which the store reads and charges the rate limiter. Called on the writer; must not block.
package protocol RefoldCharging: Sendable {
    /// Returns whether a late event may be stored. Returns false while the claim's window has more charges than its
    /// limit, or when the driver already has the maximum number of events at the same corrected time (`sharingTime`).
    /// The event is then refused before any part of it is stored.
    func permitsRefold(_ claim: AdmissionClaim, sharingTime: Int) -> Bool

    /// Charges the claim for `rowCount` stored events that were refolded or sorted because of its event, which is on
    /// disk.
    func charge(_ claim: AdmissionClaim, rowCount: Int)
}

/// The implementation of `RefoldCharging` that charges the window of the late event.
package struct RefoldCharges: RefoldCharging {
    /// The number of refolded events per charge; fewer events are free. 200 events take half a millisecond of the
    /// writer's time, and an ordinary late event of a phone refolds fewer than ten.
    package static let rowsPerCharge = 200
    /// The maximum number of events of one driver at one corrected millisecond, if the limit is not off. To find the
    /// place of one more event, SQLite sorts all of them, which takes 2 ms for 1000 events. A phone sends a few.
    package static let sharingTimeMax = 1_000

    private let admission: any Admission
    private let limits: RateLimits

    package init(admission: any Admission, limits: RateLimits) {
        self.admission = admission
        self.limits = limits
    }

    package func permitsRefold(_ claim: AdmissionClaim, sharingTime: Int) -> Bool {
        if limits.isOff(claim.limitClass) { return true }
        return sharingTime < Self.sharingTimeMax && !admission.isOverdrawn(by: claim.driver, in: claim.limitClass)
    }

    package func charge(_ claim: AdmissionClaim, rowCount: Int) {
        let charges = rowCount / Self.rowsPerCharge
        if charges > 0 { admission.charge(claim, times: charges) }
    }
}
