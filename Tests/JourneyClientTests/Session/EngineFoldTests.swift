// Tests the main guarantee of the library. After each input, the engine's journey equals the fold of all sent events in
// the order of the contract.
//
// The tests play random drives with noise, gaps, commands at the wrong time, clock jumps and late deliveries. The app
// may be killed at any moment.

import Foundation
import JourneyClient
import JourneyModel
import TestSupport
import Testing

struct EngineFoldTests {
    static let seeds: Range<UInt64> = {
        let first = ProcessInfo.processInfo.environment["DWELL_PROPERTY_SEED"].flatMap { UInt64($0) } ?? 1
        return first..<(first + 400)
    }()

    @Test("the server's fold of what was sent is the phone's journey, after every input of every drive")
    func foldEqualsEngine() throws {
        var reached: Set<JourneyState> = []
        for seed in Self.seeds {
            var drive = RandomDrive(seed: seed)
            for step in 0..<200 {
                try drive.step()
                let (folded, shown) = (drive.folded, drive.phone.engine.journey)
                try #require(folded == shown, "seed \(seed), step \(step)")
                let (taken, announced) = (drive.taken, drive.announced)
                try #require(taken == announced, "seed \(seed), step \(step)")
                reached.insert(drive.phone.state)
            }
            let placed = drive.placed
            let isOrdered = placed.shuffled(using: &drive.random).sorted() == placed
            #expect(isOrdered, "seed \(seed): the fold's order is the order of sending")
        }
        #expect(reached == Set(JourneyState.allCases), "drives that reach only some states prove little")
    }

    @Test("every event is one that the server accepts, with the meaning that the engine gave it")
    func wireForm() throws {
        for seed in Self.seeds.prefix(50) {
            var drive = RandomDrive(seed: seed)
            for _ in 0..<200 { try drive.step() }
            var queue = try EventQueue(driver: DriverID("d"), journal: MemoryEventJournal())
            for (index, draft) in drive.phone.sent.enumerated() {
                _ = try queue.enqueue(draft, eventID: "e\(index)", at: .at(0))
            }
            for (draft, event) in zip(drive.phone.sent, queue.events) {
                let decoded = try EventSubmission.decode(event.body, route: .native)
                #expect(decoded.name == draft.name, "seed \(seed)")
                #expect(decoded.sessionID == draft.sessionID)
                #expect(decoded.occurredAt == draft.occurredAt)
                #expect(decoded.sequence == draft.sequence)
                #expect(decoded.chargerID == draft.chargerID)
            }
        }
    }
}

/// A drive of random inputs. Some inputs are more likely than others, so that many drives reach the later states. The
/// drive also folds all events that the phone sends.
private struct RandomDrive {
    var random: SeededRandom
    var phone: Phone
    private(set) var placed: [OrderedEvent] = []
    private(set) var folded = Journey()
    /// The states that the last step entered. `taken` has them by the fold of the sent events, and `announced` by the
    /// engine's announcements. The two must be equal.
    private(set) var taken: [JourneyState] = []
    private(set) var announced: [JourneyState] = []
    private var seconds = 0.0
    private var latestSeconds = 0.0
    private var settings: Settings

    private static let spots: [Double] = [0, 5, 20, 29, 31, 60, 395, 405, 700, 970, 1000, 1030, 5000, 60_000]
    private static let sessions = ["s1", "s2"].map(Town.identifier)

    init(seed: UInt64) {
        random = SeededRandom(seed: seed)
        settings = Settings(
            chargerDwellSeconds: Int.random(in: 20...200, using: &random),
            gracePeriodSeconds: Int.random(in: 30...900, using: &random), hardTimeoutSeconds: 1200)
        phone = Phone(settings)
    }

    mutating func step() throws {
        seconds += pick([0, 0, 0.001, 1, 5, 15, 30, 60, 120, pick([1, 1, 1, 300, 1300, -400])])
        // The drive sets the clock back by at most five minutes. After a larger setback, the engine corrects its
        // deadlines. The fold here would differ, because only the server corrects the times of sent events.
        seconds = max(seconds, latestSeconds - 300)
        latestSeconds = max(seconds, latestSeconds)
        let sentBefore = phone.sent.count
        let shownBefore = phone.transitions.count
        if Int.random(in: 0..<25, using: &random) == 0 {
            try phone.restart(at: seconds, fix: Bool.random(using: &random) ? fix() : nil)
        } else {
            phone.take(input(), at: seconds)
        }
        announced = phone.transitions[shownBefore...].map(\.to)
        foldSent(from: sentBefore)
    }

    private mutating func foldSent(from first: Int) {
        taken = []
        for draft in phone.sent[first...] {
            let event = draft.placed(by: settings)
            placed.append(event)
            if folded.apply(event).transition == .applied { taken.append(folded.state) }
        }
    }

    private mutating func input() -> EngineInput {
        switch Int.random(in: 0..<20, using: &random) {
        case 0: .targeted(pick([Town.charger, Town.charger, Town.charger, Town.otherCharger]))
        case 1, 2, 3: .activated(sessionID: pick(Self.sessions), merchant: Town.merchant)
        case 4: .visitVerified(sessionID: pick(Self.sessions))
        case 5: pick([.endRequested(sessionID: pick(Self.sessions)), .resetRequested])
        case 6: .activationRejected(reason: "declined")
        case 7, 8: .crossed(crossing())
        case 9: .timerFired(pick(EngineTimer.allCases))
        default: .fixes((0..<Int.random(in: 1...3, using: &random)).map { _ in fix() })
        }
    }

    private mutating func crossing() -> GeofenceCrossing {
        let zone = pick(Geofence.Zone.allCases)
        return GeofenceCrossing(
            pick([.entered, .exited]), zone, of: zone == .merchant ? Town.merchant.id : Town.charger.id)
    }

    private mutating func fix() -> LocationFix {
        // At least half of the fixes are at the charger, because a dwell would otherwise be rare.
        let spot = Bool.random(using: &random) ? 5 : pick(Self.spots)
        return Town.fix(
            east: spot + Double.random(in: -4...4, using: &random), accuracy: pick([4, 4, 8, 20, 49, 65, -1]),
            speed: pick([nil, 0, 0, 0.4, 1.2, pick([0, 14])]),
            at: seconds - pick([0, 0, 0, 0.5, 3, 50, 200, -10]))
    }

    private mutating func pick<Value>(_ values: [Value]) -> Value {
        values[Int.random(in: values.indices, using: &random)]
    }
}
