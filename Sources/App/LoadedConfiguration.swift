// What the declarations in Configuration.swift become when every one of them is in order: one immutable value with
// typed members, for Wiring to hand out in parts. It refuses to know variables and files.

import Engine
import Foundation
import HTTPServer
import Identity
import JourneyModel
import Logging
import Outbound
import RedisAdmission
import Telemetry

struct Configuration: Sendable {
    struct HTTP: Hashable, Sendable {
        /// Numbers or names, all with the same port; empty: no TCP.
        var hosts: [String]
        /// 0: any free one.
        var port: Int
        /// Listened on beside the hosts.
        var unixSocketPath: String?
        /// Nil: one per core.
        var eventLoops: Int?
        var connectionsMax: Int
        /// 0: as many as there may be in all.
        var connectionsPerAddressMax: Int
        var trustedProxies: TrustedProxies
        /// Nil: no web page of another origin.
        var crossOrigin: CrossOrigin?
        var timeouts: Timeouts
        var outputBufferBytes: Int
        var bufferedBytesMax: Int

        /// How long a client is waited for.
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
        /// Nil: text at a terminal, else JSON.
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

    /// How the server is watched.
    struct Operation: Sendable {
        var metricsToken: Secret<String>?
        /// Where /metrics has a listener of its own.
        var metricsAddress: (host: String, port: Int)?
    }

    var environment: AppEnvironment
    /// `INSTANCE_NAME`, or host name and port.
    var instanceName: String
    var shutdownTimeoutSeconds: Int
    var log: Log
    var http: HTTP
    /// Of a file; relative to the working folder when it does not begin with a slash.
    var databasePath: String
    /// Nil: events are kept for ever.
    var eventRetentionDays: Int?
    /// Nil: lines of the audit are kept forever, but for those that come in numbers.
    var auditRetentionDays: Int?
    var redis: Redis
    var tokens: TokenConfiguration
    var apple: AppleConfiguration
    var codes: CodeConfiguration
    var rateLimits: RateLimits
    var sessionRegistration: SessionRegistrationRule
    var operatorToken: Secret<String>?
    /// Nil: nothing is forwarded.
    var analytics: AnalyticsConfiguration?
    var operation: Operation
    /// What GET /native/config answers.
    var settings: Settings
}

/// How access tokens are signed, and what they must say.
struct TokenConfiguration: Sendable {
    enum Key: Sendable {
        /// `JWT_SECRET` or `JWT_PRIVATE_KEY_FILE`.
        case configured(SigningKey)
        /// The one that the server makes for itself, beside its database.
        case madeByServer(LocalKeyFile)
    }

    var key: Key
    var scope: TokenScope
    var trustsExternal: Bool
    var timeToLiveSeconds: Int
    /// From the v1 routes of signing in.
    var v1TimeToLiveSeconds: Int
    var refreshTimeToLiveDays: Int
    var legacyTimeToLiveDays: Int
    /// `DATA_KEY`, 32 bytes.
    var dataKey: Secret<[UInt8]>?

    /// Nil when it is the server's own, and no server has made it yet.
    func existingKey() throws(SigningKeyError) -> SigningKey? {
        switch key {
        case .configured(let key): key
        case .madeByServer(let file): try file.load()
        }
    }

    /// The key; makes the server's own on its first use. For `serve` alone.
    func signingKey() throws(SigningKeyError) -> SigningKey {
        switch key {
        case .configured(let key): key
        case .madeByServer(let file): try file.loadOrCreate()
        }
    }
}

/// Whose identity tokens are taken, and what is asked of Apple.
struct AppleConfiguration: Sendable {
    /// The three variables that are set together, with the key that the last of them names.
    struct CodeExchange: Sendable {
        var teamID: String
        var keyID: String
        /// For ES256.
        var key: SigningKey
    }

    /// Empty: nobody's.
    var clientIDs: [String]
    var keySetURL: OutgoingURL
    var tokenURL: OutgoingURL
    var revokeURL: OutgoingURL
    /// Nil: authorization codes are not exchanged, so there is nothing to revoke.
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
