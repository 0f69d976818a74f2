// The values of an audit entry: the action, its outcome, the driver, the time and the client's address. An entry never
// contains a secret, a phone number or an email.

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
    /// An operator ran `dwell driver sign-out` (`operatorSignOut`) or `dwell driver erase` (`operatorErasure`) at a
    /// driver's request.
    case operatorSignOut = "operator_sign_out"
    case operatorErasure = "operator_erasure"
    /// An operator ran `dwell purchases move`. The purchase's previous owner and its new owner each get an audit entry.
    case operatorPurchaseMove = "operator_purchase_move"
    /// A service requested the verification code of the driver's session.
    case sessionCode = "session_code"
    /// The driver entered a verification code.
    case sessionVerified = "session_verified"
    /// A request was rejected because its OPS_TOKEN or METRICS_TOKEN was wrong. The entry's `reason` says which of the
    /// two.
    case operatorRefused = "operator_refused"
}

package enum AuditOutcome: String, Hashable, Sendable {
    case done
    case refused
    /// The action failed, but the request succeeded. An example is the exchange of Apple's authorization code.
    case failed
}

/// One audit entry, as read.
package struct AuditEntry: Hashable, Sendable {
    /// The entry's id. It is higher than the ids of all entries that were added before. On PostgreSQL, an entry can
    /// become visible after an entry with a higher id, because transactions may be committed in another order.
    package var id: Int64
    package var at: Moment
    package var action: AuditAction
    package var outcome: AuditOutcome
    /// In an entry about a driver's deletion, the id of the deletion's receipt. In other entries, a word for the reason
    /// of the outcome, or nil. These words do not change between releases.
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

/// The port of `dwell audit --driver ID`.
package protocol AuditReading: Sendable {
    /// Returns the newest `limit` entries about a driver, newest first.
    func entries(of driver: DriverID, limit: Int) async throws(AccountFailure) -> [AuditEntry]
}
