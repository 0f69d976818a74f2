// Tests how the configuration is read and which problems are reported. The limits of each range come from the
// declarations, so that a new variable is tested automatically.
//
// The tests use real files in a temporary directory. The environment is a dictionary, never that of this process.

import Engine
import Foundation
import Identity
import JourneyModel
import Logging
import RateLimiting
import Testing

@testable import App

func report(
    _ environment: [String: String] = [:], overrides: [String: String] = [:], file: String = "/dev/null"
) -> ConfigurationReport {
    let environment = environment.merging(["ENV_FILE": file]) { named, _ in named }
    return Configuration.report(from: ConfigurationInput(overrides: overrides, environment: environment))
}

func withFiles<Answer>(_ files: [String: String], _ body: (_ folder: String) throws -> Answer) throws -> Answer {
    let folder = FileManager.default.temporaryDirectory.appending(path: "dwell-app-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    for (name, text) in files { try Data(text.utf8).write(to: folder.appending(path: name)) }
    return try body(folder.path(percentEncoded: false))
}

func variable(_ name: String, in report: ConfigurationReport) throws -> ReadVariable {
    try #require(report.variables.first { $0.declaration.name == name })
}

@Suite struct ConfigurationTests {
    static let secret = "a secret of the tests, 32 bytes or more"

    @Test func withoutAnythingSetTheContractsDefaultsHold() throws {
        let configuration = try #require(report().configuration)
        #expect(configuration.http.hosts == ["127.0.0.1"] && configuration.http.port == 8080)
        #expect(configuration.http.unixSocketPath == nil && configuration.http.eventLoops == nil)
        #expect(configuration.http.connectionsMax == 10_000)
        #expect("\(configuration.database)" == "var/dwell.sqlite3")
        #expect(configuration.redis.endpoint == nil && configuration.redis.timeoutMilliseconds == 50)
        #expect(configuration.environment == .development && configuration.log.level == .info)
        #expect(configuration.log.format == nil && configuration.shutdownTimeoutSeconds == 20)
        #expect(configuration.tokens.scope.issuer == "dwell" && configuration.tokens.scope.audience == "dwell")
        #expect(configuration.tokens.trustsExternal && configuration.tokens.timeToLiveSeconds == 3600)
        #expect(configuration.rateLimits.sessionEvents == 60 && configuration.rateLimits.preSessionEvents == 30)
        #expect(configuration.rateLimits.auth == 30)
        #expect(configuration.tokens.refreshTimeToLiveDays == 60 && configuration.tokens.legacyTimeToLiveDays == 30)
        #expect(configuration.rateLimits.windowSeconds == 60 && configuration.sessionRegistration == .open)
        #expect(configuration.settings == Settings())
    }

    private static let webhook = [
        "OTP_DELIVERY": "webhook", "OTP_WEBHOOK_URL": "https://sms.example/send",
        "OTP_WEBHOOK_SECRET": "sixteen bytes or",
    ]

    /// The shutdown time also covers the work after the drain, so the drain gets only a part of it.
    @Test(
        arguments: [
            ([:], 19, 19_500), (["METRICS_PORT": "9100"], 18, 19_500), (webhook, 16, 19_500),
            (webhook.merging(["METRICS_PORT": "9100", "SHUTDOWN_TIMEOUT_SECONDS": "6"]) { $1 }, 2, 5500),
            (["SHUTDOWN_TIMEOUT_SECONDS": "2"], 1, 1500), (["SHUTDOWN_TIMEOUT_SECONDS": "1"], 1, 1500),
        ] as [([String: String], Int, Int)])
    func shutdownTimeIsDivided(
        environment: [String: String], drainSeconds: Int, servicesEndMilliseconds: Int
    ) throws {
        let configuration = try #require(report(environment).configuration)
        #expect(configuration.serverDrainSeconds == drainSeconds)
        #expect(configuration.servicesEndDuration == .milliseconds(servicesEndMilliseconds))
    }

    @Test func commandLineBeforeEnvironmentBeforeFileBeforeDefault() throws {
        let text = "HTTP_PORT=1001\nMAX_CONNECTIONS=1002\nREDIS_TIMEOUT_MS=1003\n"
        try withFiles(["env": text]) { folder in
            let report = report(
                ["HTTP_PORT": "2001", "MAX_CONNECTIONS": "2002"], overrides: ["HTTP_PORT": "3001"],
                file: folder + "/env")
            let configuration = try #require(report.configuration)
            #expect(configuration.http.port == 3001)
            #expect(configuration.http.connectionsMax == 2002)
            #expect(configuration.redis.timeoutMilliseconds == 1003)
            #expect(configuration.shutdownTimeoutSeconds == 20)
            #expect(try variable("HTTP_PORT", in: report).source == .commandLine)
            #expect(try variable("MAX_CONNECTIONS", in: report).source == .environment)
            let source = try variable("REDIS_TIMEOUT_MS", in: report).source
            #expect(source == .environmentFile(path: folder + "/env", line: 3))
            #expect(try variable("SHUTDOWN_TIMEOUT_SECONDS", in: report).source == .standard)
        }
    }

    @Test func everyBadVariableIsToldAtOnceWithItsValueAndWhatIsAllowed() {
        let problems = report([
            "HTTP_PORT": "65536", "LOG_LEVEL": "loud", "NATIVE_CHARGER_INTENT_RADIUS_M": "40m",
            "NATIVE_CHARGER_DWELL_SECONDS": "nan", "JWT_TRUST_EXTERNAL": "perhaps", "JWT_SECRET": "short",
        ]).problems.map(\.description)
        #expect(
            problems == [
                "LOG_LEVEL=loud (environment) is not allowed; allowed is one of trace, debug, info, notice, warning, "
                    + "error, critical",
                "HTTP_PORT=65536 (environment) is not allowed; allowed is a whole number from 0 to 65535",
                "JWT_SECRET (environment) is not allowed; allowed is at least 32 bytes",
                "JWT_TRUST_EXTERNAL=perhaps (environment) is not allowed; allowed is one of true, false",
                "NATIVE_CHARGER_INTENT_RADIUS_M=40m (environment) is not allowed; allowed is 0 < x <= 1000",
                "NATIVE_CHARGER_DWELL_SECONDS=nan (environment) is not allowed; allowed is 0 < n <= 600",
            ])
    }

    // MARK: Ranges

    @Test(arguments: Variables.all.map(\.name))
    func theEdgesOfTheDeclaredRange(name: String) throws {
        let declaration = try #require(Variables.all.first { $0.name == name })
        func accepted(_ text: String) -> Bool {
            let told = report(["NATIVE_CHARGER_INTENT_RADIUS_M": "1000"].merging([name: text]) { $1 })
            return !told.problems.contains { $0.variable == name }
        }
        switch declaration.allowed {
        case .integers(let range):
            #expect(accepted("\(range.lowerBound)") && accepted("\(range.upperBound)"))
            for bad in ["\(range.lowerBound - 1)", "\(range.upperBound + 1)", "\(Int.max)", "99999999999999999999"] {
                #expect(!accepted(bad), "\(bad)")
            }
            for bad in ["1.5", "1e3", " 5", "5 ", "0x5", "+5", "five", "5s", "\u{0665}", "1\n"] {
                #expect(!accepted(bad), "\(bad)")
            }
        case .words(let words):
            for word in words { #expect(accepted(word)) }
            for bad in ["x", words[0].uppercased() + "X", words[0] + " "] { #expect(!accepted(bad), "\(bad)") }
        case .text:
            #expect(declaration.isOptional || declaration.accepts(declaration.defaultText))
            // JWT_SECRET may be any bytes. Every other text variable rejects a NUL.
            #expect(!accepted("\u{0}") || name == "JWT_SECRET")
        }
        // For an optional variable, an empty value means "not set". For all other variables, it is invalid.
        #expect(accepted("") == declaration.isOptional)
    }

    @Test func eventsAreKeptForEverOrForAWeekAtLeast() throws {
        func days(_ text: String) throws -> Int? {
            try #require(report(["EVENT_RETENTION_DAYS": text]).configuration).eventRetentionDays
        }
        #expect(try days("0") == nil && days("7") == 7 && days("36500") == 36_500)
        for bad in ["1", "6", "36501", "-7", "7d", ""] {
            #expect(report(["EVENT_RETENTION_DAYS": bad]).configuration == nil, "\(bad)")
        }
    }

    @Test(arguments: Settings.declarations.map(\.variable))
    func theEdgesOfTheEngineSettings(name: String) throws {
        let declaration = try #require(Settings.declarations.first { $0.variable == name })
        let wide = ["NATIVE_CHARGER_INTENT_RADIUS_M": "1000", "NATIVE_HARD_TIMEOUT_SECONDS": "7200"]
        func accepted(_ text: String) -> Bool {
            let environment = wide.merging([name: text]) { $1 }
            return !report(environment).problems.contains { $0.variable == name }
        }
        let most = Int(declaration.valueMax)
        // The two settings in `wide` are upper limits for other settings. With their largest values, every other
        // setting may have its own maximum.
        #expect(accepted("\(most)"))
        for bad in ["0", "-1", "\(most + 1)", "nan", "inf", "-inf", "40m", "", " 1", "1,5", "0x1", "1e1", "Infinity"] {
            #expect(!accepted(bad), "\(bad)")
        }
    }

    @Test func oneSettingMayNotExceedTheOther() {
        let problems = report([
            "NATIVE_CHARGER_INTENT_RADIUS_M": "20", "NATIVE_GRACE_PERIOD_SECONDS": "900",
            "NATIVE_HARD_TIMEOUT_SECONDS": "899",
        ]).problems
        #expect(problems.map(\.variable) == ["NATIVE_CHARGER_ANCHOR_RADIUS_M", "NATIVE_GRACE_PERIOD_SECONDS"])
    }

    // MARK: The database

    private static let url = "postgres://dwell:sesame@db1:5432,db2/dwell?sslmode=verify-full"

    @Test func aURLMeansPostgreSQL() throws {
        let key = ["JWT_SECRET": Self.secret]
        for path in [[:], ["DATABASE_PATH": ""], ["DATABASE_PATH": "var/dwell.sqlite3"]] {
            let read = report(path.merging(key) { $1 }.merging(["DATABASE_URL": Self.url]) { $1 })
            let configuration = try #require(read.configuration)
            #expect("\(configuration.database)" == "PostgreSQL db1,db2/dwell")
            let url = try variable("DATABASE_URL", in: read)
            #expect(url.shown == "db1,db2/dwell" && !String(reflecting: read).contains("sesame"))
        }
    }

    @Test func aFileMayHoldTheURL() throws {
        try withFiles(["url": Self.url + "\n"]) { folder in
            let read = report(["JWT_SECRET": Self.secret, "DATABASE_URL_FILE": folder + "/url"])
            #expect(read.configuration.map { "\($0.database)" } == "PostgreSQL db1,db2/dwell")
        }
    }

    @Test func onlyOneDatabaseMayBeNamed() {
        let both = report([
            "JWT_SECRET": Self.secret, "DATABASE_URL": Self.url, "DATABASE_PATH": "/var/lib/dwell/dwell.sqlite3",
        ])
        #expect(
            both.problems.map(\.description) == [
                "DATABASE_URL and DATABASE_PATH are both set; allowed is one of them"
            ])
        #expect(report(["DATABASE_PATH": ""]).problems.map(\.variable) == ["DATABASE_PATH"])
    }

    @Test func serversOnPostgreSQLShareASigningKey() {
        let problems = report(["DATABASE_URL": Self.url]).problems
        #expect(problems.map(\.variable) == ["JWT_SECRET"])
        #expect(problems.first?.detail.contains("with DATABASE_URL it must be") == true)
    }

    @Test(arguments: [
        ("mysql://u:sesame@h/d", "postgres://"), ("postgres://u:ses@ame@h/d", "password is malformed"),
        ("postgres://u:sesame@h:99999/d", "port"), ("postgres://u:sesame@h%20x/d", "host"),
        ("postgres://u:sesame@h/d?sesame=1", "parameter"), ("postgres://u:sesame@h/d?sslmode=sesame", "sslmode"),
        ("postgres://u:sesame@h/d?target_session_attrs=read-only", "target_session_attrs"),
    ])
    func theErrorNamesThePartOfTheURL(url: String, part: String) {
        let problems = report(["JWT_SECRET": Self.secret, "DATABASE_URL": url]).problems
        #expect(problems.map(\.variable) == ["DATABASE_URL"])
        let detail = problems.first.map { String($0.detail.prefix { $0 != ";" }) } ?? ""
        #expect(detail.contains(part) && !String(reflecting: problems).contains("sesame"), "\(detail)")
    }

    @Test func aPathOnTheCommandLineReplacesTheURL() {
        let options = ["DATABASE_PATH": "a.sqlite3", "DATABASE_URL": "", "DATABASE_URL_FILE": ""]
        let environment = ["DATABASE_URL": Self.url, "DATABASE_URL_FILE": "/nonexistent"]
        #expect(report(environment, overrides: options).configuration.map { "\($0.database)" } == "a.sqlite3")
    }

    // MARK: The environment file

    @Test func aMissingFileIsFineUnlessSomebodyNamedIt() throws {
        let missing = "/nonexistent/dwell.env"
        #expect(report(file: missing).problems.map(\.variable) == ["ENV_FILE"])
        #expect(report(overrides: ["ENV_FILE": missing]).problems.map(\.variable) == ["ENV_FILE"])
        let unnamed = Configuration.report(from: ConfigurationInput(environment: [:]))
        #expect(!unnamed.problems.contains { $0.variable == "ENV_FILE" })
    }

    @Test func aFolderOrALongFileIsNoEnvironmentFile() throws {
        try withFiles(["long": String(repeating: "#", count: EnvironmentFile.fileBytesMax + 1)]) { folder in
            #expect(report(file: folder).problems.map(\.variable) == ["ENV_FILE"])
            #expect(report(file: folder + "/long").problems.map(\.variable) == ["ENV_FILE"])
            #expect(report(file: "").problems.map(\.variable) == ["ENV_FILE"])
        }
    }

    @Test func linesOfTheFile() throws {
        let text = """
            \u{20}\t
            # HTTP_PORT=1
              HTTP_PORT = 1000\u{20}
            export JWT_ISSUER="quoted"
            JWT_AUDIENCE='single'\r
            MAX_CONNECTIONS=1
            MAX_CONNECTIONS=2
            DATABASE_PATH=a=b#c
            """
        try withFiles(["env": text]) { folder in
            let configuration = try #require(report(file: folder + "/env").configuration)
            #expect(configuration.http.port == 1000)
            #expect(configuration.tokens.scope.issuer == "quoted")
            #expect(configuration.tokens.scope.audience == "single")
            #expect(configuration.http.connectionsMax == 2)
            #expect("\(configuration.database)" == "a=b#c")
        }
    }

    @Test func aLineThatSaysNothingIsToldByItsNumberAlone() throws {
        try withFiles(["env": "HTTP_PORT=1\nJWT_SECRET hunter2\n=x\nA B=c\n"]) { folder in
            let problems = report(file: folder + "/env").problems
            #expect(problems.map(\.variable) == (2...4).map { "\(folder)/env:\($0)" })
            #expect(!problems.contains { $0.description.contains("hunter2") })
        }
    }

    @Test func mistypedNamesAreToldAndForeignOnesAreNot() throws {
        let text = """
            NATIVE_CHARGER_RADIUS=1
            HTPP_PORT=1
            JWT_SECRET_FILES=x
            JWT_NONSENSE_OF_ANOTHER_KIND=1
            METRICS_PORT=1
            OTHER=1
            ENV_FILE=elsewhere
            """
        try withFiles(["env": text]) { folder in
            let report = report(file: folder + "/env")
            #expect(report.problems.isEmpty)
            let prefix = folder + "/env:"
            #expect(
                report.warnings == [
                    prefix + "1: NATIVE_CHARGER_RADIUS is not a variable of this version; "
                        + "did you mean NATIVE_CHARGER_INTENT_RADIUS_M?",
                    prefix + "2: HTPP_PORT is not a variable of this version; did you mean HTTP_PORT?",
                    prefix + "3: JWT_SECRET_FILES is not a variable of this version; did you mean JWT_SECRET_FILE?",
                    prefix + "4: JWT_NONSENSE_OF_ANOTHER_KIND is not a variable of this version",
                ])
        }
    }

    // MARK: Secrets

    @Test(arguments: ["", "\n", "\r\n"])
    func aSecretCanComeFromAFile(ending: String) throws {
        try withFiles(["key": Self.secret + ending]) { folder in
            let read = report(["JWT_SECRET_FILE": folder + "/key", "APP_ENV": "production"])
            #expect(read.problems.isEmpty)
            #expect(try variable("JWT_SECRET", in: read).shown == "set")
            let direct = report(["JWT_SECRET": Self.secret])
            let keys = try [read, direct].map { try #require($0.configuration).tokens }
            for key in keys { #expect("\(try key.signingKey())" == "SigningKey(HS256)") }
        }
    }

    @Test func aSecretGivenTwiceIsAnError() throws {
        try withFiles(["key": Self.secret]) { folder in
            let problems = report(["JWT_SECRET_FILE": folder + "/key", "JWT_SECRET": Self.secret]).problems
            #expect(
                problems.map(\.description) == ["JWT_SECRET and JWT_SECRET_FILE are both set; allowed is one of them"])
        }
    }

    @Test func aSecretsFileThatCannotBeReadIsTold() {
        let problems = report(["JWT_SECRET_FILE": "/nonexistent/key", "REDIS_URL_FILE": "/"]).problems
        #expect(Set(problems.map(\.variable)) == ["JWT_SECRET_FILE", "REDIS_URL_FILE"])
    }

    @Test(arguments: ["ENV_FILE", "JWT_SECRET_FILE", "JWT_PRIVATE_KEY_FILE", "SETTINGS_RULES_FILE", "PUSH_TEXTS_FILE"])
    func `a file that is a FIFO, a directory or a device is rejected without waiting for it`(
        variable: String
    ) throws {
        try withFiles([:]) { folder in
            let fifo = folder + "/fifo"
            try #require(mkfifo(fifo, 0o600) == 0)
            for (path, reason) in [
                (fifo, "it is a FIFO, not a regular file"), (folder, "it is a directory, not a regular file"),
                ("/dev/zero", "it is a device, not a regular file"),
            ] {
                let problems = Configuration.report(
                    from: ConfigurationInput(environment: ["ENV_FILE": "/dev/null"].merging([variable: path]) { $1 })
                ).problems
                #expect(problems.map(\.variable) == [variable])
                #expect(problems.first?.detail.contains(reason) == true, "\(problems)")
            }
        }
    }

    /// Kubernetes makes a secret's file a symbolic link. A directory in the link's target path is a symbolic link too.
    @Test func `a secret's file may be a symbolic link`() throws {
        try withFiles(["key": Self.secret]) { folder in
            try FileManager.default.createSymbolicLink(atPath: folder + "/data", withDestinationPath: ".")
            try FileManager.default.createSymbolicLink(atPath: folder + "/link", withDestinationPath: "data/key")
            #expect(report(["JWT_SECRET_FILE": folder + "/link"]).problems.isEmpty)
        }
    }

    @Test(arguments: ["", "\n", "\r\n"])
    func anEmptyFileIsNoSecret(content: String) throws {
        try withFiles(["empty": content]) { folder in
            for name in ["JWT_SECRET", "METRICS_TOKEN", "DATABASE_URL", "REDIS_URL"] {
                let problems = report(["\(name)_FILE": folder + "/empty"]).problems
                try #require(problems.map(\.variable) == ["\(name)_FILE"])
                #expect(problems[0].detail.contains("it is empty"))
            }
        }
    }

    @Test func anEmptySecretIsNotSet() throws {
        let configuration = try #require(
            report(["JWT_SECRET": "", "JWT_SECRET_FILE": "", "REDIS_URL": ""]).configuration)
        guard case .generated = configuration.tokens.key else {
            Issue.record("a key was configured")
            return
        }
    }

    @Test func productionNeedsAKey() {
        #expect(report(["APP_ENV": "production"]).problems.map(\.variable) == ["JWT_SECRET"])
        #expect(report(["APP_ENV": "production", "JWT_SECRET": ""]).problems.map(\.variable) == ["JWT_SECRET"])
        #expect(report(["APP_ENV": "production", "JWT_SECRET": Self.secret]).problems.isEmpty)
        // Each problem is reported once.
        #expect(report(["APP_ENV": "production", "JWT_SECRET": "short"]).problems.count == 1)
    }

    @Test func twoKeysAreOneTooMany() {
        let problems = report(["JWT_SECRET": Self.secret, "JWT_PRIVATE_KEY_FILE": "/dev/null"]).problems
        #expect(problems.map(\.variable) == ["JWT_SECRET"])
    }

    @Test func aPrivateKeyFileMustHoldOne() throws {
        #expect(report(["JWT_PRIVATE_KEY_FILE": "/dev/null"]).problems.map(\.variable) == ["JWT_PRIVATE_KEY_FILE"])
        #expect(report(["JWT_PRIVATE_KEY_FILE": "/nonexistent"]).problems.map(\.variable) == ["JWT_PRIVATE_KEY_FILE"])
        try withFiles(["key.pem": Self.p256PrivateKeyPEM]) { folder in
            let configuration = try #require(report(["JWT_PRIVATE_KEY_FILE": folder + "/key.pem"]).configuration)
            #expect("\(try configuration.tokens.signingKey())" == "SigningKey(ES256)")
        }
    }

    @Test func theRedisURLIsShownWithoutItsPassword() throws {
        let report = report(["REDIS_URL": "redis://user:hunter2@127.0.0.1:7000/3"])
        #expect(report.configuration?.redis.endpoint?.password == "hunter2")
        #expect(try variable("REDIS_URL", in: report).shown == "127.0.0.1:7000, database 3")
    }

    /// A P-256 key made for these tests, in PKCS #8. It signs nothing else.
    static let p256PrivateKeyPEM = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgchPSTUVL/2y/GAWh
        UVN62s18hQPH9AYnOqH4l/RjZTyhRANCAAR082kwAACO56hEmc+xdUcMGAxWSVhc
        WUT+t/8oqHOe9AuZQ9APNPQWsYzwgMCmz39IB4IWbOlpoFBF2MpnKmtA
        -----END PRIVATE KEY-----
        """
}
