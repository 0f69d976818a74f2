// `dwell simulate`: a smoke test that an operator runs after a deploy.

import ArgumentParser
import Engine
import Foundation
import Identity
import JourneyModel
import Simulation
import Sockets
import StructuredLogging

struct SimulateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "simulate",
        abstract: "Run scripted drives against a running server and check every verdict.",
        discussion: """
            Each new driver runs every scenario once: \(Scenario.drives.map(\.rawValue).joined(separator: ", ")). \
            The command computes every expected response and compares it with the server's. At the end it sends \
            every event again, and compares the responses too. The drives are in the past hours, so no deadline has \
            to be awaited. The drivers' ids begin with \(DriverID.simulatedPrefix): they are left out of /ops, of \
            /metrics except for request metrics, and of analytics. Their data stays on the server until you run \
            --clean.

            Tokens are signed with the key that `dwell token` uses. The driver of --token is counted like any other. \
            Exits with status 0 if every response matches; otherwise stops at the first divergence, prints the \
            options that reproduce it, and exits with status 1.

            \(Scenario.retriedSignIn.rawValue) runs once, and only with --apple-key: it signs in with Apple, sends \
            the sign-in again, and deletes the accounts. The server accepts that key only if its APPLE_JWKS_URL \
            serves the public key, which never holds in production.

            EXAMPLES
              dwell simulate
              dwell simulate --url https://dwell.example.org --drivers 50 --rate 200
              dwell simulate --url https://dwell.example.org --token "$TOKEN" --scenario force-quit
              dwell simulate --clean
            """)

    @Option(help: ArgumentHelp("Server URL: http[s]://host[:port] (default: from the settings)."))
    var url: String?

    @Option(help: ArgumentHelp("Number of drivers, 1 to 10000 (default: 4; 1 with --token).", valueName: "n"))
    var drivers: Int?

    @Option(help: ArgumentHelp("Events per second for all drivers together, at most 10000.", valueName: "events"))
    var rate: Double = 100

    @Option(help: ArgumentHelp("Seed of the random numbers (default: random, printed).", valueName: "number"))
    var seed: UInt64?

    @Option(help: "Run this scenario; repeatable (default: all).")
    var scenario: [Scenario] = []

    @Option(help: "Use this access token instead of one per driver. Its driver must not be in a journey.")
    var token: String?

    @Option(
        help: ArgumentHelp(
            "A file with an RSA private key (PEM) used instead of Apple's, to run \(Scenario.retriedSignIn.rawValue).",
            valueName: "file"))
    var appleKey: String?

    @Option(help: ArgumentHelp("The id (kid) of that key in the key set (default: key-1).", valueName: "kid"))
    var appleKeyID = "key-1"

    @Flag(help: "Only remove all simulated drivers from the database. A server may be running.")
    var clean = false

    @OptionGroup var settingsOptions: SettingsOptions

    private static let driversMax = 10_000
    private static let timeoutSeconds = 30
    private static let connectionsMax = 64

    func validate() throws {
        guard (1...Self.driversMax).contains(drivers ?? 1) else {
            throw ValidationError("--drivers must be a whole number from 1 to \(Self.driversMax).")
        }
        guard rate > 0, rate <= 10_000 else { throw ValidationError("--rate must be above 0 and at most 10000.") }
        if clean, url != nil || token != nil || drivers != nil || seed != nil || !scenario.isEmpty {
            throw ValidationError("--clean can be combined only with --database and --env-file.")
        }
        if appleKey == nil, scenario.contains(.retriedSignIn) {
            throw ValidationError("\(Scenario.retriedSignIn.rawValue) requires --apple-key.")
        }
        if token != nil, let drivers, drivers != 1 { throw ValidationError("--token requires --drivers 1.") }
        if let url, transport(to: url) == nil {
            throw ValidationError("--url must be http[s]://host[:port]; the host is a name or an IPv4 address.")
        }
    }

    func run() async throws {
        if clean { return try await removeAll() }
        let configuration = try configurationIfNeeded()
        let url = try url ?? Self.url(of: configuration)
        guard let transport = transport(to: url) else {
            throw ValidationError("The settings do not give a valid URL (\(url)); pass --url.")
        }
        defer { transport.close() }
        let options = options
        writeToStandardError("running against \(url), seed \(options.seed)\n")
        let simulated = SimulatedDrivers(
            options, transport: transport, tokens: try await tokens(configuration),
            identityToken: try identityToken(configuration))
        let display = ProgressOutput()
        let start = ContinuousClock.now
        do {
            let summary = try await simulated.run(progress: display.show)
            display.end()
            print(summary.text(seed: options.seed, seconds: (ContinuousClock.now - start) / .seconds(1)))
        } catch {
            display.end()
            throw Self.report(error, url: url)
        }
    }

    private func removeAll() async throws {
        try await changing(settingsOptions) { stores, _ in
            var (drivers, events) = (0, 0)
            while true {
                let removed = try await stores.simulatedDrivers.removeSimulatedDrivers(driversMax: 16)
                if removed.drivers == 0 { break }
                drivers += removed.drivers
                events += removed.events
            }
            print("simulated data removed: \(DriverCount.text(drivers)), \(events) events")
        }
    }

    // MARK: Scenarios

    private var options: SimulatedDrivers.Options {
        var scenarios: [Scenario] = []
        for scenario in scenario where !scenarios.contains(scenario) { scenarios.append(scenario) }
        let digits = String(UInt64.random(in: 0 ... .max), radix: 36)
        return SimulatedDrivers.Options(
            seed: seed ?? UInt64.random(in: 0..<1_000_000_000), drivers: drivers ?? (token == nil ? 4 : 1),
            eventsPerSecond: rate, scenarios: scenarios.isEmpty ? Scenario.allCases : scenarios,
            runID: DriverID.simulatedPrefix + digits)
    }

    // MARK: Server and tokens

    /// Returns the configuration. Returns nil if the command needs no settings: the options contain a URL and a token,
    /// but no Apple key.
    private func configurationIfNeeded() throws -> Configuration? {
        if url != nil, token != nil, appleKey == nil { return nil }
        return try settingsOptions.configuration()
    }

    private static func url(of configuration: Configuration?) throws -> String {
        guard let http = configuration?.http, !http.hosts.isEmpty else {
            throw ValidationError("The settings have no TCP port: pass --url.")
        }
        let address = HealthRequest(http: http).address
        // Use the name localhost, which also means ::1, because URLSessionTransport accepts no IPv6 address.
        if case .ip(host: "::1", let port) = address { return "http://localhost:\(port)" }
        return "http://\(address)"
    }

    private func transport(to url: String) -> URLSessionTransport? {
        URLSessionTransport(url: url, timeoutSeconds: Self.timeoutSeconds, connectionsMax: Self.connectionsMax)
    }

    private func tokens(_ configuration: Configuration?) async throws -> SimulatedDrivers.Tokens {
        if let token { return .one(token) }
        guard let tokens = configuration?.tokens else { throw ExitCode.badConfiguration }
        let issuer = await AccessTokenIssuer(key: try tokens.requiredKey(), scope: tokens.scope)
        return .perDriver { driver in
            // The token is valid for a day, so it does not expire during a run.
            try await issuer.mint(driver: driver, role: nil, ttlSeconds: 86_400, now: millisecondsSince1970() / 1000)
        }
    }

    /// Returns a source of Apple identity tokens; nil without `--apple-key`.
    private func identityToken(_ configuration: Configuration?) throws -> SimulatedDrivers.IdentityToken? {
        guard let appleKey else { return nil }
        guard let clientID = configuration?.apple.clientIDs.first else {
            throw ValidationError(
                "--apple-key signs tokens for the first of APPLE_CLIENT_IDS: set it to the server's value.")
        }
        let signer: AppleTokenSigner
        do {
            let pem = try String(contentsOfFile: appleKey, encoding: .utf8)
            signer = try AppleTokenSigner(pem: pem, keyID: appleKeyID, clientID: clientID)
        } catch {
            throw ValidationError("\(appleKey) does not contain an RSA private key in PEM format.")
        }
        return { subject, nonce in
            try signer.identityToken(subject: subject, rawNonce: nonce, now: millisecondsSince1970() / 1000)
        }
    }

    // MARK: Result

    private static func report(_ error: any Error, url: String) -> any Error {
        switch error {
        case let divergence as Divergence:
            writeToStandardError("\(divergence)\nreproduce: dwell simulate --url \(url) \(divergence.replay)\n")
        case let failure as SimulationFailure:
            writeToStandardError("\(url): \(failure)\n")
        default: return error
        }
        return ExitCode.failure
    }
}

extension Scenario: ExpressibleByArgument {}
