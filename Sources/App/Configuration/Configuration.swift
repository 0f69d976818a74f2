// The variables that the server reads (contract, sections 2 and 8). Each declaration gives the name, type, default,
// range and purpose of a variable, and says whether its value is a secret.
//
// Other files in this folder declare the variables of one topic each, such as sign-in or push. `all` lists every
// variable.
//
// The server checks every value against its declaration. `dwell check-config` prints the allowed values, and a test
// compares ENV.example with the declarations.
//
// The eight variables of the session engine are declared in JourneyModel, beside `Settings`, the type that clients
// decode.

import Engine
import Foundation
import HTTPServer
import JourneyModel
import Logging
import RateLimiting
import Secrets
import StructuredLogging

enum Variables {
    // MARK: The process

    static let environment = Variable<AppEnvironment>.words(
        "APP_ENV", .process, default: .development, "With production, the server requires a configured signing key.")

    static let environmentFile = Variable<String>.text(
        "ENV_FILE", .process, default: ".env", allowed: "the path of a file, which must exist if you set ENV_FILE",
        "Environment file, for variables that the environment does not set; ENV_FILE has no effect in that file."
    ) { isPath($0) }

    static let instanceName = Variable<String?>.text(
        "INSTANCE_NAME", .process, allowed: "1 to 64 letters, digits and -._:",
        "Name that distinguishes this server in the log, on /ops and in a shared database. Default: host name and "
            + "port, or host name and socket path if HTTP_HOST is empty."
    ) { text in
        (1...64).contains(text.utf8.count)
            && text.utf8.allSatisfy {
                $0 < 0x80 && Character(Unicode.Scalar($0)).isLetter
                    || (48...58).contains($0) || "-._".utf8.contains($0)
            }
    }

    static let logLevel = Variable<Logger.Level>.words(
        "LOG_LEVEL", .process, default: .info, "Minimum log level.")

    static let logFormat = Variable<LogFormat?>.words(
        "LOG_FORMAT", .process, unset: "text on a terminal, else json",
        "Format of log lines. Default: text on a terminal, else json.")

    static let logRefusalsPerClient = Variable<Int>.integer(
        "LOG_REFUSALS_PER_CLIENT", .process, default: 10, in: 1...10_000,
        "Maximum number of log lines per second about rejected requests of one client or driver. Another line counts "
            + "the omitted lines.")

    static let logRefusalsPerSecond = Variable<Int>.integer(
        "LOG_REFUSALS_PER_SECOND", .process, default: 50, in: 1...10_000,
        "Maximum number of log lines per second about rejected requests. Applies separately to all clients without a "
            + "valid token, to all drivers, and to all 5xx responses.")

    static let shutdownTimeoutSeconds = Variable<Int>.integer(
        "SHUTDOWN_TIMEOUT_SECONDS", .process, default: 20, in: 1...600,
        "Time limit for requests in progress after SIGTERM.")

    // MARK: HTTP

    static let hosts = Variable<[String]>(
        name: "HTTP_HOST", section: .http, defaultText: "127.0.0.1", defaultValue: ["127.0.0.1"],
        allowed: .text(
            "comma-separated IP addresses or host names that do not overlap, or empty with HTTP_UNIX_SOCKET"),
        isSecret: false,
        sentence: "Listen addresses; 0.0.0.0 means every IPv4 address, and :: every IPv4 and IPv6 address. If empty, "
            + "the server does not listen on TCP.",
        parse: hosts(in:), show: { $0.isEmpty ? "none" : $0.joined(separator: ",") })

    static let port = Variable<Int>.integer(
        "HTTP_PORT", .http, default: 8080, in: 0...65_535,
        "TCP port of each address; 0 selects a free port.")

    static let unixSocket = Variable<String?>.text(
        "HTTP_UNIX_SOCKET", .http, allowed: "the path of a socket, at most 107 bytes",
        "The server also listens on this Unix socket."
    ) { isPath($0) && $0.utf8.count <= 107 }

    /// Each event loop occupies one thread of Dispatch, which has at most 255 threads for the whole process. The
    /// database, the metrics and all other work need the remaining threads.
    static let eventLoopsMax = 128

    static let eventLoops = Variable<Int?>.integer(
        "EVENT_LOOPS", .http, in: 1...eventLoopsMax, unset: "one per core, at most \(eventLoopsMax)",
        "Number of threads that serve connections. Default: one per core, at most \(eventLoopsMax).")

    static let connectionsMax = Variable<Int>.integer(
        "MAX_CONNECTIONS", .http, default: 10_000, in: 1...1_000_000, "Maximum number of open connections.")

    static let connectionsPerAddressMax = Variable<Int>.integer(
        "MAX_CONNECTIONS_PER_ADDRESS", .http, default: 0, in: 0...1_000_000,
        "Maximum number of open connections per client address; 0 means no limit. Use 0 behind a proxy.")

    static let trustedProxies = Variable<TrustedProxies>(
        name: "TRUSTED_PROXIES", section: .http, defaultText: "", defaultValue: TrustedProxies(),
        allowed: .text("comma-separated IP addresses, networks such as 10.0.0.0/8, and the word unix"),
        isSecret: false,
        sentence: "Proxies whose TRUSTED_PROXIES_HEADER identifies the client. The word unix means any peer on the "
            + "Unix socket.",
        parse: { TrustedProxies(items(in: $0)) },
        show: { $0.description.isEmpty ? "none" : $0.description })

    static let trustedProxiesField = Variable<ForwardingField>.words(
        "TRUSTED_PROXIES_HEADER", .http, default: .xForwardedFor,
        "The header that the proxies set. The server ignores the other header, because clients can send it through a "
            + "proxy.")

    static let corsAllowedOrigins = Variable<CrossOrigin?>(
        name: "CORS_ALLOWED_ORIGINS", section: .http, defaultText: "", defaultValue: nil,
        allowed: .text(
            "1 to \(CrossOrigin.originsMax) lower-case origins such as https://app.example.org or "
                + "http://localhost:5173, comma-separated, without a path or the scheme's default port; not *"),
        isSecret: false,
        sentence:
            "Web origins whose pages may call the server and read its responses. Default: none.",
        parse: { CrossOrigin(items(in: $0)).map(Optional.some) },
        show: { $0?.origins.joined(separator: ",") ?? "none" })

    static let headerTimeoutSeconds = Variable<Int>.integer(
        "HTTP_HEADER_TIMEOUT_SECONDS", .http, default: 10, in: 1...600,
        "Time limit from the first byte of a request to the end of its header. A slower request gets 408 or 503.")

    static let bodyTimeoutSeconds = Variable<Int>.integer(
        "HTTP_BODY_TIMEOUT_SECONDS", .http, default: 20, in: 1...3600,
        "Time limit for a body, in addition to the time that its bytes take at HTTP_BODY_BYTES_PER_SECOND_MIN. A "
            + "slower GET, HEAD or OPTIONS request gets 408, any other slower request 503.")

    static let bodyBytesPerSecondMin = Variable<Int>.integer(
        "HTTP_BODY_BYTES_PER_SECOND_MIN", .http, default: 500, in: 1...1_000_000_000,
        "Minimum rate of a body.")

    static let bodyTimeMaxSeconds = Variable<Int>.integer(
        "HTTP_BODY_TIME_MAX_SECONDS", .http, default: 180, in: 1...86_400,
        "Time limit for one body, regardless of its rate. A slower request gets 408 or 503, as with "
            + "HTTP_BODY_TIMEOUT_SECONDS.")

    static let idleTimeoutSeconds = Variable<Int>.integer(
        "HTTP_IDLE_TIMEOUT_SECONDS", .http, default: 75, in: 1...86_400,
        "Time limit of an idle connection. Must be longer than the idle timeout of a proxy in front of the server.")

    static let writeStallTimeoutSeconds = Variable<Int>.integer(
        "HTTP_WRITE_STALL_TIMEOUT_SECONDS", .http, default: 30, in: 1...3600,
        "The server disconnects a client that reads nothing of its response for this time.")

    static let outputBufferBytes = Variable<Int>.integer(
        "HTTP_OUTPUT_BUFFER_BYTES", .http, default: 65_536, in: 4096...16_777_216,
        "Output buffer of one connection for responses to pipelined requests.")

    /// The lower bound of the range is enough memory for one event batch of the maximum size, including the copies of
    /// the batch.
    static let bufferedBytesMax = Variable<Int>.integer(
        "HTTP_BUFFERED_BYTES_MAX", .http, default: 268_435_456, in: 4_194_304...1_099_511_627_776,
        "Maximum memory of all connections for received and decompressed bodies, incomplete requests and unsent "
            + "responses; a request beyond it gets 503. If unsent responses need more than half of it, the server "
            + "disconnects clients that do not read.")

    // MARK: Storage

    static let redis = Variable<RedisEndpoint?>.secret(
        "REDIS_URL", .storage,
        allowed: "redis://[[user:]password@]host[:port][/database], or with the comma-separated hosts of a Redis "
            + "Cluster; redis+sentinel://hosts/name; rediss:// or rediss+sentinel:// for TLS; redis+unix:///path or "
            + "unix:///path",
        "Redis for rate limits that several servers share. Without Redis, each process enforces its own limits.",
        parse: { try? RedisEndpoint(parsing: $0) }, show: { $0.description })

    static let redisTimeoutMilliseconds = Variable<Int>.integer(
        "REDIS_TIMEOUT_MS", .storage, default: 50, in: 1...5000,
        "Time limit for Redis. If Redis does not respond in this time, the process makes the decision itself.")

    static let eventRetentionDays = Variable<Int>(
        name: "EVENT_RETENTION_DAYS", section: .storage, defaultText: "0", defaultValue: 0,
        allowed: .text("0, or a whole number from \(RetentionService.daysMin) to \(RetentionService.daysMax)"),
        isSecret: false, sentence: "Days after receipt until an event is deleted; 0 keeps events forever.",
        parse: { text in
            let range = RetentionService.daysMin...RetentionService.daysMax
            return wholeNumber(text, in: 0...range.upperBound).flatMap { $0 == 0 || range.contains($0) ? $0 : nil }
        }, show: { String($0) })

    static let auditRetentionDays = Variable<Int>(
        name: "AUDIT_RETENTION_DAYS", section: .storage, defaultText: "365", defaultValue: 365,
        allowed: .text("0, or a whole number from \(RetentionService.auditDaysMin) to \(RetentionService.daysMax)"),
        isSecret: false,
        sentence:
            "Days after which audit records are deleted, except receipts of deletions; 0 keeps all.",
        parse: { text in
            let range = RetentionService.auditDaysMin...RetentionService.daysMax
            return wholeNumber(text, in: 0...range.upperBound).flatMap { $0 == 0 || range.contains($0) ? $0 : nil }
        }, show: { String($0) })

    // MARK: Tokens

    static let jwtSecret = Variable<Secret<String>?>.secret(
        "JWT_SECRET", .tokens, allowed: "at least 32 bytes",
        "Signs access tokens with HS256. If neither JWT_SECRET nor JWT_PRIVATE_KEY_FILE is set, the server generates "
            + "a key beside its database, which is not allowed with APP_ENV=production or DATABASE_URL.",
        parse: { $0.utf8.count >= 32 ? Secret($0) : nil })

    static let jwtPrivateKeyFile = Variable<String?>.text(
        "JWT_PRIVATE_KEY_FILE", .tokens, allowed: "the path of a P-256 private key in PEM format",
        "Signs access tokens with ES256 instead of HS256."
    ) { isPath($0) }

    static let jwtIssuer = Variable<String>.text(
        "JWT_ISSUER", .tokens, default: "dwell", allowed: "1 to 256 printable ASCII characters",
        "Required iss of every access token."
    ) { isName($0) }

    static let jwtAudience = Variable<String>.text(
        "JWT_AUDIENCE", .tokens, default: "dwell", allowed: "1 to 256 printable ASCII characters",
        "Required aud of every access token."
    ) { isName($0) }

    static let jwtTrustExternal = Variable<Bool>.boolean(
        "JWT_TRUST_EXTERNAL", .tokens, default: true,
        "Accept tokens without a sign-in session (sid). Such tokens come from `dwell token` and from other services.")

    static let accessTokenTTLSeconds = Variable<Int>.integer(
        "ACCESS_TOKEN_TTL_SECONDS", .tokens, default: 3600, in: 1...2_592_000, "Lifetime of an access token.")

    static let v1AccessTokenTTLSeconds = Variable<Int>.integer(
        "V1_ACCESS_TOKEN_TTL_SECONDS", .tokens, default: 86_400, in: 1...2_592_000,
        "Lifetime of an access token from /v1/auth. Shipped v1 apps cannot renew their token during a visit.")

    static let refreshTokenTTLDays = Variable<Int>.integer(
        "REFRESH_TOKEN_TTL_DAYS", .tokens, default: 60, in: 1...3650,
        "Lifetime of a refresh token. Each use returns a new token.")

    static let legacyTokenTTLDays = Variable<Int>.integer(
        "LEGACY_TOKEN_TTL_DAYS", .tokens, default: 30, in: 1...3650,
        "Lifetime of the single token of /api/auth. The token can be renewed for 30 more days after it expires.")

    static let dataKey = Variable<Secret<[UInt8]>?>.secret(
        "DATA_KEY", .tokens, allowed: "32 bytes, as 64 hexadecimal digits or in base64 (openssl rand -base64 32)",
        "Encrypts Apple's refresh tokens in the database (AES-GCM). Required with APPLE_PRIVATE_KEY_FILE.",
        parse: { DataKey.bytes($0).map { Secret($0) } })

    /// All declarations, in the order of ENV.example.
    static let all: [any Declaration] =
        [
            environment, environmentFile, instanceName, logLevel, logFormat, logRefusalsPerClient, logRefusalsPerSecond,
            shutdownTimeoutSeconds,
            hosts, port, unixSocket, eventLoops, connectionsMax, connectionsPerAddressMax, trustedProxies,
            trustedProxiesField, corsAllowedOrigins, headerTimeoutSeconds, bodyTimeoutSeconds, bodyBytesPerSecondMin,
            bodyTimeMaxSeconds,
            idleTimeoutSeconds, writeStallTimeoutSeconds, outputBufferBytes, bufferedBytesMax,
            databasePath, databaseURL, eventRetentionDays, auditRetentionDays, redis, redisTimeoutMilliseconds,
            jwtSecret, jwtPrivateKeyFile, jwtIssuer, jwtAudience, jwtTrustExternal, accessTokenTTLSeconds,
            v1AccessTokenTTLSeconds, refreshTokenTTLDays, legacyTokenTTLDays, dataKey,
        ] + signIn + purchases + links + push + limits + operation
        + [settingsChangedBy, settingsChangeReason, settingsRulesFile] + Settings.declarations.map(EngineVariable.init)
}

/// The values of `APP_ENV`.
enum AppEnvironment: String, CaseIterable, Sendable {
    case development, production
}

/// A variable of the session engine, as JourneyModel declares it.
struct EngineVariable: Declaration {
    let settingsDeclaration: Settings.Declaration

    var name: String { settingsDeclaration.variable }
    var section: VariableSection { .engine }
    var defaultText: String { settingsDeclaration.defaultText }
    var allowed: Allowed { .text(settingsDeclaration.allowed) }
    var isSecret: Bool { false }
    var sentence: String { "\(settingsDeclaration.field)." }

    func accepts(_ text: String) -> Bool {
        (try? Settings.make { $0 == name ? text : nil }) != nil
    }
}
