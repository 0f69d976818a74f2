// The validated values of the declarations in Configuration.swift: one immutable value with typed members, which
// Wiring hands out in parts. Knows neither variables nor files.

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
        /// Addresses or names, all with the same port; empty: no TCP.
        var hosts: [String]
        /// 0: any free one.
        var port: Int
        /// Listened on in addition to the hosts.
        var unixSocketPath: String?
        /// Nil: one per core.
        var eventLoops: Int?
        var connectionsMax: Int
        /// 0: no limit but `connectionsMax`.
        var connectionsPerAddressMax: Int
        var trustedProxies: TrustedProxies
        /// Nil: no web pages of other origins.
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

        /// A logger that writes to standard error.
        func logger(label: String) -> Logger {
            let output = LogOutput.standardError
            return Logger(
                label: label, level: level, format: format ?? (output.isTerminal ? .text : .json), output: output,
                repeats: RepeatLimiter(
                    unlimited: [RequestLog.message, LoggedCodeDelivery.message, ServeCommand.settingNotAllowed]))
        }
    }

    struct Redis: Hashable, Sendable {
        /// Nil: the process decides alone.
        var endpoint: RedisEndpoint?
        var timeoutMilliseconds: Int
    }

    /// Monitoring of the server.
    struct Operation: Sendable {
        var metricsToken: Secret<String>?
        /// Where /metrics has its own listener.
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
    /// Nil: audit entries are kept forever, except for the high-volume ones.
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
    /// Who changed them last, and why.
    var settingsNote: SettingsChangeNote
}

/// How access tokens are signed, and which claims they need.
struct TokenConfiguration: Sendable {
    enum Key: Sendable {
        /// `JWT_SECRET` or `JWT_PRIVATE_KEY_FILE`.
        case configured(SigningKey)
        /// The key that the server creates itself, next to its database.
        case madeByServer(LocalKeyFile)
    }

    var key: Key
    var scope: TokenScope
    var trustsExternal: Bool
    var timeToLiveSeconds: Int
    /// For tokens of the v1 sign-in routes.
    var v1TimeToLiveSeconds: Int
    var refreshTimeToLiveDays: Int
    var legacyTimeToLiveDays: Int
    /// `DATA_KEY`, 32 bytes.
    var dataKey: Secret<[UInt8]>?

    /// Nil when the key is the server's own and not created yet.
    func existingKey() throws(SigningKeyError) -> SigningKey? {
        switch key {
        case .configured(let key): key
        case .madeByServer(let file): try file.load()
        }
    }

    /// The key; creates the server's own on first use. For `serve` only.
    func signingKey() throws(SigningKeyError) -> SigningKey {
        switch key {
        case .configured(let key): key
        case .madeByServer(let file): try file.loadOrCreate()
        }
    }
}

/// Which identity tokens are accepted, and how Apple is called.
struct AppleConfiguration: Sendable {
    /// The three variables that must be set together, with the key that the last of them names.
    struct CodeExchange: Sendable {
        var teamID: String
        var keyID: String
        /// For ES256.
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
