// Generates the events of a drive from random numbers and the server's settings. DriveDeliveries.swift generates the
// deliveries.

import JourneyModel

struct DriveScript {
    let scenario: Scenario
    let settings: Settings
    let isV1: Bool
    var random: ScriptRandom

    var events: [ScriptedEvent] = []
    var now: Int64 = 0
    private var sequence: Int64 = 0
    var activatedAt: Int64 = 0
    private var clockErrorMilliseconds: Int64 = 0
    /// The number of events that the phone reported before the app was killed. Nil except in the scenario `forceQuit`.
    private(set) var reportedBeforeQuit: Int?

    var hardMilliseconds: Int64 { Int64(settings.hardTimeoutSeconds) * 1000 }
    var graceMilliseconds: Int64 { Int64(settings.gracePeriodSeconds) * 1000 }
    /// The prefix of the drive's ids. It is unique among a driver's drives, because a driver plays each scenario at
    /// most once.
    var prefix: String { scenario.rawValue }
    var sessionID: String { "\(prefix)-session" }

    /// The time between a drive's last deadline and the start of the following drive. For the driver's last drive, the
    /// time between its last deadline and now.
    private static let restMilliseconds: Int64 = 600_000

    private init(_ scenario: Scenario, seed: UInt64, settings: Settings) {
        self.scenario = scenario
        self.settings = settings
        random = ScriptRandom(seed: seed)
        isV1 = random.happens(inPercent: 40) || scenario.isOfShippedClients
    }

    /// - Parameter previousSession: the session of the previous drive, which a reset event names. Nil for the driver's
    ///   first drive.
    static func drive(
        _ scenario: Scenario, seed: UInt64, settings: Settings, previousSession: String?
    ) -> Drive {
        var script = DriveScript(scenario, seed: seed, settings: settings)
        script.write(previousSession: previousSession)
        return Drive(
            scenario: scenario, sessionID: script.sessionID, events: script.events, deliveries: script.deliveries(),
            durationMilliseconds: script.activatedAt + script.hardMilliseconds + restMilliseconds)
    }

    private mutating func write(previousSession: String?) {
        if scenario.isOfShippedClients {
            return driveShippedClient(from: previousSession == nil ? .idle : .sessionEnded)
        }
        let jumpMilliseconds = scenario == .clockJump ? clockJump() : 0
        let isRightAtFirst = random.happens(inPercent: 50)
        clockErrorMilliseconds = isRightAtFirst ? 0 : jumpMilliseconds
        let isReset = random.happens(inPercent: 30)
        if let previousSession, isReset { add(.reset, session: previousSession) }
        approach()
        pass(seconds: 30...300)
        clockErrorMilliseconds = isRightAtFirst ? jumpMilliseconds : 0
        activate()
        if scenario == .forceQuit { quit() } else { visit() }
    }

    /// Returns an error of the clock between 10 minutes and 3 hours. The server ignores errors of up to five minutes.
    private mutating func clockJump() -> Int64 {
        let milliseconds = Int64.random(in: 600_000...10_800_000, using: &random)
        return random.happens(inPercent: 50) ? milliseconds : -milliseconds
    }

    // MARK: Stages of a drive

    private mutating func approach() {
        if random.happens(inPercent: 30) { add(.diagnostic("app_launched")) }
        add(.chargerTargeted, after: 0...60)
        add(.enteredChargerIntentZone, after: 30...300)
        if random.happens(inPercent: 30) {
            add(.exitedChargerIntentZone, after: 20...120)
            add(.enteredChargerIntentZone, after: 20...120)
        }
        if random.happens(inPercent: 30) {
            add(.exclusiveActivatedByWeb, after: 5...30, session: "\(prefix)-too-early")
        }
        if random.happens(inPercent: 20) { add(.activationRejected, after: 5...30) }
        add(.anchorDwellComplete, after: 120...300)
        if random.happens(inPercent: 30) {
            add(.anchorLost, after: 10...60)
            add(.anchorDwellComplete, after: 120...300)
        }
    }

    private mutating func activate() {
        add(.exclusiveActivatedByWeb, session: sessionID)
        activatedAt = now
    }

    /// Adds the events after the activation, up to the end of the session. All of them happen before the deadlines.
    private mutating func visit() {
        if random.happens(inPercent: 20) {
            add(.enteredMerchantZone, afterPerMille: 1...10, of: hardMilliseconds, session: sessionID)
        }
        depart()
        if random.happens(inPercent: 20) {
            add(
                .visitVerifiedByWeb, afterPerMille: 10...50, of: graceMilliseconds, session: "\(prefix)-of-another-day")
        }
        add(.enteredMerchantZone, afterPerMille: 100...700, of: graceMilliseconds, session: sessionID)
        if random.happens(inPercent: 30) { add(.diagnostic("low_battery"), session: sessionID) }
        let left = activatedAt + hardMilliseconds - now
        let name: EventName = random.happens(inPercent: 80) ? .visitVerifiedByWeb : .webRequestedEnd
        add(name, afterPerMille: 50...600, of: left, session: sessionID)
    }

    /// The departure takes at most a tenth of the hard timeout, so that the phone can still reach the merchant in time.
    private mutating func depart() {
        add(.departedCharger, afterPerMille: 20...100, of: hardMilliseconds, session: sessionID)
    }

    /// The app is killed at the charger or on the way. In some drives, it never runs again. In the others, it runs
    /// again later, and reports the events that happened since it was killed.
    private mutating func quit() {
        let isOnTheWay = random.happens(inPercent: 75)
        if isOnTheWay { depart() }
        reportedBeforeQuit = events.count
        let deadline = isOnTheWay ? min(now + graceMilliseconds, activatedAt + hardMilliseconds) : nil
        switch Int.random(in: 0..<3, using: &random) {
        case 0: return
        case 1:
            // The phone reached the merchant before the deadline. In half of these drives, the visit was also verified
            // before the app ran again.
            guard let deadline else { return }
            add(.enteredMerchantZone, afterPerMille: 100...900, of: deadline - now, session: sessionID)
            if random.happens(inPercent: 50) {
                let left = activatedAt + hardMilliseconds - now
                add(.visitVerifiedByWeb, afterPerMille: 50...600, of: left, session: sessionID)
            }
        default:
            now = deadline ?? activatedAt + hardMilliseconds
            pass(seconds: 60...240)
            add(.enteredMerchantZone, session: sessionID)
        }
        add(.sessionRestored, after: 1...5, session: sessionID)
    }

    // MARK: Events

    /// Advances the time by whole seconds, because many phones report whole seconds.
    mutating func pass(seconds: ClosedRange<Int64>) {
        now += Int64.random(in: seconds, using: &random) * 1000
    }

    mutating func add(_ name: EventName, after seconds: ClosedRange<Int64>, session: String? = nil) {
        pass(seconds: seconds)
        add(name, session: session)
    }

    /// Advances the time by a random part of `milliseconds`, and adds an event. `share` is the range of this part, in
    /// thousandths. If the part is 0, which can happen with the smallest settings, the time advances by one
    /// millisecond.
    mutating func add(
        _ name: EventName, afterPerMille share: ClosedRange<Int64>, of milliseconds: Int64, session: String
    ) {
        now += max(1, milliseconds * Int64.random(in: share, using: &random) / 1000)
        add(name, session: session)
    }

    mutating func add(_ name: EventName, session: String? = nil) {
        let route: EventRoute = !isV1 ? .native : session == nil ? .v1PreSession : .v1Session
        let number = String(events.count)
        events.append(
            ScriptedEvent(
                id: "\(prefix)-\(number.count < 2 ? "0" : "")\(number)", name: name,
                spelling: isV1 ? name.v1Spelling : name.canonical, sessionID: session,
                chargerID: name == .diagnostic("app_launched") ? nil : "charger-1",
                merchantID: session == nil ? nil : "merchant-1", offsetMilliseconds: now,
                clockErrorMilliseconds: clockErrorMilliseconds, sequence: isV1 ? nil : sequence, route: route))
        sequence += 1
    }
}
