// Tests of the drives that a seed determines. A seed always gives the same drives. Each drive fits its scenario and is
// possible with a real phone.

import JourneyModel
import Simulation
import Testing

struct DriverDayTests {
    private static let settings = Settings()

    private static func day(_ seed: UInt64, _ scenarios: [Scenario] = Scenario.drives) -> DriverDay {
        DriverDay(seed: seed, scenarios: scenarios, settings: settings)
    }

    private static func drive(_ seed: UInt64, _ scenario: Scenario) throws -> Drive {
        try #require(day(seed, [scenario]).drives.first)
    }

    @Test("the same seed gives the same drives, another seed others")
    func isDeterministic() {
        #expect(Self.day(7) == Self.day(7))
        #expect(Self.day(7).drives != Self.day(8).drives)
    }

    private static let namesOfSeedOne = [
        "charger_targeted", "entered_charger_intent_zone", "exited_charger_intent_zone", "entered_charger_intent_zone",
        "anchor_dwell_complete", "exclusive_activated", "departed_charger", "visit_verified", "entered_merchant_zone",
        "web_requested_end",
    ]

    /// A seed must give the same drives on any machine and with any version of the standard library.
    @Test("the drives of a seed are pinned")
    func isPinned() throws {
        let drive = try Self.drive(1, .happyPath)
        #expect(drive.events.map(\.spelling) == Self.namesOfSeedOne)
    }

    @Test("every event of every drive is told at least once", arguments: Scenario.drives)
    func tellsEverything(scenario: Scenario) throws {
        for seed in UInt64(0)..<200 {
            let drive = try Self.drive(seed, scenario)
            let told = Set(drive.deliveries.flatMap(\.events))
            #expect(told == Set(drive.events.indices), "seed \(seed)")
            #expect(drive.deliveries.allSatisfy { !$0.events.isEmpty && $0.events.count <= 500 }, "seed \(seed)")
        }
    }

    @Test("every drive ends in SESSION_ENDED, by its events or by a deadline", arguments: Scenario.drives)
    func endsTheSession(scenario: Scenario) throws {
        for seed in UInt64(0)..<200 {
            let drive = try Self.drive(seed, scenario)
            let last = try #require(Fold.replay(Fold.inOrder(drive.placed)).last)
            let over = Moment(millisecondsSinceEpoch: drive.durationMilliseconds)
            #expect(last.journey.advanced(to: over).state == .sessionEnded, "seed \(seed)")
            #expect(drive.events.allSatisfy { $0.offsetMilliseconds < drive.durationMilliseconds }, "seed \(seed)")
        }
    }

    @Test("drives without mishap pass through every state on the way")
    func goesTheWholeWay() throws {
        for seed in UInt64(0)..<50 {
            let drive = try Self.drive(seed, .happyPath)
            let states = Set(Fold.replay(Fold.inOrder(drive.placed)).map(\.journey.state))
            #expect(
                states.isSuperset(of: [.nearCharger, .anchored, .sessionActive, .inTransit, .atMerchant, .sessionEnded]
                ),
                "seed \(seed)")
        }
    }

    @Test("the smallest settings that the server allows still leave room for a way")
    func fitsSmallSettings() throws {
        let settings = Settings(gracePeriodSeconds: 1, hardTimeoutSeconds: 1)
        for seed in UInt64(0)..<100 {
            let drive = try #require(
                DriverDay(seed: seed, scenarios: [.happyPath], settings: settings).drives.first)
            let placed = Fold.inOrder(drive.events.map { $0.placed(by: settings) })
            #expect(Fold.replay(placed).contains { $0.journey.state == .atMerchant }, "seed \(seed)")
        }
    }

    @Test("each scenario does what it is named after")
    func isWhatItSays() throws {
        for seed in UInt64(0)..<50 {
            #expect(try Self.drive(seed, .offlineGap).deliveries.contains { $0.form == .batch }, "seed \(seed)")
            let errors = Set(try Self.drive(seed, .clockJump).events.map(\.clockErrorMilliseconds))
            #expect(errors.count == 2 && errors.contains(0), "seed \(seed)")
            #expect(errors.allSatisfy { $0 == 0 || (600_000...10_800_000).contains($0.magnitude) }, "seed \(seed)")
            let delivered = try Self.drive(seed, .duplicates)
            #expect(delivered.deliveries.flatMap(\.events).count > delivered.events.count, "seed \(seed)")
            let lossy = try Self.drive(seed, .lostEvents)
            let outcome = Fold.replay(Fold.inOrder(lossy.placed)).last?.journey
            #expect(outcome?.endedBy == .verified && outcome?.sessionID == lossy.sessionID, "seed \(seed)")
            let killed = try Self.drive(seed, .forceQuit)
            #expect(killed.events.contains { $0.name == .exclusiveActivatedByWeb }, "seed \(seed)")
        }
        #expect(
            try (UInt64(0)..<50).contains { seed in
                let order = try Self.drive(seed, .shuffledDelivery).deliveries.flatMap(\.events)
                return order != order.sorted()
            })
        #expect(
            try (UInt64(0)..<50).contains { seed in
                try Self.drive(seed, .duplicates).deliveries.contains { $0.form == .together }
            })
    }

    @Test(
        "what went wrong in the field ends as a careful person would conclude",
        arguments: [Scenario.verifiedAnywhere, .staleTimestamp, .rebuiltBody, .earlyEnd, .sameSecond, .targetSetAgain])
    func endsAsItHappened(scenario: Scenario) throws {
        for seed in UInt64(0)..<50 {
            let drive = try Self.drive(seed, scenario)
            let steps = Fold.replay(Fold.inOrder(drive.placed))
            let head = try #require(steps.last?.journey)
            #expect(head.endedBy == .verified && head.sessionID == drive.sessionID, "seed \(seed)")
            #expect(drive.events.allSatisfy { $0.previousState != nil && $0.isWholeSecond }, "seed \(seed)")
        }
    }

    @Test("each of them has what it is about")
    func isAboutItsCase() throws {
        for seed in UInt64(0)..<50 {
            let verified = try Self.drive(seed, .verifiedAnywhere)
            #expect(!verified.events.contains { $0.name == .enteredMerchantZone }, "seed \(seed)")

            // The `timestamp` of these events is the time of a late attempt. If a server used it as the event's time,
            // the event would come after a deadline.
            let late = try Self.drive(seed, .staleTimestamp)
            let believed = late.events.map { event in
                var event = event
                if case .ofAnAttempt(let seconds) = event.timestamp { event.offsetMilliseconds += seconds * 1000 }
                return event.placed(by: Self.settings)
            }
            #expect(Fold.replay(Fold.inOrder(believed)).last?.journey.endedBy != .verified, "seed \(seed)")

            let ended = try Self.drive(seed, .earlyEnd)
            let end = try #require(ended.events.first { $0.name == .webRequestedEnd }, "seed \(seed)")
            #expect(end.sessionID == nil && end.route == .v1PreSession, "seed \(seed)")

            let seconds = try Self.drive(seed, .sameSecond).events.map(\.offsetMilliseconds)
            #expect(Set(seconds).count < seconds.count, "seed \(seed)")

            let again = try Self.drive(seed, .targetSetAgain).placed
            let steps = Fold.replay(Fold.inOrder(again)).map(\.journey)
            #expect(zip(steps, steps.dropFirst()).contains { $0.closing(by: $1) == .superseded }, "seed \(seed)")
        }
        let forms = try (UInt64(0)..<50).flatMap { try Self.drive($0, .rebuiltBody).deliveries.map(\.form) }
        #expect(Set(forms) == [.alone, .rebuilt, .changed])
    }

    @Test("leaving out other scenarios leaves a drive as it was, but for the session that it resets")
    func doesNotDependOnOthers() throws {
        for seed in UInt64(0)..<50 {
            let alone = try Self.drive(seed, .clockJump).events.filter { $0.name != .reset }
            let among = try #require(Self.day(seed).drives.first { $0.scenario == .clockJump })
            #expect(among.events.filter { $0.name != .reset }.map(\.name) == alone.map(\.name), "seed \(seed)")
        }
    }
}

extension Drive {
    var placed: [OrderedEvent] { events.map { $0.placed(by: Settings()) } }
}

extension ScriptedEvent {
    func placed(by settings: Settings) -> OrderedEvent {
        OrderedEvent(
            name: name, sessionID: sessionID, chargerID: chargerID,
            occurredAt: Moment(millisecondsSinceEpoch: offsetMilliseconds), sequence: sequence, eventID: id,
            idempotencyKey: id, origin: .client, previousState: previousState, isWholeSecond: isWholeSecond,
            gracePeriodSeconds: settings.gracePeriodSeconds, hardTimeoutSeconds: settings.hardTimeoutSeconds)
    }
}
