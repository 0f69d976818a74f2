// The variables of the rate limits (contract, section 4), and of two rules: which sessions and which confirmations the
// server accepts.

extension Variables {
    static let rateLimitSessionEvents = Variable<Int>.integer(
        "RATE_LIMIT_SESSION_EVENTS", .limits, default: 60, in: 0...100_000,
        "Maximum number of session events per driver in RATE_LIMIT_WINDOW_SECONDS; 0 means no limit.")

    static let rateLimitPreSessionEvents = Variable<Int>.integer(
        "RATE_LIMIT_PRESESSION_EVENTS", .limits, default: 30, in: 0...100_000,
        "Maximum number of pre-session events per driver in RATE_LIMIT_WINDOW_SECONDS; 0 means no limit.")

    static let rateLimitServiceEvents = Variable<Int>.integer(
        "RATE_LIMIT_SERVICE_EVENTS", .limits, default: 6000, in: 0...100_000,
        "Maximum number of events and requests for verification codes together, per service (token with the role "
            + "service) in RATE_LIMIT_WINDOW_SECONDS; 0 means no limit.")

    static let rateLimitAuth = Variable<Int>.integer(
        "RATE_LIMIT_AUTH", .limits, default: 30, in: 0...100_000,
        "Maximum number of requests to /auth, /v1/auth, /api and /apple/notifications per client address (IPv6: per "
            + "/64) in RATE_LIMIT_WINDOW_SECONDS; 0 means no limit. Behind a proxy, set TRUSTED_PROXIES.")

    static let rateLimitRegistrations = Variable<Int>.integer(
        "RATE_LIMIT_REGISTRATIONS", .limits, default: 20, in: 0...100_000,
        "Maximum number of session registrations (POST /native/sessions) and entered verification codes (POST "
            + ".../verify) together, per driver in RATE_LIMIT_WINDOW_SECONDS; 0 means no limit.")

    static let rateLimitDevices = Variable<Int>.integer(
        "RATE_LIMIT_DEVICES", .limits, default: 10, in: 0...100_000,
        "Maximum number of requests to /native/devices per driver in RATE_LIMIT_WINDOW_SECONDS; 0 means no limit.")

    static let rateLimitAccount = Variable<Int>.integer(
        "RATE_LIMIT_ACCOUNT", .limits, default: 20, in: 0...100_000,
        "Maximum number of exports and changes of the account and its sign-in sessions together, per driver in "
            + "RATE_LIMIT_WINDOW_SECONDS; 0 means no limit.")

    static let rateLimitReads = Variable<Int>.integer(
        "RATE_LIMIT_READS", .limits, default: 600, in: 0...100_000,
        "Maximum number of requests that read the database (sessions, timelines, the account, opened streams), per "
            + "driver in RATE_LIMIT_WINDOW_SECONDS; 0 means no limit.")

    static let rateLimitPings = Variable<Int>.integer(
        "RATE_LIMIT_PINGS", .limits, default: 60, in: 0...100_000,
        "Maximum number of background pings (POST .../background-ping) per driver in RATE_LIMIT_WINDOW_SECONDS; 0 "
            + "means no limit.")

    static let rateLimitPurchases = Variable<Int>.integer(
        "RATE_LIMIT_PURCHASES", .limits, default: 30, in: 0...100_000,
        "Maximum number of POST /native/purchases and PUT /native/purchases/consent together, per driver in "
            + "RATE_LIMIT_WINDOW_SECONDS; 0 means no limit.")

    static let rateLimitNotifications = Variable<Int>.integer(
        "RATE_LIMIT_NOTIFICATIONS", .limits, default: 30, in: 0...100_000,
        "Maximum number of refused App Store notifications per client address (IPv6: per /64) in "
            + "RATE_LIMIT_WINDOW_SECONDS; 0 means no limit. Refused means malformed, or not signed by Apple for an app "
            + "and environment of this server.")

    static let rateLimitOperator = Variable<Int>.integer(
        "RATE_LIMIT_OPERATOR", .limits, default: 10, in: 0...100_000,
        "Maximum number of invalid tokens for /ops and /metrics per client address (IPv6: per /64) in "
            + "RATE_LIMIT_WINDOW_SECONDS; 0 means no limit.")

    /// The window is at most 3600 seconds, because `Retry-After` is at most 3600 (contract, section 5) and a client may
    /// have to wait for a whole window.
    static let rateLimitWindowSeconds = Variable<Int>.integer(
        "RATE_LIMIT_WINDOW_SECONDS", .limits, default: 60, in: 1...3600,
        "Length of the sliding window of all rate limits.")

    static let sessionRegistration = Variable<SessionRegistrationRule>.words(
        "SESSION_REGISTRATION", .limits, default: .open,
        "With open, an event with an unknown session_id opens that session. With required, each session must be "
            + "registered first.")

    static let trustedConfirmations = Variable<ConfirmationRule>.words(
        "TRUSTED_CONFIRMATIONS", .limits, default: .any,
        "With any, all exclusiveActivatedByWeb and visitVerifiedByWeb events have an effect. With service, only those "
            + "that are posted with a token of the role service have an effect.")

    static let limits: [any Declaration] = [
        rateLimitSessionEvents, rateLimitPreSessionEvents, rateLimitServiceEvents, rateLimitAuth,
        rateLimitRegistrations, rateLimitDevices, rateLimitAccount, rateLimitReads, rateLimitPings,
        rateLimitPurchases, rateLimitNotifications, rateLimitOperator, rateLimitWindowSeconds,
        sessionRegistration, trustedConfirmations,
    ]
}

/// The values of `SESSION_REGISTRATION`.
enum SessionRegistrationRule: String, CaseIterable, Sendable {
    case open, required
}

/// The values of `TRUSTED_CONFIRMATIONS`.
enum ConfirmationRule: String, CaseIterable, Sendable {
    case any, service
}
