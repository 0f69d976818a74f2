// The audit's words: who did what, when, from where, and how it ended. No secret, no number, no email is ever part of
// an entry.

package import JourneyModel

package enum AuditAction: String, CaseIterable, Hashable, Sendable {
    case signInApple = "sign_in_apple"
    case signInOTP = "sign_in_otp"
    case otpSend = "otp_send"
    case appleCodeExchange = "apple_code_exchange"
    case refresh
    case refreshReuse = "refresh_reuse"
    case signOut = "sign_out"
    case signOutEverywhere = "sign_out_all"
    case sessionEnded = "session_ended"
    case profileChanged = "profile_changed"
    case exported
    case erased
    case deviceAdded = "device_added"
    case deviceRemoved = "device_removed"
    case appleNotice = "apple_notice"
    /// `dwell driver sign-out` and `dwell driver erase`: the operator's doing, for a driver who called.
    case operatorSignOut = "operator_sign_out"
    case operatorErasure = "operator_erasure"
    /// A wrong OPS_TOKEN or METRICS_TOKEN; the reason names which.
    case operatorRefused = "operator_refused"
}

package enum AuditOutcome: String, Hashable, Sendable {
    case done
    case refused
    /// What was asked happened, a part of it did not (an authorization code that Apple did not exchange).
    case failed
}

/// One line of the audit, as it is read.
package struct AuditEntry: Hashable, Sendable {
    /// Ascends in the order of commits.
    package var id: Int64
    package var at: Moment
    package var action: AuditAction
    package var outcome: AuditOutcome
    /// A stable word, or the receipt of an erasure.
    package var reason: String?
    /// Nil when nobody was recognised.
    package var driver: DriverID?
    package var sid: String?
    package var address: String?
    package var requestID: String?

    package init(
        id: Int64, at: Moment, action: AuditAction, outcome: AuditOutcome, reason: String?, driver: DriverID?,
        sid: String?, address: String?, requestID: String?
    ) {
        self.id = id
        self.at = at
        self.action = action
        self.outcome = outcome
        self.reason = reason
        self.driver = driver
        self.sid = sid
        self.address = address
        self.requestID = requestID
    }
}

/// `dwell audit --driver ID`.
package protocol AuditReading: Sendable {
    /// The newest `limit` entries about a driver, the newest first.
    func entries(of driver: DriverID, limit: Int) async throws(AccountFailure) -> [AuditEntry]
}
