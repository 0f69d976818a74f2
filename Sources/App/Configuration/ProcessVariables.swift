// The variables of the process: its environment, its name, its log and its stop.

import Logging
import StructuredLogging

extension Variables {
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

    static let process: [any Declaration] = [
        environment, environmentFile, instanceName, logLevel, logFormat, logRefusalsPerClient, logRefusalsPerSecond,
        shutdownTimeoutSeconds,
    ]
}

/// The values of `APP_ENV`.
enum AppEnvironment: String, CaseIterable, Sendable {
    case development, production
}
