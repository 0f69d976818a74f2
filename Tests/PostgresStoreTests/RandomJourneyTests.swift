// Random journeys, delivered late, twice and in batches. PostgreSQL gives the same outcomes as the store in memory, and
// what is stored in the end is the fold of all events in order. DWELL_POSTGRES_JOURNEYS sets the number of journeys; a
// failure names its seed, and DWELL_PROPERTY_SEED=<seed> with DWELL_POSTGRES_JOURNEYS=1 repeats it alone.

import Engine
import JourneyModel
import TestSupport
import Testing

@testable import PostgresStore

struct RandomJourneyTests {
    private static let seeds = PropertyRun.seeds("DWELL_POSTGRES_JOURNEYS", unlessSet: 200)
    private static let end = Moment.sample.advanced(bySeconds: 900_000)

    @Test func `outcomes are those of the store in memory, and the table is the fold in order`() async throws {
        let database = try await StoreFixture.database()
        let differences = try await StoreFixture.withStores(on: database) { (stores) async throws in
            try await withThrowingTaskGroup(of: [String].self) { group in
                var waiting = Self.seeds.makeIterator()
                for seed in (0..<16).compactMap({ _ in waiting.next() }) {
                    group.addTask { try await Self.play(seed, stores[0], database) }
                }
                var differences: [String] = []
                while let found = try await group.next() {
                    differences += found
                    if let seed = waiting.next() {
                        group.addTask { try await Self.play(seed, stores[0], database) }
                    }
                }
                return differences
            }
        }
        for difference in differences.prefix(5) { Issue.record("\(difference)") }
    }

    private static func play(
        _ seed: UInt64, _ store: PostgresEventStore, _ database: StoreFixture.Database
    ) async throws -> [String] {
        var random = SeededRandom(seed: seed)
        let events = RandomJourney.events(from: .sample, countMax: 30, sessionPrefix: "s\(seed)-", &random)
        let delayMax = [0, 0, 3, 100].randomPick(&random)
        var deliveries = events.indices.flatMap { random.chance(1, in: 4) ? [$0, $0] : [$0] }
            .map { (event: $0, place: $0 + Int.random(in: 0...delayMax, using: &random)) }
            .sorted { ($0.place, $0.event) < ($1.place, $1.event) }.map(\.event)[...]
        let driver = DriverID("driver-\(seed)")
        let memory = MemoryEventStore()
        var arrived: [Int] = []
        while !deliveries.isEmpty {
            let batch = deliveries.prefix(Int.random(in: 1...6, using: &random))
            deliveries = deliveries.dropFirst(batch.count)
            for event in batch where !arrived.contains(event) { arrived.append(event) }
            let requests = batch.map { AppendRequest.random(events[$0], of: driver) }
            let outcomes = await store.append(requests)
            let expected = await memory.append(requests)
            for (index, pair) in zip(batch, zip(outcomes, expected)) where pair.0 != pair.1 {
                return ["seed \(seed), event \(index): \(pair.0) instead of \(pair.1)"]
            }
        }
        let submissions = events.map { AppendRequest.random($0, of: driver).submission }
        let found = try await store.lookUp(submissions, of: driver)
        let expected = try await memory.lookUp(submissions, of: driver)
        if found != expected { return ["seed \(seed): look-ups differ"] }
        _ = await store.expire(
            driver, ExpiryRequest(now: Self.end, settings: VersionedSettings(Settings()), driversMax: 1))
        let stored = try await ExpectedEvent.stored(driver, in: database)
        let fold = ExpectedEvent.all(arrived.map { events[$0] }, until: Self.end)
        guard stored == fold else {
            let difference = zip(stored, fold).first { $0 != $1 }
            return ["seed \(seed): stored \(stored.count) events, expected \(fold.count); first: \(difference as Any)"]
        }
        return []
    }
}
