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

/// The windows of contract, section 4. An event is counted by whether it has a session_id. `auth` counts requests
/// to the sign-in routes, with the client's address in place of the driver. The others count a driver's requests to
/// the routes that name them (API/Routes.swift).
package enum RateLimitClass: String, Hashable, Sendable, CaseIterable {
    case sessionEvents = "session"
    case preSessionEvents = "presession"
    case auth
    /// Sessions registered before their first event.
    case registrations
    /// Devices added, replaced and removed.
    case devices
    /// Changes of the account and of its sign-in sessions, and exports.
    case account
    /// Requests that read the database and change nothing.
    case reads
    /// Background pings: counted, nothing stored.
    case pings
    /// Purchases sent by the app.
    case purchases
    /// App Store notifications that Apple did not sign, with the client's address in place of the driver.
    case notifications
    /// Wrong tokens on the operator's routes, with the client's address in place of the driver.
    case operatorGuesses = "operator"
    /// Refused events, and bytes in excess of events (API/RefusalLimit.swift).
    case refusals

    /// The classes of events, in the order of the `RateLimit` fields of a response.
    package static let ofEvents: [RateLimitClass] = [.sessionEvents, .preSessionEvents]

    /// The classes whose windows are stored under a driver's id.
    package static let ofDrivers = allCases.filter {
        $0 != .auth && $0 != .operatorGuesses && $0 != .notifications
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

/// The driver's quota in one limit after a decision; the values of the `RateLimit` fields.
package struct Quota: Hashable, Sendable {
    /// 0 when the limit is off.
    package var limit: Int
    package var windowSeconds: Int
    package var remaining: Int
    /// Milliseconds until the oldest charge leaves the window, so that one more fits; 0 when the window is empty.
    package var resetMilliseconds: Int64

    package init(limit: Int, windowSeconds: Int, remaining: Int, resetMilliseconds: Int64) {
        self.limit = limit
        self.windowSeconds = windowSeconds
        self.remaining = remaining
        self.resetMilliseconds = resetMilliseconds
    }

    /// The quota after `count` charges were refunded. Unchanged for a limit that is off.
    package func withBack(_ count: Int) -> Quota {
        var quota = self
        quota.remaining = min(remaining + count, limit)
        if quota.remaining == limit { quota.resetMilliseconds = 0 }
        return quota
    }
}

/// `RATE_LIMIT_SESSION_EVENTS`, `RATE_LIMIT_PRESESSION_EVENTS`, `RATE_LIMIT_AUTH`, `RATE_LIMIT_REGISTRATIONS`,
/// `RATE_LIMIT_DEVICES`, `RATE_LIMIT_ACCOUNT`, `RATE_LIMIT_READS`, `RATE_LIMIT_PINGS`, `RATE_LIMIT_PURCHASES`,
/// `RATE_LIMIT_NOTIFICATIONS`, `RATE_LIMIT_OPERATOR`, `RATE_LIMIT_WINDOW_SECONDS`; a limit of 0 is off.
package struct RateLimits: Hashable, Sendable {
    /// Maximum charges of a window beyond its limit: bounds its memory and the time until it has room again.
    package static let overdraftMax = 10_000

    package var sessionEvents: Int
    package var preSessionEvents: Int
    package var auth: Int
    package var registrations: Int
    package var devices: Int
    package var account: Int
    package var reads: Int
    package var pings: Int
    package var purchases: Int
    package var notifications: Int
    package var operatorGuesses: Int
    package var windowSeconds: Int

    package init(
        sessionEvents: Int = 60, preSessionEvents: Int = 30, auth: Int = 30, registrations: Int = 20,
        devices: Int = 10, account: Int = 20, reads: Int = 600, pings: Int = 60, purchases: Int = 30,
        notifications: Int = 30, operatorGuesses: Int = 10, windowSeconds: Int = 60
    ) {
        self.sessionEvents = sessionEvents
        self.preSessionEvents = preSessionEvents
        self.auth = auth
        self.registrations = registrations
        self.devices = devices
        self.account = account
        self.reads = reads
        self.pings = pings
        self.purchases = purchases
        self.notifications = notifications
        self.operatorGuesses = operatorGuesses
        self.windowSeconds = windowSeconds
    }

    package func limit(of limitClass: RateLimitClass) -> Int {
        switch limitClass {
        case .sessionEvents: sessionEvents
        case .preSessionEvents: preSessionEvents
        case .auth: auth
        case .registrations: registrations
        case .devices: devices
        case .account: account
        case .reads: reads
        case .pings: pings
        case .purchases: purchases
        case .notifications: notifications
        case .operatorGuesses: operatorGuesses
        // Ten times the session events, so that a queue of 500 events sent at once fits; off when they are off.
        case .refusals: sessionEvents > 0 ? max(600, 10 * sessionEvents) : 0
        }
    }
}
