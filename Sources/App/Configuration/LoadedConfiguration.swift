// The validated values of the declarations in Configuration.swift: one immutable value with typed members. Wiring
// passes each module the members it needs.

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
        /// Addresses or host names to listen on, all with the same port. Empty: no TCP listener.
        var hosts: [String]
        /// Port of the hosts. 0: any free port.
        var port: Int
        /// A Unix socket to listen on in addition to the hosts.
        var unixSocketPath: String?
        /// Nil: one event loop per core.
        var eventLoops: Int?
        var connectionsMax: Int
        /// 0: no limit but `connectionsMax`.
        var connectionsPerAddressMax: Int
        var trustedProxies: TrustedProxies
        /// Nil: web pages of other origins are not allowed.
        var crossOrigin: CrossOrigin?
        var timeouts: Timeouts
        var outputBufferBytes: Int
        var bufferedBytesMax: Int

        /// How long the server waits for a client.
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
        /// Nil: text at a terminal, otherwise JSON.
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
        /// Nil: each process counts rate limits in its own memory.
        var endpoint: RedisEndpoint?
        var timeoutMilliseconds: Int
    }

    /// Monitoring of the server.
    struct Operation: Sendable {
        var metricsToken: Secret<String>?
        /// The address of the separate listener of /metrics; nil: none.
        var metricsAddress: (host: String, port: Int)?
    }

    var environment: AppEnvironment
    /// `INSTANCE_NAME`, or host name and port.
    var instanceName: String
    var shutdownTimeoutSeconds: Int
    var log: Log
    var http: HTTP
    /// Path of a file; relative to the working folder unless it begins with a slash.
    var databasePath: String
    /// Nil: events are kept forever.
    var eventRetentionDays: Int?
    /// Nil: audit entries are kept forever, except for the high-volume kinds.
    var auditRetentionDays: Int?
    var redis: Redis
    var tokens: TokenConfiguration
    var apple: AppleConfiguration
    var codes: CodeConfiguration
    /// Nil: purchases are not accepted.
    var purchases: PurchaseConfiguration?
    var rateLimits: RateLimits
    var sessionRegistration: SessionRegistrationRule
    var operatorToken: Secret<String>?
    /// Nil: nothing is forwarded.
    var analytics: AnalyticsConfiguration?
    var operation: Operation
    /// The response of GET /native/config.
    var settings: Settings
    /// The author of the last change of the settings, and the reason.
    var settingsNote: SettingsChangeNote
}

/// How access tokens are signed, and which claims they need.
struct TokenConfiguration: Sendable {
    enum Key: Sendable {
        /// `JWT_SECRET` or `JWT_PRIVATE_KEY_FILE`.
        case configured(SigningKey)
        /// The key that the server creates itself, next to its database.
        case generated(LocalKeyFile)
    }

    var key: Key
    var scope: TokenScope
    var trustsExternal: Bool
    var timeToLiveSeconds: Int
    /// Lifetime of the tokens that the v1 sign-in routes issue.
    var v1TimeToLiveSeconds: Int
    var refreshTimeToLiveDays: Int
    var legacyTimeToLiveDays: Int
    /// `DATA_KEY`, 32 bytes.
    var dataKey: Secret<[UInt8]>?

    /// Returns the key; nil when the server creates its own key and has not done so yet.
    func existingKey() throws(SigningKeyError) -> SigningKey? {
        switch key {
        case .configured(let key): key
        case .generated(let file): try file.load()
        }
    }

    /// Returns the key; creates the server's own key on first use. For `serve` only.
    func signingKey() throws(SigningKeyError) -> SigningKey {
        switch key {
        case .configured(let key): key
        case .generated(let file): try file.loadOrCreate()
        }
    }
}

/// Which identity tokens are accepted, and how Apple is called.
struct AppleConfiguration: Sendable {
    /// The values of the three variables that must be set together; the last of them names the key's file.
    struct CodeExchange: Sendable {
        var teamID: String
        var keyID: String
        /// The P-256 key for ES256 signatures.
        var key: SigningKey
    }

    /// Empty: no identity token is accepted.
    var clientIDs: [String]
    var keySetURL: OutgoingURL
    var tokenURL: OutgoingURL
    var revokeURL: OutgoingURL
    /// Nil: authorization codes are not exchanged, so there are no tokens to revoke.
    var codeExchange: CodeExchange?
}

/// How one-time codes reach phones.
struct CodeConfiguration: Sendable {
    enum Delivery: Sendable {
        case none
        case log
        case webhook(OutgoingURL, secret: Secret<String>)
    }

    var delivery: Delivery
    var limits: CodeSendLimits
}
