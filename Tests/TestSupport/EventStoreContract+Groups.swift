// The clauses about several appends at once. A rejected event affects no other event. Outcomes are in the order of the
// events.

import Engine
import JourneyModel

extension EventStoreContract {
    static let groups: [Clause] = [
        Clause("one refused event of a batch leaves its neighbours stored, each answered at its place") { store in
            let (driver, other) = (DriverID("batch-driver"), DriverID("batch-other"))
            _ = try await store.appended(
                .sample(.sample(.sessionRestored, key: "k", session: "batch-others"), of: other))
            let outcomes = await store.append([
                .sample(.sample(.enteredChargerIntentZone, key: "a"), of: driver),
                .sample(.sample(.sessionRestored, key: "b", session: "batch-others"), of: driver),
                .sample(.sample(.chargerTargeted, key: "a"), of: driver),
                .sample(.sample(.enteredChargerIntentZone, key: "a"), of: driver),
                .sample(.sample(.anchorDwellComplete, key: "c", at: .sample.advanced(bySeconds: 60)), of: driver),
            ])
            let kinds = outcomes.map { outcome in
                switch outcome {
                case .stored(let event): "stored \(event.journey.state)"
                case .replayed(let event): "replayed \(event.journey.state)"
                case .keyReused: "reused"
                case .sessionNotFound: "no session"
                case .driverNotFound: "no driver"
                case .rateLimited: "limited"
                case .failed(let failure): "\(failure)"
                }
            }
            let expected = ["stored nearCharger", "no session", "reused", "replayed nearCharger", "stored anchored"]
            try expect(kinds, expected, "outcomes")
        },
        Clause("an empty batch has no outcomes") { store in
            try expect(await store.append([]).count, 0, "outcomes")
        },
        Clause("a batch takes effect in the order of its events") { store in
            let driver = DriverID("batch-order-driver")
            let events = SampleJourney.whole(prefix: "batch-order-", session: "batch-order-session")
            let outcomes = await store.append(events.map { .sample($0, of: driver) })
            let states = try outcomes.map { try event($0, "append").journey.state }
            let expected: [JourneyState] = [
                .idle, .nearCharger, .anchored, .sessionActive, .inTransit, .atMerchant, .sessionEnded, .sessionEnded,
            ]
            try expect(states, expected, "states")
        },
        Clause("events of many drivers at once are all stored") { store in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for driver in 0..<64 {
                    group.addTask {
                        let events = SampleJourney.whole(prefix: "m-", session: "many-\(driver)")
                        for submission in events {
                            let outcome = try await store.appended(
                                .sample(submission, of: DriverID("many-\(driver)")))
                            guard case .stored = outcome else {
                                throw ContractViolation(description: "driver \(driver): \(outcome)")
                            }
                        }
                    }
                }
                try await group.waitForAll()
            }
        },
        Clause("cancelling the caller gives up neither the wait nor the commit") { store in
            let request = AppendRequest.sample(
                .sample(.chargerTargeted, key: "cancelled"), of: DriverID("cancelled-driver"))
            let task = Task { try await store.appended(request) }
            task.cancel()
            guard case .stored = try await task.value else {
                throw ContractViolation(description: "a cancelled append was not stored")
            }
        },
    ]
}
