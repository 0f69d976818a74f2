// Tests in which the app is killed and restarted. Before the restart, a deadline passes, the phone moves, or the stored
// bytes are damaged.

import JourneyClient
import JourneyModel
import TestSupport
import Testing

struct RestoreTests {
    static let phones: [Phone] = {
        var ended = Phone.atMerchant()
        ended.take(.visitVerified(sessionID: Town.identifier("s1")), at: 600)
        var endedEarly = Phone.nearCharger()
        endedEarly.take(.endRequested(sessionID: Town.identifier("s7")), at: 20)
        var dwelling = Phone.nearCharger()
        dwelling.fix(east: 5, speed: nil, at: 10)
        var choosing = Phone.inTransit()
        choosing.take(.targeted(Town.otherCharger), at: 310)
        return [
            Phone(), .nearCharger(), dwelling, .anchored(), .active(), .inTransit(), .atMerchant(), ended, endedEarly,
            choosing,
        ]
    }()

    @Test("a snapshot reads back as what it was, in every state")
    func roundTrip() throws {
        for phone in Self.phones {
            let bytes = phone.engine.snapshot.encoded()
            let restored = try Snapshot(decoding: bytes)
            #expect(restored.encoded() == bytes, "\(phone.state)")
        }
    }

    @Test("timers and geofences are told anew")
    func toldAnew() throws {
        for phone in Self.phones {
            var restarted = phone
            try restarted.restart(at: 620)
            #expect(restarted.state == phone.state)
            #expect(restarted.timers == phone.timers)
            #expect(restarted.geofences == phone.geofences)
        }
    }

    @Test("an input without outputs counts after a restart too, as the app stores a snapshot after each input")
    func inputsWithoutOutputs() throws {
        var phone = Phone.active()
        phone.take(.endRequested(sessionID: Town.identifier("s1")), at: 210)
        phone.take(Town.crossing(.exited, .chargerIntent), at: 900)
        #expect(phone.outputs.isEmpty)
        phone.take(.settings(Settings(gracePeriodSeconds: 600)), at: 910)
        #expect(phone.outputs.isEmpty)
        try phone.restart(at: 87_000)
        #expect(phone.engine.settings.gracePeriodSeconds == 600)
        phone.take(Town.crossing(.entered, .chargerIntent), at: 87_000)
        #expect(phone.state == .nearCharger)
    }

    @Test("a session in progress is reported as restored; nothing is where there is none")
    func sessionRestored() throws {
        for phone in Self.phones {
            var restarted = phone
            try restarted.restart(at: 620)
            let added = restarted.sent.dropFirst(phone.sent.count)
            if phone.engine.sessionID == nil {
                #expect(added.isEmpty, "\(phone.state)")
            } else {
                #expect(added.map(\.name) == [.sessionRestored])
                #expect(added.last?.sessionID == "s1")
                #expect(added.last?.sequence == Int64(phone.sent.count))
            }
        }
    }

    @Test("a deadline that passed while the app was dead ends the session at the deadline's moment")
    func deadlinePassed() throws {
        var phone = Phone.inTransit()
        try phone.restart(at: 90_000)
        #expect(phone.state == .sessionEnded)
        #expect(phone.sent.last?.name == .gracePeriodExpired)
        #expect(phone.sent.last?.occurredAt == .at(1200))
        phone = Phone.atMerchant()
        try phone.restart(at: 3800)
        #expect(phone.sent.last?.name == .hardTimeoutExpired)
        #expect(phone.sent.last?.occurredAt == .at(3800))
    }

    @Test("a fix taken before the deadline counts before it, even when the app learns of it afterwards")
    func fixBeforeDeadline() throws {
        var phone = Phone.inTransit()
        try phone.restart(at: 1300, fix: Town.fix(east: 1000, at: 1190))
        #expect(phone.state == .atMerchant)
        #expect(phone.names.suffix(2) == [.sessionRestored, .enteredMerchantZone])
    }

    @Test("anchor lost, departed, zone left, arrived: the present position is followed from the state that was")
    func reconciliation() throws {
        let moved: [(Phone, east: Double, JourneyState, [EventName])] = [
            (.anchored(), 200, .nearCharger, [.anchorLost]),
            (.anchored(), 3000, .idle, [.anchorLost, .exitedChargerIntentZone]),
            (.nearCharger(), 3000, .idle, [.exitedChargerIntentZone]),
            (.active(), 200, .inTransit, [.sessionRestored, .departedCharger]),
            (.active(), 1000, .atMerchant, [.sessionRestored, .departedCharger, .enteredMerchantZone]),
            (.inTransit(), 1000, .atMerchant, [.sessionRestored, .enteredMerchantZone]),
            (.anchored(), 0, .anchored, []),
        ]
        for (phone, east, state, names) in moved {
            var restarted = phone
            try restarted.restart(at: 400, fix: Town.fix(east: east, at: 400))
            #expect(restarted.state == state)
            #expect(Array(restarted.names.dropFirst(phone.names.count)) == names)
            #expect(!restarted.outputs.contains(.requestFix))
        }
    }

    @Test("a jump of more than 50 km while the app was dead ends the session")
    func teleport() throws {
        var phone = Phone.inTransit()
        try phone.restart(at: 400, fix: Town.fix(east: 80_000, at: 400))
        #expect(phone.state == .sessionEnded)
        #expect(
            phone.names.suffix(3) == [.sessionRestored, .diagnostic("teleport_detected"), .webRequestedEnd])
    }

    @Test("what a restored engine said once it does not say again")
    func saidOnce() throws {
        var phone = Phone.inTransit()
        try phone.restart(at: 400, fix: Town.fix(east: 1000, at: 400))
        phone.take(.timerFired(.dwell), at: 401)
        #expect(phone.outputs.isEmpty)
    }

    @Test("without a usable fix one is asked for, and the state holds")
    func asksForFix() throws {
        for fix in [nil, Town.fix(east: 3000, accuracy: 80, at: 400)] {
            var phone = Phone.anchored()
            try phone.restart(at: 400, fix: fix)
            #expect(phone.state == .anchored)
            #expect(phone.outputs.contains(.requestFix))
        }
    }

    @Test("the fix from before the app was killed does not tell where the phone is now, so one is asked for")
    func asksForPresentFix() throws {
        for (taken, asks) in [(150.0, true), (200, true), (939.9, true), (940, false), (1000, false), (1010, false)] {
            var phone = Phone.active()
            phone.fix(east: 5, at: 200)
            try phone.restart(at: 1000, fix: Town.fix(east: 5, at: taken))
            #expect(phone.state == .sessionActive)
            #expect(phone.outputs.contains(.requestFix) == asks, "taken at \(taken) s")
        }
    }

    // MARK: Damaged or foreign bytes

    @Test("what is no snapshot of this version is refused")
    func unreadable() {
        for text in ["", "{}", "[]", "{\"version\":\"2\"}", "{\"version\":1}", "nonsense"] {
            #expect(throws: SnapshotError.unreadable) { try Snapshot(decoding: Array(text.utf8)) }
        }
        #expect(throws: SnapshotError.malformed(member: "settings")) {
            try Snapshot(decoding: Array("{\"version\":\"1\"}".utf8))
        }
    }

    @Test("a session without its id, its deadline or its merchant is refused")
    func inconsistent() {
        for member in ["session_id", "hard_deadline", "grace_deadline", "merchant"] {
            let bytes = Phone.inTransit().engine.snapshot.encoded()
            let text = String(decoding: bytes, as: UTF8.self).replacing("\"\(member)\":", with: "\"x\":")
            #expect(throws: SnapshotError.inconsistent, "\(member)") { try Snapshot(decoding: Array(text.utf8)) }
        }
    }

    @Test("no damage to a snapshot's bytes brings the engine down")
    func damaged() {
        for (index, phone) in Self.phones.enumerated() {
            var random = SeededRandom(seed: UInt64(index))
            let bytes = phone.engine.snapshot.encoded()
            for _ in 0..<300 {
                var damaged = bytes
                for _ in 0..<Int.random(in: 1...3, using: &random) {
                    let place = Int.random(in: damaged.indices, using: &random)
                    damaged[place] = UInt8.random(in: 0x20...0x7E, using: &random)
                }
                guard let snapshot = try? Snapshot(decoding: damaged) else { continue }
                var (engine, _) = SessionEngine.restored(from: snapshot, at: .at(700))
                _ = engine.handle(.fixes([Town.fix(east: 1000, at: 710)]), at: .at(710))
                _ = engine.handle(.timerFired(.hardTimeout), at: .at(99_999))
                #expect(engine.sessionID == nil || engine.journey.hardDeadline != nil)
            }
        }
    }
}
