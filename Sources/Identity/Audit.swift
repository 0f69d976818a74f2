// The audit's vocabulary: who did what, when, from where, and with what outcome. An entry never contains a secret,
// a phone number or an email.

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
    /// `dwell driver sign-out` and `dwell driver erase`: done by the operator, at a driver's request.
    case operatorSignOut = "operator_sign_out"
    case operatorErasure = "operator_erasure"
    /// `dwell purchases move`, in the audit of the driver who had the purchase and of the one who has it now.
    case operatorPurchaseMove = "operator_purchase_move"
    /// A wrong OPS_TOKEN or METRICS_TOKEN; the reason names which.
    case operatorRefused = "operator_refused"
}

package enum AuditOutcome: String, Hashable, Sendable {
    case done
    case refused
    /// The request succeeded, a part of it failed (an authorization code that Apple did not exchange).
    case failed
}

/// One audit entry, as read.
package struct AuditEntry: Hashable, Sendable {
    /// Ascends in the order of commits.
    package var id: Int64
    package var at: Moment
    package var action: AuditAction
    package var outcome: AuditOutcome
    /// A stable word, or the receipt of an erasure.
    package var reason: String?
    /// Nil when no driver was recognised.
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
    /// The newest `limit` entries about a driver, newest first.
    func entries(of driver: DriverID, limit: Int) async throws(AccountFailure) -> [AuditEntry]
}
