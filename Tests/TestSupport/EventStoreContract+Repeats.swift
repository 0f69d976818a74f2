// The clauses about idempotency keys (contract, section 3): repeats, reused keys, and separate keys for each driver.

import Engine
import JourneyModel

extension EventStoreContract {
    static let repeats: [Clause] = [
        Clause("a new event is stored, its repeat replayed, and neither changes the journey twice") { store in
            let driver = DriverID("repeats-driver")
            let request = AppendRequest.sample(
                .sample(.enteredChargerIntentZone, key: "k1", eventID: "e1", charger: "c"), of: driver)
            let journey = Journey(state: .nearCharger, targetChargerID: "c")
            let event = StoredEvent(eventID: "e1", verdict: .applied, journey: journey)
            try expect(try await store.lookUp(request.submission, of: driver), nil, "look-up before")
            try expect(try await store.appended(request), .stored(event), "first")
            try expect(try await store.appended(request), .replayed(event), "second")
            try expect(try await store.lookUp(request.submission, of: driver), .replayed(event), "look-up after")
        },
        Clause("the same key with another body is reused, and leaves what is stored alone") { store in
            let driver = DriverID("reuse-driver")
            let first = AppendRequest.sample(.sample(.chargerTargeted, key: "k", charger: "one"), of: driver)
            let second = AppendRequest.sample(.sample(.chargerTargeted, key: "k", charger: "two"), of: driver)
            let stored = try event(try await store.appended(first), "first")
            try expect(try await store.appended(second), .keyReused, "other body")
            try expect(try await store.lookUp(second.submission, of: driver), .keyReused, "look-up")
            try expect(try await store.appended(first), .replayed(stored), "the first again")
            try expect(stored.journey.targetChargerID, "one", "target")
        },
        Clause("a repeat with another send time is a repeat, and corrects nothing") { store in
            let driver = DriverID("resend-driver")
            let late = Moment.sample.advanced(bySeconds: 86_400)
            var submission = EventSubmission.sample(.chargerTargeted, key: "k", charger: "c", sentAt: .sample)
            let first = try await store.appended(.sample(submission, of: driver, receivedAt: .sample))
            submission.sentAt = late
            let second = try await store.appended(.sample(submission, of: driver, receivedAt: late))
            try expect(second, .replayed(try event(first, "first")), "later attempt")
        },
        Clause("a body that was built again in another app state or schema version is a repeat") { store in
            let driver = DriverID("rebuilt-driver")
            let first = EventSubmission.sample(
                .chargerTargeted, key: "k", charger: "c", sequence: 4, metadata: #"{"a":{"c":1,"b":"\u00e9"}}"#)
            let stored = try event(try await store.appended(.sample(first, of: driver)), "first")
            for (appState, version) in [("foreground", "1.0"), (nil, "1.0"), ("background", "1.7"), (nil, "1.1")] {
                var rebuilt = first
                rebuilt.appState = appState
                rebuilt.schemaVersion = version
                rebuilt.metadata = #"{"a":{"b":"é","c":1.0}}"#
                rebuilt.canonicalForm = rebuilt.canonicalForm(appState: appState, schemaVersion: version) ?? []
                let place = "\(appState ?? "-") \(version)"
                try expect(try await store.appended(.sample(rebuilt, of: driver)), .replayed(stored), place)
                try expect(try await store.lookUp(rebuilt, of: driver), .replayed(stored), "look-up, \(place)")
                var other = rebuilt
                other.sequence = 5
                other.canonicalForm = other.canonicalForm(appState: appState, schemaVersion: version) ?? []
                try expect(try await store.appended(.sample(other, of: driver)), .keyReused, "other, \(place)")
                try expect(try await store.lookUp(other, of: driver), .keyReused, "look-up of other, \(place)")
            }
        },
        Clause("keys are each driver's own, and case-sensitive") { store in
            let submission = EventSubmission.sample(.enteredChargerIntentZone, key: "shared-key")
            let upper = EventSubmission.sample(.chargerTargeted, key: "SHARED-KEY")
            for (submission, driver) in [(submission, "mine"), (submission, "yours"), (upper, "mine")] {
                let outcome = try await store.appended(.sample(submission, of: DriverID("keys-\(driver)")))
                guard case .stored = outcome else {
                    throw ContractViolation(description: "\(submission.idempotencyKey) of \(driver): \(outcome)")
                }
            }
        },
        Clause("an event_id may repeat under different keys") { store in
            let driver = DriverID("event-id-driver")
            for key in ["a", "b"] {
                let outcome = try await store.appended(
                    .sample(.sample(.chargerTargeted, key: key, eventID: "same"), of: driver))
                guard case .stored = outcome else { throw ContractViolation(description: "key \(key): \(outcome)") }
            }
        },
        Clause("copies in flight at once are stored once, all with the same verdict") { store in
            let request = AppendRequest.sample(
                .sample(.enteredChargerIntentZone, key: "in-flight"), of: DriverID("in-flight-driver"))
            let outcomes = try await withThrowingTaskGroup(of: EventOutcome.self) { group in
                for _ in 0..<32 { group.addTask { try await store.appended(request) } }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            let stored = outcomes.filter { if case .stored = $0 { true } else { false } }
            try expect(stored.count, 1, "stored")
            let events = try Set(outcomes.map { try event($0, "copy") })
            try expect(events.count, 1, "distinct answers")
        },
    ]
}
