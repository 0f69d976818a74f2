// The rate limits: their classes, their values, and the arithmetic that the windows in the process and the windows in
// Redis share.
//
// A window holds the charges of one driver in one class. A charge is one unit that a class counts, such as an event or
// a request. A charge counts towards the limit for `windowSeconds`.

/// The classes of rate limits (contract, section 4). Each class counts a driver's requests to the routes that name the
/// class (API/Routes.swift). If a class counts something else, its comment says so.
package enum RateLimitClass: String, Hashable, Sendable, CaseIterable {
    /// Events with a session_id.
    case sessionEvents = "session"
    /// Events without a session_id.
    case preSessionEvents = "presession"
    /// Events that a service posts for drivers, and the codes that it requests. One window per service.
    case serviceEvents = "service"
    /// Requests to the sign-in routes. One window per client address instead of one per driver.
    case auth
    /// Sessions registered before their first event, and verification codes entered.
    case registrations
    /// Devices added, replaced and removed.
    case devices
    /// Changes of the account and of its sign-in sessions, and exports.
    case account
    /// Requests that read the database and change nothing.
    case reads
    /// Background pings, which are counted and not stored.
    case pings
    /// Purchases that the app sends.
    case purchases
    /// Rejected App Store notifications: texts without a valid signature by Apple, notifications for other apps, and
    /// bodies that cannot be decoded. One window per client address.
    case notifications
    /// Wrong tokens on the operator's routes. One window per client address.
    case operatorGuesses = "operator"
    /// Refused events, repeats, and excess bytes. A body's excess bytes are those beyond the length that is allowed for
    /// its number of events (`RefusalLimit`).
    case refusals

    /// The classes of events, in the order of the `RateLimit` fields of a response.
    package static let ofEvents: [RateLimitClass] = [.sessionEvents, .preSessionEvents]

    /// The classes whose windows are stored under the `sub` of a token: a driver's id, or a service's.
    package static let ofDrivers = allCases.filter {
        $0 != .auth && $0 != .operatorGuesses && $0 != .notifications
    }
}

/// The values of the environment variables `RATE_LIMIT_SESSION_EVENTS`, `RATE_LIMIT_PRESESSION_EVENTS`,
/// `RATE_LIMIT_SERVICE_EVENTS`, `RATE_LIMIT_AUTH`, `RATE_LIMIT_REGISTRATIONS`, `RATE_LIMIT_DEVICES`,
/// `RATE_LIMIT_ACCOUNT`, `RATE_LIMIT_READS`, `RATE_LIMIT_PINGS`, `RATE_LIMIT_PURCHASES`, `RATE_LIMIT_NOTIFICATIONS`,
/// `RATE_LIMIT_OPERATOR` and `RATE_LIMIT_WINDOW_SECONDS`. A limit of 0 is off.
package struct RateLimits: Hashable, Sendable {
    /// The maximum number of charges that a window may hold beyond its limit. This maximum bounds the window's memory
    /// and the time until a new charge fits.
    package static let overdraftMax = 10_000

    package var sessionEvents: Int
    package var preSessionEvents: Int
    package var serviceEvents: Int
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
        sessionEvents: Int = 60, preSessionEvents: Int = 30, serviceEvents: Int = 6000, auth: Int = 30,
        registrations: Int = 20, devices: Int = 10, account: Int = 20, reads: Int = 600, pings: Int = 60,
        purchases: Int = 30,
        notifications: Int = 30, operatorGuesses: Int = 10, windowSeconds: Int = 60
    ) {
        self.sessionEvents = sessionEvents
        self.preSessionEvents = preSessionEvents
        self.serviceEvents = serviceEvents
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
        case .serviceEvents: serviceEvents
        case .auth: auth
        case .registrations: registrations
        case .devices: devices
        case .account: account
        case .reads: reads
        case .pings: pings
        case .purchases: purchases
        case .notifications: notifications
        case .operatorGuesses: operatorGuesses
        // Ten times the limit of session events, but at least 600, so that one batch of 500 refused events always fits.
        // This limit is off only if both `sessionEvents` and `preSessionEvents` are off.
        case .refusals: max(sessionEvents, preSessionEvents) > 0 ? max(600, 10 * sessionEvents) : 0
        }
    }
}

extension RateLimits {
    /// The length of the window, clamped to the range from 1 second to 366 days. Adding it to a time in milliseconds
    /// therefore cannot overflow.
    package var windowMilliseconds: Int64 { Int64(min(max(windowSeconds, 1), 366 * 86_400)) * 1000 }

    /// Returns whether the limit is off, that is, 0 or below.
    package func isOff(_ limitClass: RateLimitClass) -> Bool { limit(of: limitClass) <= 0 }

    /// Returns the maximum number of charges that one call of `Admission.charge` adds to a window.
    ///
    /// For the class `refusals`, the maximum is the limit. More charges would only use memory, because no body is read
    /// while the window is full.
    ///
    /// In the other classes, the maximum is `overdraftMax`. For example, a late event needs many charges if many stored
    /// events are refolded.
    package func chargesMax(of limitClass: RateLimitClass) -> Int {
        limitClass == .refusals ? limit(of: limitClass) : Self.overdraftMax
    }

    /// The decision for every claim when the limit is off: `.admitted`, and no charge is stored.
    package var unlimited: AdmissionDecision {
        AdmissionDecision(
            verdict: .admitted,
            quota: Quota(limit: 0, windowSeconds: windowSeconds, remaining: 0, resetMilliseconds: 0))
    }

    /// Returns the quota of a class with `count` charges in its window. `oldestTime` is the time of the charge that
    /// must leave the window before one more charge fits; nil if the window is empty.
    package func quota(
        of limitClass: RateLimitClass, count: Int, oldestTime: Int64?, at now: Int64
    ) -> Quota {
        let limit = limit(of: limitClass)
        let reset = oldestTime.map { max($0 + windowMilliseconds - now, 0) } ?? 0
        return Quota(
            limit: limit, windowSeconds: windowSeconds, remaining: max(limit - count, 0), resetMilliseconds: reset)
    }
}
