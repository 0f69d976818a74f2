// A whole run: reads the server's settings and clock, and simulates many drivers concurrently. Stops at the first
// divergence.

import JourneyClient
package import JourneyModel

package struct SimulatedDrivers: Sendable {
    package struct Options: Sendable {
        /// The first driver's seed. The seed increases by one from driver to driver.
        package var seed: UInt64
        package var drivers: Int
        package var eventsPerSecond: Double
        /// The scenarios in the order of play, each at most once.
        package var scenarios: [Scenario]
        /// The prefix of every id, in printable ASCII. Each run must have its own prefix.
        package var runID: String

        package init(seed: UInt64, drivers: Int, eventsPerSecond: Double, scenarios: [Scenario], runID: String) {
            self.seed = seed
            self.drivers = drivers
            self.eventsPerSecond = eventsPerSecond
            self.scenarios = scenarios
            self.runID = runID
        }
    }

    package enum Tokens: Sendable {
        /// Every driver is new. The function returns a driver's access token.
        case perDriver(@Sendable (DriverID) async throws -> String)
        /// The only driver exists already. The value is this driver's access token.
        case one(String)
    }

    private let options: Options
    private let transport: any Transport
    private let tokens: Tokens
    private let identityToken: IdentityToken?
    private let localClock: @Sendable () -> Moment
    private let sleep: @Sendable (Duration) async throws -> Void

    /// The maximum number of drivers that are simulated at the same time. With more drivers, each driver would only
    /// wait longer, because `--rate` limits all drivers together.
    private static let concurrentDriversMax = 256
    private static let progressInterval = Duration.milliseconds(200)

    /// Makes an identity token in Apple's form. `nonce` is the raw nonce. Each call returns a different token.
    package typealias IdentityToken = @Sendable (_ subject: String, _ nonce: String) async throws -> String

    /// - Parameters:
    ///   - identityToken: makes identity tokens. If nil, the scenario `retriedSignIn` is not played.
    ///   - clock: this machine's clock, which may be wrong.
    ///   - sleep: the function that waits before a request is repeated, or because the server asks for it.
    package init(
        _ options: Options, transport: any Transport, tokens: Tokens, identityToken: IdentityToken? = nil,
        clock: @escaping @Sendable () -> Moment = ServerClock.system,
        sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }
    ) {
        self.options = options
        self.transport = transport
        self.tokens = tokens
        self.identityToken = identityToken
        localClock = clock
        self.sleep = sleep
    }

    /// - Parameter progress: called every `progressInterval` by one task, and once at the end.
    /// - Throws: the first `Divergence`, or a `SimulationFailure`.
    package func run(progress: @escaping @Sendable (DeliveryProgress) -> Void) async throws -> Summary {
        let settings = try await serverSettings()
        let days = (0..<options.drivers).map { index in
            DriverDay(seed: options.seed &+ UInt64(index), scenarios: options.scenarios, settings: settings.settings)
        }
        let tally = Tally(total: days.reduce(0) { $0 + $1.deliveredCount })
        let sender = RequestSender(
            transport: transport, pace: Pace(eventsPerSecond: options.eventsPerSecond), clock: settings.clock,
            tally: tally, sleep: sleep)
        let start = try await startingJourney(days: days, sender)
        let watching = Task {
            while !Task.isCancelled {
                progress(tally.progress)
                try? await Task.sleep(for: Self.progressInterval)
            }
        }
        defer { watching.cancel() }
        if options.scenarios.contains(.retriedSignIn), let identityToken {
            let play = SignInPlay(options: options, identityToken: identityToken, sender: sender)
            try await play.run()
        }
        try await playAll(days, start: start, settings: settings.settings, sender)
        watching.cancel()
        await watching.value
        progress(tally.progress)
        return tally.summary
    }

    private func playAll(_ days: [DriverDay], start: Journey, settings: Settings, _ sender: RequestSender) async throws
    {
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            for (index, day) in days.enumerated() {
                if index >= Self.concurrentDriversMax { try await tasks.next() }
                tasks.addTask { try await play(day, index, start: start, settings: settings, sender) }
            }
            // The first task that throws cancels the other tasks.
            try await tasks.waitForAll()
        }
    }

    private func play(
        _ day: DriverDay, _ index: Int, start: Journey, settings: Settings, _ sender: RequestSender
    ) async throws {
        let driver = driverID(index)
        var play = DriverPlay(
            day, driver: driver.rawValue, runID: "\(options.runID)-\(index)", token: try await token(of: driver),
            start: start, settings: settings, sender: sender)
        try await play.run()
    }

    // MARK: Drivers and tokens

    private func driverID(_ index: Int) -> DriverID { DriverID("\(options.runID)-driver-\(index)") }

    private func token(of driver: DriverID) async throws -> String {
        switch tokens {
        case .perDriver(let mint): try await mint(driver)
        case .one(let token): token
        }
    }

    // MARK: Before the first event

    private func serverSettings() async throws -> (settings: Settings, clock: ServerClock) {
        let request = DriverRequests(token: try await token(of: driverID(0))).get("/native/config")
        guard case .response(let response) = await transport.send(request) else {
            throw SimulationFailure("the server does not respond")
        }
        guard response.status == 200 else {
            let isToken = response.status == 401 || response.status == 403
            throw SimulationFailure(
                "GET /native/config got \(response.status)\(isToken ? ": the token is not accepted" : "")")
        }
        guard let settings = response.json.flatMap(Settings.init(configJSON:)) else {
            throw SimulationFailure("GET /native/config does not return the eight settings")
        }
        return (settings, ServerClock(local: localClock, date: response.field("Date")))
    }

    /// Returns the driver's journey before the first event. Throws if an existing driver has a journey in progress.
    /// Also throws if this driver has opened a session since the start of the first drive.
    private func startingJourney(days: [DriverDay], _ sender: RequestSender) async throws -> Journey {
        guard case .one(let token) = tokens else { return Journey() }
        let requests = DriverRequests(token: token)
        let session = try await sender.send(events: 0) { _ in requests.get("/native/session") }.response.json
        let page = try await sender.send(events: 0) { _ in requests.get("/native/sessions?limit=1") }.response.json
        guard let state = session?["state"]?.text.flatMap(JourneyState.init(rawValue:)) else {
            throw SimulationFailure("GET /native/session does not return the driver's state")
        }
        guard state == .idle || state == .sessionEnded else {
            throw SimulationFailure("the driver of the token has a journey in progress: \(state.rawValue)")
        }
        let begin = sender.clock.now.advanced(byMilliseconds: -(days.first?.durationMilliseconds ?? 0))
        let opened = page?["sessions"]?.elements?.first?["opened_at"]?.text.flatMap(RFC3339.moment(from:))
        if let opened, opened >= begin {
            throw SimulationFailure(
                "the driver of the token had a session after \(RFC3339.text(of: begin)), in the time of the drives")
        }
        return Journey(
            state: state, sessionID: session?["session_id"]?.text,
            targetChargerID: session?["target_charger_id"]?.text,
            nextTargetChargerID: session?["next_target_charger_id"]?.text)
    }
}
