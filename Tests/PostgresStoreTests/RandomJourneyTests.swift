// Delivers the events of random journeys late, twice and in batches. PostgreSQL must give the same outcomes as the
// store in memory. At the end, the stored events must equal the fold of all events in order.
//
// DWELL_POSTGRES_JOURNEYS sets the number of journeys. A failure names its seed. To repeat only the failed journey, set
// DWELL_PROPERTY_SEED=<seed> and DWELL_POSTGRES_JOURNEYS=1.

import Engine
import JourneyModel
import TestSupport
import Testing

@testable import PostgresStore

struct RandomJourneyTests {
    private static let seeds = PropertyRun.seeds("DWELL_POSTGRES_JOURNEYS", unlessSet: 200)
    private static let end = Moment.sample.advanced(bySeconds: 900_000)

    private struct Played: Sendable {
        var seed: UInt64
        var driver: DriverID
        /// The first difference from the store in memory; nil if there is none.
        var difference: String?
        var expected: [ExpectedEvent] = []
    }

    /// To fold a late event, the store first reads `tailBegin` stored events, and more if these are too few. A journey
    /// has at most 30 events of clients. 64 are therefore nearly always enough, but 1 is often too few.
    ///
    /// With a `tailMax` of 2, most refolds are done in parts.
    @Test(arguments: [(64, 4_096), (1, 4_096), (1, 2)])
    func `outcomes are those of the store in memory, and the table is the fold in order`(
        tailBegin: Int64, tailMax: Int64
    ) async throws {
        let database = try await StoreFixture.database()
        let played = try await StoreFixture.withStores(on: database, tailBegin: tailBegin, tailMax: tailMax) {
            (stores) async throws -> [Played] in
            try await withThrowingTaskGroup(of: Played.self) { group in
                var waiting = Self.seeds.makeIterator()
                for seed in (0..<16).compactMap({ _ in waiting.next() }) {
                    group.addTask { try await Self.play(seed, stores[0]) }
                }
                var played: [Played] = []
                while let journey = try await group.next() {
                    played.append(journey)
                    if let seed = waiting.next() { group.addTask { try await Self.play(seed, stores[0]) } }
                }
                return played
            }
        }
        #expect(played.count == Self.seeds.count)
        for journey in played.filter({ $0.difference != nil }).prefix(5) {
            Issue.record("seed \(journey.seed): \(journey.difference ?? "")")
        }
        let stored = try await ExpectedEvent.stored(in: database)
        for journey in played.filter({ stored[$0.driver] != $0.expected }).prefix(5) {
            let pairs = zip(stored[journey.driver] ?? [], journey.expected)
            Issue.record("seed \(journey.seed): stored and expected \(pairs.first { $0 != $1 } as Any)")
        }
    }

    private static func play(_ seed: UInt64, _ store: PostgresEventStore) async throws -> Played {
        var random = SeededRandom(seed: seed)
        let events = RandomJourney.events(from: .sample, countMax: 30, sessionPrefix: "s\(seed)-", &random)
        let delayMax = [0, 0, 3, 100].randomPick(&random)
        var deliveries = events.indices.flatMap { random.chance(1, in: 4) ? [$0, $0] : [$0] }
            .map { (event: $0, place: $0 + Int.random(in: 0...delayMax, using: &random)) }
            .sorted { ($0.place, $0.event) < ($1.place, $1.event) }.map(\.event)[...]
        var played = Played(seed: seed, driver: DriverID("driver-\(seed)"))
        let memory = MemoryEventStore()
        var arrived: [Int] = []
        while !deliveries.isEmpty {
            let batch = deliveries.prefix(Int.random(in: 1...6, using: &random))
            deliveries = deliveries.dropFirst(batch.count)
            for event in batch where !arrived.contains(event) { arrived.append(event) }
            let requests = batch.map { AppendRequest.random(events[$0], of: played.driver) }
            let outcomes = await store.append(requests)
            let expected = await memory.append(requests)
            for (index, pair) in zip(batch, zip(outcomes, expected)) where pair.0 != pair.1 {
                played.difference = played.difference ?? "event \(index): \(pair.0) instead of \(pair.1)"
            }
        }
        let submissions = events.map { AppendRequest.random($0, of: played.driver).submission }
        let found = try await store.lookUp(submissions, of: played.driver)
        let known = try await memory.lookUp(submissions, of: played.driver)
        if found != known { played.difference = played.difference ?? "the look-ups" }
        _ = await store.expire(
            played.driver, ExpiryRequest(now: end, settings: VersionedSettings(Settings()), driversMax: 1))
        played.expected = ExpectedEvent.all(arrived.map { events[$0] }, until: end)
        return played
    }
}
