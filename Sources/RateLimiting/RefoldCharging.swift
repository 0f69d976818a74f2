// The additional rate limit charges for a late event. Storing a late event refolds some of the driver's later events.
// The more events are refolded, the higher the charge.

import JourneyModel

/// The store's interface to the rate limiter. The store calls the methods while it writes, so they must not block.
package protocol RefoldCharging: Sendable {
    /// Returns whether the store may accept a late event. Returns false if the claim's window has more charges than its
    /// limit, or if `sharingTime` has reached its maximum.
    ///
    /// `sharingTime` is the number of the driver's stored events with the late event's corrected time.
    func permitsRefold(_ claim: AdmissionClaim, sharingTime: Int) -> Bool

    /// Charges the claim for the `rowCount` stored events that were refolded or sorted to store the claim's event.
    /// Called when that event is on disk, or when the store has given up the refold.
    func charge(_ claim: AdmissionClaim, rowCount: Int)

    /// Returns whether the claim's rate limit is off. If it is off, the store accepts late events however many events
    /// they refold.
    func isUnlimited(_ claim: AdmissionClaim) -> Bool
}

extension RefoldCharging {
    package func isUnlimited(_ claim: AdmissionClaim) -> Bool { false }
}

/// Charges refolds to the rate limit window of the late event.
package struct RefoldCharges: RefoldCharging {
    /// The number of refolded events per additional charge. A refold of fewer events costs no additional charge. A
    /// phone's ordinary late event refolds fewer than ten events.
    ///
    /// Each charge permits at most ten times the processor time of the median request (docs/cost.md). An event that
    /// refolds 100 events uses about five times the median.
    package static let rowsPerCharge = 100
    /// The maximum number of events that one driver may store in one millisecond of corrected time. It does not apply
    /// if the rate limit is off.
    ///
    /// To find the position of a late event, SQLite sorts all stored events with the same time. For 1000 events, this
    /// takes 2 ms. A phone sends only a few events with the same time.
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
