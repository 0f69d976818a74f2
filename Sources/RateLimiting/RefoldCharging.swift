// The cost of a late event beyond its first charge: the driver's later events are refolded until the result no longer
// changes, and the event is charged by their number.

import JourneyModel

/// The port through which the store consults and charges the rate limiter. Called on the writer; must not block.
package protocol RefoldCharging: Sendable {
    /// False while the claim's window has more charges than its limit, or when the number of other events of the driver
    /// at the same time has reached its maximum: a late event is then refused before anything of it is stored.
    func permitsRefold(_ claim: AdmissionClaim, sharingTime: Int) -> Bool

    /// `rowCount` stored events were refolded or sorted because of the claim's event, which is on disk.
    func charge(_ claim: AdmissionClaim, rowCount: Int)
}

/// Charges the window of the late event.
package struct RefoldCharges: RefoldCharging {
    /// Stored events per charge. Fewer cost nothing: 200 take half a millisecond of the writer's time, and an ordinary
    /// late event of a phone refolds fewer than ten.
    package static let rowsPerCharge = 200
    /// Maximum number of events of one driver at one corrected millisecond, where events are limited: to find the place
    /// of another one, SQLite sorts all of them, which takes 2 ms. A phone sends a few.
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
