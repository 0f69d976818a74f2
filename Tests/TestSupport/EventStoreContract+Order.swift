// The clauses about the fold. The order of delivery does not change the result (contract, section 1, "Convergence").

import Engine
import JourneyModel

extension EventStoreContract {
    static let order: [Clause] = [
        Clause("a journey told in order ends, with the verdict and the state of each event at once") { store in
            let driver = DriverID("in-order-driver")
            let states: [JourneyState] = [
                .idle, .nearCharger, .anchored, .sessionActive, .inTransit, .atMerchant, .sessionEnded, .sessionEnded,
            ]
            let events = SampleJourney.whole(prefix: "in-order-", session: "in-order-session")
            for (submission, state) in zip(events, states) {
                let stored = try event(try await store.appended(.sample(submission, of: driver)), "append")
                try expect(stored.journey.state, state, "after \(submission.name)")
            }
        },
        Clause("a late event refolds what came after it") { store in
            let driver = DriverID("late-driver")
            let events = SampleJourney.whole(prefix: "late-", session: "late-session")
            for (index, submission) in events.enumerated() where index != 2 {
                _ = try await store.appended(.sample(submission, of: driver))
            }
            let activation = try await store.lookUp(events[3], of: driver).map { try event($0, "activation") }
            try expect(activation?.verdict, .rejected(.notAnchored), "activation without the anchor")
            let late = try event(try await store.appended(.sample(events[2], of: driver)), "the anchor, late")
            try expect(late.journey.state, .sessionEnded, "state after the late event")
            for (index, submission) in events.enumerated() {
                let expected: Verdict = index == 0 || index == 7 ? .none : .applied
                let replayed = try event(try await store.appended(.sample(submission, of: driver)), "repeat")
                try expect(replayed.verdict, expected, "verdict on \(submission.name)")
            }
        },
        Clause("a late event before the deadline undoes the deadline") { store in
            let driver = DriverID("deadline-driver")
            let events = SampleJourney.whole(prefix: "deadline-", session: "deadline-session")
            let afterGrace = Moment.sample.advanced(bySeconds: 2000)
            let restored = EventSubmission.sample(
                .sessionRestored, key: "deadline-restored", session: "deadline-session", at: afterGrace)
            for submission in events[0..<5] + [restored] {
                _ = try await store.appended(.sample(submission, of: driver))
            }
            let ended = try await store.lookUp(restored, of: driver).map { try event($0, "look-up") }
            try expect(ended?.journey.state, .sessionEnded, "900 s after departing")
            let late = try event(try await store.appended(.sample(events[5], of: driver)), "the merchant, late")
            try expect(late.verdict, .applied, "the late event")
            try expect(late.journey.state, .atMerchant, "after the late event")
        },
        Clause("random journeys, delivered in any order and more than once, converge") { store in
            for seed in UInt64(1)...12 { try await checkPermutations(seed: seed, store) }
        },
        Clause("corrections of the phone's clock order events by the corrected time") { store in
            let driver = DriverID("clock-driver")
            let received = Moment.sample.advanced(bySeconds: 7200)
            // The phone's clock is two hours ahead. An event at +7200 s by this clock occurred at the sample moment.
            let ahead = EventSubmission.sample(
                .enteredChargerIntentZone, key: "ahead", at: .sample.advanced(bySeconds: 7200),
                sentAt: received.advanced(bySeconds: 7200))
            let right = EventSubmission.sample(
                .anchorDwellComplete, key: "right", at: .sample.advanced(bySeconds: 60), sentAt: received)
            _ = try await store.appended(.sample(right, of: driver, receivedAt: received))
            let stored = try event(
                try await store.appended(.sample(ahead, of: driver, receivedAt: received)), "the clock ahead")
            try expect(stored.journey.state, .anchored, "zone entered first, then anchored")
        },
        Clause("what is known of a driver's clock decides whether a timestamp is believed") { store in
            let received = Moment.sample.advanced(bySeconds: 7200)
            func submission(_ name: EventName, _ key: String, at seconds: Int, stampedAt stamp: Int) -> EventSubmission
            {
                var submission = EventSubmission.sample(name, key: key, at: received.advanced(bySeconds: seconds))
                submission.timestamp = received.advanced(bySeconds: stamp)
                return submission
            }
            // The phone's clock is right, but the event `late` arrives after 20 minutes. If a store took this delay for
            // a clock error, it would put the event after `next`.
            let late = submission(.enteredChargerIntentZone, "late", at: -1200, stampedAt: -1200)
            let next = submission(.anchorDwellComplete, "next", at: -1000, stampedAt: 0)
            for (driver, events) in [("late-first", [late, next]), ("late-second", [next, late])] {
                var last: StoredEvent?
                for submission in events {
                    let request = AppendRequest.sample(submission, of: DriverID(driver), receivedAt: received)
                    last = try event(try await store.appended(request), driver)
                }
                try expect(last?.journey.state, .anchored, driver)
            }
            // The phone's clock is two hours behind. A single event with this difference could also just be two hours
            // late. The store therefore corrects an event only after earlier events with the same difference: here, the
            // third one.
            let driver = DriverID("clock-behind-driver")
            for (name, key, seconds) in [
                (EventName.enteredChargerIntentZone, "a", 0), (.anchorDwellComplete, "b", 130),
                (.exclusiveActivatedByWeb, "c", 140),
            ] {
                var submission = submission(name, key, at: seconds - 7200, stampedAt: seconds - 7200)
                if name.requiresSession { submission.sessionID = "clock-behind-session" }
                let request = AppendRequest.sample(
                    submission, of: driver, receivedAt: received.advanced(bySeconds: seconds))
                let stored = try event(try await store.appended(request), key)
                if key == "c" {
                    let hard = received.advanced(bySeconds: 140 + 3600)
                    try expect(stored.journey.hardDeadline, hard, "the deadline of a session that begins now")
                }
            }
        },
        Clause("deadlines last as long as the settings of the event that started them say") { store in
            let driver = DriverID("settings-driver")
            let events = SampleJourney.whole(prefix: "settings-", session: "settings-session")
            for submission in events[0..<4] { _ = try await store.appended(.sample(submission, of: driver)) }
            let settings = Settings(gracePeriodSeconds: 60)
            let stored = try event(
                try await store.appended(.sample(events[4], of: driver, settings: settings)), "departed")
            let grace = events[4].occurredAt.advanced(bySeconds: 60)
            try expect(stored.journey.graceDeadline, grace, "grace deadline")
            try expect(stored.journey.hardDeadline, events[3].occurredAt.advanced(bySeconds: 3600), "hard deadline")
        },
    ]

    /// Compares the store's results with a fold of the sorted events.
    private static func checkPermutations(seed: UInt64, _ store: any EventStore) async throws {
        var random = SeededRandom(seed: seed)
        // All events occurred before they are received, so none is ahead of the server's clock.
        let received = Moment.sample.advanced(bySeconds: 7200)
        let events = SampleJourney.random(
            count: Int.random(in: 2...24, using: &random), prefix: "p\(seed)-", using: &random)
        for delivery in 0..<4 {
            let driver = DriverID("permutation-\(seed)-\(delivery)")
            let mine = events.map { $0.withSession(suffix: "-\(delivery)") }
            let repeats = mine.filter { _ in Int.random(in: 0..<3, using: &random) == 0 }
            for submission in (mine + repeats).shuffled(using: &random) {
                _ = try await store.appended(.sample(submission, of: driver, receivedAt: received))
            }
            try await compare(mine, of: driver, in: store, "seed \(seed), delivery \(delivery)")
        }
    }

    private static func compare(
        _ events: [EventSubmission], of driver: DriverID, in store: any EventStore, _ what: String
    ) async throws {
        let placed = events.map(OrderedEvent.init(sample:)).sorted()
        let steps = Fold.replay(placed)
        for (event, step) in zip(placed, steps) {
            guard let submission = events.first(where: { $0.idempotencyKey == event.idempotencyKey }) else { continue }
            let found = try await store.lookUp(submission, of: driver).map { try self.event($0, what) }
            try expect(found?.verdict, step.verdict, "\(what): verdict on \(event.idempotencyKey) \(event.name)")
            try expect(found?.journey, steps.last?.journey, "\(what): journey")
        }
    }
}

extension EventSubmission {
    /// Adds `suffix` to the session id. A session belongs to one driver, so each driver needs new session ids.
    fileprivate func withSession(suffix: String) -> EventSubmission {
        var other = self
        other.sessionID = sessionID.map { $0 + suffix }
        return other
    }
}

extension OrderedEvent {
    /// Creates the event that a store makes from a submission without a send time. The store cannot correct the time of
    /// such an event.
    fileprivate init(sample submission: EventSubmission) {
        self.init(
            name: submission.name, sessionID: submission.sessionID, chargerID: submission.chargerID,
            occurredAt: submission.occurredAt, sequence: submission.sequence, eventID: submission.eventID,
            idempotencyKey: submission.idempotencyKey, origin: .client,
            gracePeriodSeconds: Settings().gracePeriodSeconds, hardTimeoutSeconds: Settings().hardTimeoutSeconds)
    }
}
