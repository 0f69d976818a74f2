// Makes a Configuration from the command line, the environment and the environment file. All errors are reported
// together.

import Engine
import Foundation
import HTTPServer
import Identity
import JourneyModel
import RateLimiting
import Secrets

/// The sources from which a configuration is made.
struct ConfigurationInput: Sendable {
    /// The values that command-line options set, by name of variable.
    var overrides: [String: String] = [:]
    var environment: [String: String] = ProcessInfo.processInfo.environment
}

/// The result of reading the settings: every variable with its value and source, and all problems. If there is a
/// problem, `configuration` is nil.
struct ConfigurationReport: Sendable {
    /// The configuration; nil when there are problems.
    var configuration: Configuration?
    var variables: [ReadVariable]
    var problems: [ConfigurationProblem]
    /// The names in the environment file that are probably mistyped. They do not prevent the start.
    var unknown: [UnknownVariable]
    var warnings: [String] { unknown.map { "\($0)" } }
    /// Whether an environment file was read.
    var hasFile: Bool
    /// The configuration with a default in place of each invalid value. The server logs the problems in the log format
    /// of this configuration. Some commands use this configuration to call a running server whose environment file has
    /// become invalid.
    var partial: Configuration
    var log: Configuration.Log { partial.log }
}

extension Configuration {
    /// Returns the configuration and its problems. Every call reads the environment file again, because a reload
    /// (SIGHUP) must see changes of the file.
    static func report(from input: ConfigurationInput) -> ConfigurationReport {
        let (file, fileProblems) = environmentFile(input)
        var reading = ConfigurationReading(overrides: input.overrides, environment: input.environment, file: file)
        let configuration = Configuration(&reading)
        let problems = fileProblems + reading.problems
        return ConfigurationReport(
            configuration: problems.isEmpty ? configuration : nil, variables: reading.variables,
            problems: problems, unknown: file.map(unknownVariables) ?? [], hasFile: file != nil, partial: configuration)
    }

    private init(_ reading: inout ConfigurationReading) {
        environment = reading.value(of: Variables.environment)
        _ = reading.value(of: Variables.environmentFile)
        let namedInstance = reading.value(of: Variables.instanceName)
        log = Log(
            level: reading.value(of: Variables.logLevel), format: reading.value(of: Variables.logFormat),
            refusals: RefusalLineLimiter.Limits(
                perClient: reading.value(of: Variables.logRefusalsPerClient),
                total: reading.value(of: Variables.logRefusalsPerSecond)))
        shutdownTimeoutSeconds = reading.value(of: Variables.shutdownTimeoutSeconds)
        http = HTTP(
            hosts: reading.value(of: Variables.hosts), port: reading.value(of: Variables.port),
            unixSocketPath: reading.value(of: Variables.unixSocket),
            eventLoops: reading.value(of: Variables.eventLoops),
            connectionsMax: reading.value(of: Variables.connectionsMax),
            connectionsPerAddressMax: reading.value(of: Variables.connectionsPerAddressMax),
            trustedProxies: reading.value(of: Variables.trustedProxies),
            crossOrigin: reading.value(of: Variables.corsAllowedOrigins), timeouts: HTTP.Timeouts(&reading),
            outputBufferBytes: reading.value(of: Variables.outputBufferBytes),
            bufferedBytesMax: reading.value(of: Variables.bufferedBytesMax))
        instanceName = namedInstance ?? http.instanceName
        http.trustedProxies.field = reading.value(of: Variables.trustedProxiesField)
        if http.hosts.isEmpty, http.unixSocketPath == nil {
            reading.note(Variables.hosts.name, " is empty; allowed is that with \(Variables.unixSocket.name) only")
        }
        database = Database(&reading)
        let retentionDays = reading.value(of: Variables.eventRetentionDays)
        eventRetentionDays = retentionDays == 0 ? nil : retentionDays
        let auditDays = reading.value(of: Variables.auditRetentionDays)
        auditRetentionDays = auditDays == 0 ? nil : auditDays
        redis = Redis(
            endpoint: reading.value(of: Variables.redis),
            timeoutMilliseconds: reading.value(of: Variables.redisTimeoutMilliseconds))
        tokens = TokenConfiguration(&reading, environment: environment, database: database)
        apple = AppleConfiguration(&reading, hasDataKey: tokens.dataKey != nil)
        codes = CodeConfiguration(&reading, environment: environment)
        purchases = PurchaseConfiguration(&reading, environment: environment)
        links = LinkConfiguration(&reading)
        push = PushConfiguration(&reading, environment: environment)
        rateLimits = RateLimits(
            sessionEvents: reading.value(of: Variables.rateLimitSessionEvents),
            preSessionEvents: reading.value(of: Variables.rateLimitPreSessionEvents),
            serviceEvents: reading.value(of: Variables.rateLimitServiceEvents),
            auth: reading.value(of: Variables.rateLimitAuth),
            registrations: reading.value(of: Variables.rateLimitRegistrations),
            devices: reading.value(of: Variables.rateLimitDevices),
            account: reading.value(of: Variables.rateLimitAccount),
            reads: reading.value(of: Variables.rateLimitReads),
            pings: reading.value(of: Variables.rateLimitPings),
            purchases: reading.value(of: Variables.rateLimitPurchases),
            notifications: reading.value(of: Variables.rateLimitNotifications),
            operatorGuesses: reading.value(of: Variables.rateLimitOperator),
            windowSeconds: reading.value(of: Variables.rateLimitWindowSeconds))
        sessionRegistration = reading.value(of: Variables.sessionRegistration)
        trustedConfirmations = reading.value(of: Variables.trustedConfirmations)
        if trustedConfirmations == .service, !tokens.trustsExternal {
            reading.note(
                Variables.trustedConfirmations.name,
                "=service needs \(Variables.jwtTrustExternal.name)=true, because a service's token has no sid")
        }
        operatorToken = reading.value(of: Variables.operatorToken)
        analytics = AnalyticsConfiguration(&reading)
        operation = Operation(&reading)
        let problemsBefore = reading.problems.count
        settings = reading.engineSettings()
        let isValid = reading.problems.count == problemsBefore
        settingsNote = SettingsChangeNote(
            changedBy: reading.value(of: Variables.settingsChangedBy),
            reason: reading.value(of: Variables.settingsChangeReason))
        settingsRules = reading.settingsRules(over: isValid ? settings : nil)
    }

    /// Reads the environment file. The file at the default path may be missing. A file that ENV_FILE names must exist.
    private static func environmentFile(
        _ input: ConfigurationInput
    ) -> (EnvironmentFile?, problems: [ConfigurationProblem]) {
        let variable = Variables.environmentFile
        let named = input.overrides[variable.name] ?? input.environment[variable.name]
        let path = named ?? variable.defaultText
        // An invalid path is reported later, when ENV_FILE is checked together with all other variables.
        guard variable.accepts(path) else { return (nil, []) }
        do {
            let text = try readTextFile(path, bytesMax: EnvironmentFile.fileBytesMax)
            let file = EnvironmentFile(path: escaped(path), text: text, without: variable.name)
            let problems = file.unreadableLines.map { line in
                ConfigurationProblem(variable: "\(file.path):\(line)", detail: " is not allowed; allowed is NAME=value")
            }
            return (file, problems)
        } catch {
            if error.isMissing, named == nil { return (nil, []) }
            let detail = "=\(escaped(path)) is not allowed: \(error.reason); allowed is \(variable.allowed)"
            return (nil, [ConfigurationProblem(variable: variable.name, detail: detail)])
        }
    }

    private static func unknownVariables(in file: EnvironmentFile) -> [UnknownVariable] {
        file.entries.sorted { $0.value.line < $1.value.line }.compactMap { name, entry in
            VariableNames.finding(for: name).map {
                UnknownVariable(name: name, nearest: $0.nearest, location: "\(file.path):\(entry.line)")
            }
        }
    }
}

extension Configuration.HTTP {
    /// The default of `INSTANCE_NAME`: the host name with the port, or with the path of the Unix socket if `hosts` is
    /// empty. `ProcessInfo.hostName` is not used, because it calls the DNS resolver.
    fileprivate var instanceName: String {
        var name = [CChar](repeating: 0, count: 256)
        guard gethostname(&name, name.count - 1) == 0 else { return "localhost:\(port)" }
        let host = String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return hosts.isEmpty ? "\(host):\(unixSocketPath ?? "")" : "\(host):\(port)"
    }
}

extension Configuration.HTTP.Timeouts {
    fileprivate init(_ reading: inout ConfigurationReading) {
        headerTimeoutSeconds = reading.value(of: Variables.headerTimeoutSeconds)
        bodyTimeoutSeconds = reading.value(of: Variables.bodyTimeoutSeconds)
        bodyBytesPerSecondMin = reading.value(of: Variables.bodyBytesPerSecondMin)
        bodyTimeMaxSeconds = reading.value(of: Variables.bodyTimeMaxSeconds)
        idleTimeoutSeconds = reading.value(of: Variables.idleTimeoutSeconds)
        writeStallTimeoutSeconds = reading.value(of: Variables.writeStallTimeoutSeconds)
    }
}

extension Configuration.Operation {
    fileprivate init(_ reading: inout ConfigurationReading) {
        metricsToken = reading.value(of: Variables.metricsToken)
        let port = reading.value(of: Variables.metricsPort)
        let host = reading.value(of: Variables.metricsHost)
        metricsAddress = port.map { (host, $0) }
    }
}

extension TokenConfiguration {
    fileprivate init(
        _ reading: inout ConfigurationReading, environment: AppEnvironment, database: Configuration.Database
    ) {
        let secret = reading.value(of: Variables.jwtSecret)
        let privateKeyFile = reading.value(of: Variables.jwtPrivateKeyFile)
        key = Self.key(
            secret: secret, privateKeyFile: privateKeyFile, environment: environment, database: database,
            &reading)
        scope = TokenScope(
            issuer: reading.value(of: Variables.jwtIssuer), audience: reading.value(of: Variables.jwtAudience))
        trustsExternal = reading.value(of: Variables.jwtTrustExternal)
        timeToLiveSeconds = reading.value(of: Variables.accessTokenTTLSeconds)
        v1TimeToLiveSeconds = reading.value(of: Variables.v1AccessTokenTTLSeconds)
        refreshTimeToLiveDays = reading.value(of: Variables.refreshTokenTTLDays)
        legacyTimeToLiveDays = reading.value(of: Variables.legacyTokenTTLDays)
        dataKey = reading.value(of: Variables.dataKey)
    }

    private static func key(
        secret: Secret<String>?, privateKeyFile: String?, environment: AppEnvironment, database: Configuration.Database,
        _ reading: inout ConfigurationReading
    ) -> Key {
        let secretName = Variables.jwtSecret.name
        let fileName = Variables.jwtPrivateKeyFile.name
        let path = if case .sqlite(let path) = database { path } else { Variables.databasePath.defaultText }
        let standard = Key.generated(LocalKeyFile(besideDatabase: path))
        switch (secret, privateKeyFile) {
        case (.some, .some):
            reading.note(secretName, " and \(fileName) are both set; allowed is one of them")
        case (.some(let secret), nil):
            if let key = try? SigningKey(secret: secret) { return .configured(key) }
        case (nil, .some(let path)):
            do {
                let pem = try readTextFile(path, bytesMax: 65_536)
                if let key = try? SigningKey(privateKeyPEM: Secret(pem)) { return .configured(key) }
                reading.note(
                    fileName, "=\(escaped(path)) is not allowed; allowed is \(Variables.jwtPrivateKeyFile.allowed)")
            } catch {
                reading.note(fileName, "=\(escaped(path)) is not allowed: \(error.reason)")
            }
        case (nil, nil):
            let isReported = reading.problems.contains { $0.variable.hasPrefix(secretName) || $0.variable == fileName }
            if environment == .production, !isReported {
                reading.note(secretName, " is not set; with APP_ENV=production it must be, or \(fileName)")
            } else if case .postgres = database, !isReported {
                // With PostgreSQL, the server must not generate a signing key, because all servers on the database need
                // the same key. A generated key would exist on one machine only.
                let url = Variables.databaseURL.name
                reading.note(secretName, " is not set; with \(url) it must be, or \(fileName), equal on all servers")
            }
        }
        return standard
    }
}
