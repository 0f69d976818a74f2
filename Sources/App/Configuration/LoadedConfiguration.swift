// The validated values of the variables declared in Configuration.swift, as one immutable value with typed members.
// Wiring passes to each module the members that it needs.

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
        /// The addresses or host names to listen on, all with the same port. If empty, there is no TCP listener.
        var hosts: [String]
        /// The port for all `hosts`. 0 means any free port.
        var port: Int
        /// The path of a Unix socket to listen on in addition to `hosts`.
        var unixSocketPath: String?
        /// The number of event loops. Nil means one per core.
        var eventLoops: Int?
        var connectionsMax: Int
        /// The maximum number of connections per client address. 0 means that only `connectionsMax` limits them.
        var connectionsPerAddressMax: Int
        var trustedProxies: TrustedProxies
        /// The access for web pages of other origins; nil if it is not allowed.
        var crossOrigin: CrossOrigin?
        var timeouts: Timeouts
        var outputBufferBytes: Int
        var bufferedBytesMax: Int

        /// The limits of the time that the server waits for a client.
        struct Timeouts: Hashable, Sendable {
            var headerTimeoutSeconds: Int
            var bodyTimeoutSeconds: Int
            var bodyBytesPerSecondMin: Int
            var bodyTimeMaxSeconds: Int
            var idleTimeoutSeconds: Int
            var writeStallTimeoutSeconds: Int
        }

        var eventLoopCount: Int { eventLoops ?? max(1, ProcessInfo.processInfo.activeProcessorCount) }
    }

    struct Log: Hashable, Sendable {
        var level: Logger.Level
        /// The format of the log. Nil means text at a terminal, and otherwise JSON.
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
        /// The address of Redis. If nil, each process counts for the rate limits in its own memory.
        var endpoint: RedisEndpoint?
        var timeoutMilliseconds: Int
    }

    /// The settings for monitoring the server.
    struct Operation: Sendable {
        var metricsToken: Secret<String>?
        /// The address of the separate listener of /metrics; nil if there is none.
        var metricsAddress: (host: String, port: Int)?
    }

    var environment: AppEnvironment
    /// `INSTANCE_NAME`, or host name and port.
    var instanceName: String
    var shutdownTimeoutSeconds: Int
    var log: Log
    var http: HTTP
    /// The path of the database file. It is relative to the working directory unless it begins with a slash.
    var databasePath: String
    /// The days for which events are kept; nil to keep them forever.
    var eventRetentionDays: Int?
    /// The days for which audit entries are kept. Nil to keep them forever, except those of the high-volume kinds.
    var auditRetentionDays: Int?
    var redis: Redis
    var tokens: TokenConfiguration
    var apple: AppleConfiguration
    var codes: CodeConfiguration
    /// The settings of purchases; nil if purchases are not accepted.
    var purchases: PurchaseConfiguration?
    var rateLimits: RateLimits
    var sessionRegistration: SessionRegistrationRule
    var operatorToken: Secret<String>?
    /// The analytics service; nil if events are not forwarded.
    var analytics: AnalyticsConfiguration?
    var operation: Operation
    /// The settings of the session engine, which GET /native/config returns.
    var settings: Settings
    /// The author of the last change of the settings, and the reason.
    var settingsNote: SettingsChangeNote
}

/// How access tokens are signed, which claims they need, and how long issued tokens are valid.
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

    /// Returns the key, or nil when the server creates its own key and has not created it yet.
    func existingKey() throws(SigningKeyError) -> SigningKey? {
        switch key {
        case .configured(let key): key
        case .generated(let file): try file.load()
        }
    }

    /// Returns the key. Creates the server's own key on first use, so only `serve` may call it.
    func signingKey() throws(SigningKeyError) -> SigningKey {
        switch key {
        case .configured(let key): key
        case .generated(let file): try file.loadOrCreate()
        }
    }
}

/// Which identity tokens are accepted, and how Apple is called.
struct AppleConfiguration: Sendable {
    /// The values of the three variables that must be set together. The last of them names the file with the key.
    struct CodeExchange: Sendable {
        var teamID: String
        var keyID: String
        /// The P-256 key that makes ES256 signatures.
        var key: SigningKey
    }

    /// The accepted client ids. If empty, no identity token is accepted.
    var clientIDs: [String]
    var keySetURL: OutgoingURL
    var tokenURL: OutgoingURL
    var revokeURL: OutgoingURL
    /// The settings for exchanging authorization codes. If nil, codes are not exchanged, so there are no tokens to
    /// revoke.
    var codeExchange: CodeExchange?
}

/// The settings for delivering one-time codes to phones.
struct CodeConfiguration: Sendable {
    enum Delivery: Sendable {
        case none
        case log
        case webhook(OutgoingURL, secret: Secret<String>)
    }

    var delivery: Delivery
    var limits: CodeSendLimits
}
