// Writes a drive: from randomness and the server's settings to the events of one phone. The route is always the
// same, charger to merchant; incidents on it vary as they do on the road. Deliveries are in DriveDeliveries.swift.

import JourneyModel

struct DriveScript {
    let scenario: Scenario
    private let settings: Settings
    private let isV1: Bool
    private(set) var random: ScriptRandom

    private(set) var events: [ScriptedEvent] = []
    private var now: Int64 = 0
    private var sequence: Int64 = 0
    private var activatedAt: Int64 = 0
    private var clockErrorMilliseconds: Int64 = 0
    /// How many events the phone reported before it was killed; nil for other scenarios.
    private(set) var toldBeforeQuit: Int?

    private var hardMilliseconds: Int64 { Int64(settings.hardTimeoutSeconds) * 1000 }
    private var graceMilliseconds: Int64 { Int64(settings.gracePeriodSeconds) * 1000 }
    /// A driver plays a scenario once, so ids that begin with it are unique for the driver.
    private var prefix: String { scenario.rawValue }
    private var sessionID: String { "\(prefix)-session" }

    /// Between the last deadline of a drive and the next drive, or the present.
    private static let restMilliseconds: Int64 = 600_000

    private init(_ scenario: Scenario, seed: UInt64, settings: Settings) {
        self.scenario = scenario
        self.settings = settings
        random = ScriptRandom(seed: seed)
        isV1 = random.happens(inPercent: 40) || scenario == .lostEvents
    }

    /// - Parameter previousSession: session of the drive before, for a reset; nil for the driver's first.
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
        if scenario == .lostEvents { return driveWithLosses(from: previousSession == nil ? .idle : .sessionEnded) }
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

    /// 10 minutes to 3 hours, either way: more than the server tolerates as a correct clock.
    private mutating func clockJump() -> Int64 {
        let milliseconds = Int64.random(in: 600_000...10_800_000, using: &random)
        return random.happens(inPercent: 50) ? milliseconds : -milliseconds
    }

    // MARK: The way

    /// From any state to ANCHORED.
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

    /// From SESSION_ACTIVE to the merchant and the end, within both deadlines.
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

    /// At most a tenth of the hard timeout after the start, so that the longest route still ends before it.
    private mutating func depart() {
        add(.departedCharger, afterPerMille: 20...100, of: hardMilliseconds, session: sessionID)
    }

    /// The app is killed at the charger or on the way. After that nothing is reported, or at its restart what it
    /// still knows.
    private mutating func quit() {
        let isOnTheWay = random.happens(inPercent: 75)
        if isOnTheWay { depart() }
        toldBeforeQuit = events.count
        let deadline = isOnTheWay ? min(now + graceMilliseconds, activatedAt + hardMilliseconds) : nil
        switch Int.random(in: 0..<3, using: &random) {
        case 0: return
        case 1:
            // The merchant was reached in time; the visit was verified while the app was dead, or never.
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

    // MARK: Losses

    /// Of the events that a later one proves, the last one or two are lost.
    private mutating func driveWithLosses(from state: JourneyState) {
        var phone = state
        var lossesLeft = Int.random(in: 1...2, using: &random)
        func tell(_ name: EventName, _ session: String?, to destination: JourneyState, _ seconds: ClosedRange<Int64>) {
            pass(seconds: seconds)
            defer { phone = destination }
            let isProvenLater = destination != .sessionEnded && name != .chargerTargeted
            if isProvenLater, lossesLeft > 0, random.happens(inPercent: 25) {
                lossesLeft -= 1
            } else {
                add(name, session: session, from: phone)
            }
        }
        tell(.enteredChargerIntentZone, nil, to: .nearCharger, 10...60)
        if random.happens(inPercent: 40) {
            tell(.exitedChargerIntentZone, nil, to: .idle, 10...60)
            tell(.enteredChargerIntentZone, nil, to: .nearCharger, 0...0)
        }
        tell(.anchorDwellComplete, nil, to: .anchored, 120...300)
        if random.happens(inPercent: 30) {
            tell(.exitedChargerIntentZone, nil, to: .idle, 5...60)
            tell(.enteredChargerIntentZone, nil, to: .nearCharger, 5...60)
            tell(.anchorDwellComplete, nil, to: .anchored, 120...300)
        }
        if random.happens(inPercent: 20) {
            tell(.webRequestedEnd, nil, to: .sessionEnded, 1...5)
            tell(.enteredChargerIntentZone, nil, to: .nearCharger, 5...60)
            tell(.anchorDwellComplete, nil, to: .anchored, 120...300)
        }
        if random.happens(inPercent: 30) {
            tell(.exclusiveActivatedByWeb, "\(prefix)-left", to: .sessionActive, 5...30)
            tell(.chargerTargeted, nil, to: .anchored, 5...30)
        }
        tell(.exclusiveActivatedByWeb, sessionID, to: .sessionActive, 5...30)
        activatedAt = now
        // At most a second, so that they fit into the smallest settings.
        if random.happens(inPercent: 80) {
            tell(.departedCharger, sessionID, to: .inTransit, 0...0)
            if random.happens(inPercent: 60) { tell(.enteredMerchantZone, sessionID, to: .atMerchant, 0...1) }
        }
        tell(.visitVerifiedByWeb, sessionID, to: .sessionEnded, 0...0)
    }

    private mutating func add(_ name: EventName, session: String?, from state: JourneyState) {
        add(name, session: session)
        guard let last = events.indices.last else { return }
        events[last].previousState = state
        events[last].isWholeSecond = true
    }

    // MARK: Events

    /// Whole seconds, as many phones report them.
    private mutating func pass(seconds: ClosedRange<Int64>) {
        now += Int64.random(in: seconds, using: &random) * 1000
    }

    private mutating func add(_ name: EventName, after seconds: ClosedRange<Int64>, session: String? = nil) {
        pass(seconds: seconds)
        add(name, session: session)
    }

    /// Adds an event after a share of `milliseconds` in thousandths, and at least a millisecond: settings may be as
    /// small as one second.
    private mutating func add(
        _ name: EventName, afterPerMille share: ClosedRange<Int64>, of milliseconds: Int64, session: String
    ) {
        now += max(1, milliseconds * Int64.random(in: share, using: &random) / 1000)
        add(name, session: session)
    }

    private mutating func add(_ name: EventName, session: String? = nil) {
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
