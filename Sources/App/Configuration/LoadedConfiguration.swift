// The validated values of the variables that Configuration.swift lists, as one immutable value. Each module gets only
// the members that it needs.

import Engine
import Foundation
import HTTPServer
import Identity
import JourneyModel
import Logging
import Outbound
import RateLimiting
import Secrets
import StructuredLogging

struct Configuration: Sendable {
    struct HTTP: Hashable, Sendable {
        /// The addresses or host names to listen on. All of them use `port`. If the list is empty, there is no TCP
        /// listener.
        var hosts: [String]
        /// The port of all `hosts`. 0 means any free port.
        var port: Int
        /// The path of a Unix socket to listen on, in addition to `hosts`; nil if there is none.
        var unixSocketPath: String?
        /// The number of event loops. Nil means one per core, at most `Variables.eventLoopsMax`.
        var eventLoops: Int?
        var connectionsMax: Int
        /// The maximum number of connections per client address. 0 means that only `connectionsMax` applies.
        var connectionsPerAddressMax: Int
        var trustedProxies: TrustedProxies
        /// The other origins whose web pages may call the server; nil if there are none.
        var crossOrigin: CrossOrigin?
        var timeouts: Timeouts
        var outputBufferBytes: Int
        var bufferedBytesMax: Int

        struct Timeouts: Hashable, Sendable {
            var headerTimeoutSeconds: Int
            var bodyTimeoutSeconds: Int
            var bodyBytesPerSecondMin: Int
            var bodyTimeMaxSeconds: Int
            var idleTimeoutSeconds: Int
            var writeStallTimeoutSeconds: Int
        }

        var eventLoopCount: Int {
            eventLoops ?? min(max(1, ProcessInfo.processInfo.activeProcessorCount), Variables.eventLoopsMax)
        }
    }

    struct Log: Hashable, Sendable {
        var level: Logger.Level
        /// The format of the log. Nil means text if the output is a terminal, and otherwise JSON.
        var format: LogFormat?
        var refusals: RefusalLineLimiter.Limits

        /// Returns a logger that writes to standard error.
        func logger(label: String) -> Logger {
            let output = LogOutput.standardError
            return Logger(
                label: label, level: level, format: format ?? (output.isTerminal ? .text : .json), output: output,
                repeats: RepeatLimiter(
                    unlimited: [RequestLog.message, LoggedCodeDelivery.message, ServeCommand.settingNotAllowed]))
        }
    }

    struct Redis: Hashable, Sendable {
        /// The address of Redis. Nil means that each process counts requests for the rate limits in its own memory.
        var endpoint: RedisEndpoint?
        var timeoutMilliseconds: Int
    }

    /// The settings for monitoring the server.
    struct Operation: Sendable {
        var metricsToken: Secret<String>?
        /// The address of the separate listener that serves /metrics; nil if there is no such listener.
        var metricsAddress: (host: String, port: Int)?
    }

    var environment: AppEnvironment
    var instanceName: String
    var shutdownTimeoutSeconds: Int
    var log: Log
    var http: HTTP
    var database: Database
    /// The number of days for which events are kept; nil to keep them forever.
    var eventRetentionDays: Int?
    /// The number of days for which audit entries are kept; nil to keep them forever. Frequent entries, such as token
    /// renewals, may be deleted earlier because of other limits.
    var auditRetentionDays: Int?
    var redis: Redis
    var tokens: TokenConfiguration
    var apple: AppleConfiguration
    var codes: CodeConfiguration
    /// The settings of purchases; nil if the server accepts no purchases.
    var purchases: PurchaseConfiguration?
    var links: LinkConfiguration
    /// The settings of push notifications; nil if the server sends none.
    var push: PushConfiguration?
    var rateLimits: RateLimits
    var sessionRegistration: SessionRegistrationRule
    var trustedConfirmations: ConfirmationRule
    var operatorToken: Secret<String>?
    /// The analytics service; nil if events are not forwarded.
    var analytics: AnalyticsConfiguration?
    var operation: Operation
    /// The settings of the session engine, which GET /native/config returns.
    var settings: Settings
    /// The rules that replace settings for some drivers; nil if SETTINGS_RULES_FILE is not set.
    var settingsRules: SettingsRules?
    /// Who changed the settings last, and why.
    var settingsNote: SettingsChangeNote
}

/// The settings of access tokens: the signing key, the required claims, and the lifetimes of issued tokens.
struct TokenConfiguration: Sendable {
    enum Key: Sendable {
        /// `JWT_SECRET` or `JWT_PRIVATE_KEY_FILE`.
        case configured(SigningKey)
        /// The key file that the server creates next to its database.
        case generated(LocalKeyFile)
    }

    var key: Key
    var scope: TokenScope
    var trustsExternal: Bool
    var timeToLiveSeconds: Int
    /// The lifetime in seconds of the access tokens that the v1 sign-in routes issue.
    var v1TimeToLiveSeconds: Int
    var refreshTimeToLiveDays: Int
    var legacyTimeToLiveDays: Int
    /// The value of `DATA_KEY`, 32 bytes.
    var dataKey: Secret<[UInt8]>?

    /// Returns the signing key: the configured key, or the key that the server created at its first start. Returns nil
    /// if no key is configured and none has been created yet.
    func existingKey() throws(SigningKeyError) -> SigningKey? {
        switch key {
        case .configured(let key): key
        case .generated(let file): try file.load()
        }
    }

    /// Returns the signing key. Creates one if no key is configured and none has been created yet. Only `serve` may
    /// call this function, because only the server may create its key.
    func signingKey() throws(SigningKeyError) -> SigningKey {
        switch key {
        case .configured(let key): key
        case .generated(let file): try file.loadOrCreate()
        }
    }
}

/// The settings of Sign in with Apple. They say which identity tokens are accepted, and how Apple's servers are called.
struct AppleConfiguration: Sendable {
    /// The credentials for Apple's token endpoint. Three variables set them: two ids, and the path of the file with the
    /// key. Either all three variables must be set, or none.
    struct CodeExchange: Sendable {
        var teamID: String
        var keyID: String
        /// The P-256 key for ES256 signatures.
        var key: SigningKey
    }

    /// The accepted client ids. If empty, no identity token is accepted.
    var clientIDs: [String]
    var keySetURL: OutgoingURL
    var tokenURL: OutgoingURL
    var revokeURL: OutgoingURL
    /// The settings for exchanging Apple's authorization codes for tokens. If nil, the server gets no tokens from
    /// Apple, so it has none to revoke when a driver is deleted.
    var codeExchange: CodeExchange?
}

/// The settings for delivering one-time codes to phones.
struct CodeConfiguration: Sendable {
    enum Delivery: Sendable {
        case none
        case log
        case webhook(Secret<OutgoingURL>, secret: Secret<String>)
    }

    var delivery: Delivery
    var limits: CodeSendLimits
}
