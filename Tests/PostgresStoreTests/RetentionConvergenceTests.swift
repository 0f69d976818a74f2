// Tests the fold while retention deletes the oldest rows, with random journeys and two instances. Events arrive late
// and in any order. The remaining rows must be the same as without the deletions.
//
// Set DWELL_RETENTION_JOURNEYS=1000 for a long run.

import Engine
import JourneyModel
import TestSupport
import Testing

@testable import PostgresStore

struct RetentionConvergenceTests {
    private static let turnCount = 5
    private static let end = Moment.sample.advanced(bySeconds: 900_000)

    private static func receivedAt(turn: Int) -> Moment { .sample.advanced(bySeconds: 1_000_000 + 1000 * turn) }

    /// A driver, and the events that arrive in each turn. `counting` has the events that were not below the driver's
    /// floor when they arrived. The expected rows are the fold of `counting`.
    private struct Driver {
        let id: DriverID
        var turns: [[OrderedEvent]]
        var counting: [OrderedEvent] = []

        init(seed: UInt64) {
            var random = SeededRandom(seed: seed)
            let events = RandomJourney.events(from: .sample, sessionPrefix: "keep\(seed)-", &random)
            id = DriverID("keep-\(seed)")
            turns = Array(repeating: [], count: turnCount)
            for event in events.shuffled(using: &random) {
                turns[Int.random(in: 0..<turnCount, using: &random)].append(event)
            }
        }
    }

    @Test func `what stays is what it would be had nothing been deleted`() async throws {
        let database = try await StoreFixture.database()
        let seeds = PropertyRun.seeds("DWELL_RETENTION_JOURNEYS", unlessSet: 40)
        var drivers = seeds.map(Driver.init)
        var random = SeededRandom(seed: seeds.lowerBound)
        var deletedCount = 0
        for turn in 0..<Self.turnCount {
            let floors = try await Self.floors(database)
            for index in drivers.indices {
                let floor = floors[drivers[index].id.rawValue] ?? .min
                drivers[index].counting += drivers[index].turns[turn].filter {
                    $0.occurredAt.millisecondsSinceEpoch >= floor
                }
            }
            let (now, cut) = (
                Moment.sample.advanced(bySeconds: Int.random(in: 0...100_000, using: &random)),
                Self.receivedAt(turn: Int.random(in: 0...turn + 1, using: &random))
            )
            let delivered = drivers
            deletedCount += try await StoreFixture.withStores(2, on: database) { (stores) async throws in
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for (index, driver) in delivered.enumerated() {
                        group.addTask {
                            for event in driver.turns[turn] {
                                var request = AppendRequest.random(event, of: driver.id)
                                request.receivedAt = Self.receivedAt(turn: turn)
                                _ = try await stores[index % 2].appended(request)
                            }
                        }
                    }
                    try await group.waitForAll()
                }
                try await StoreFixture.expireAll(stores[0], at: now)
                return try await Self.deleteAll(before: cut, stores[1])
            }
        }
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            try await StoreFixture.expireAll(stores[0], at: Self.end)
        }
        #expect(deletedCount > drivers.count)
        let kept = try await Self.kept(database)
        for driver in drivers {
            let expected = ExpectedEvent.all(driver.counting, until: Self.end)
            let stored = kept[driver.id] ?? []
            let keys = Set(stored.map(\.key))
            #expect(stored == expected.filter { keys.contains($0.key) }, "\(driver.id)")
            if let last = stored.last { #expect(last == expected.last, "\(driver.id)") }
        }
    }

    /// In a large installation, the search for old sessions takes longer than the time limit for a statement of a
    /// request. The limit must therefore not apply to the search.
    @Test(.enabled(if: CitusCluster.named == nil, "a view takes the place of the table"))
    func `old sessions are searched for longer than a request may take`() async throws {
        let database = try await StoreFixture.database()
        let configuration = try database.configuration(statementMilliseconds: 500)
        try await StoreFixture.withStores(on: database, as: configuration) { (stores) async throws in
            let registration = SessionRegistration(
                sessionID: "s", driver: DriverID("a"), chargerID: nil, merchantID: nil, receivedAt: .sample)
            #expect(try await stores[0].register(registration) == .created)
            try await database.slowDown("session")
            let found = try await stores[0].agedSessions(openedBefore: Self.end, after: 0, limit: 10)
            #expect(found.count == 1)
        }
    }

    private static func floors(_ database: StoreFixture.Database) async throws -> [String: Int64] {
        let rows = try await database.rows("SELECT driver_id, floor_at_ms FROM driver WHERE floor_at_ms IS NOT NULL")
        return rows.reduce(into: [:]) { floors, row in
            let columns = row.split(separator: "|")
            floors[String(columns[0])] = Int64(columns[1])
        }
    }

    private static func deleteAll(before cut: Moment, _ store: PostgresEventStore) async throws -> Int {
        var count = 0
        var next: Int64? = 0
        while let after = next {
            let part = try await store.agedEvents(
                AgedEventsRequest(
                    now: receivedAt(turn: turnCount), receivedBefore: cut, forwarded: .max, unforwardedBefore: cut,
                    after: after, limit: 50))
            count += try await store.delete(part.events[...])
            next = part.next
        }
        return count
    }

    /// Returns each driver's events at or above the driver's floor, in order. Leaves out expiries that have no effect.
    private static func kept(_ database: StoreFixture.Database) async throws -> [DriverID: [ExpectedEvent]] {
        let rows = try await database.rows(
            """
            SELECT driver_id, idempotency_key, transition, after_state
            FROM event JOIN driver ON driver.lane = event.lane AND driver.id = event.driver
            WHERE NOT (origin = 1 AND transition = 0) AND corrected_at_ms >= coalesce(floor_at_ms, corrected_at_ms)
            ORDER BY driver_id, \(EventStatements.ascending)
            """)
        var kept: [DriverID: [ExpectedEvent]] = [:]
        for row in rows {
            let columns = row.split(separator: "|").map(String.init)
            kept[DriverID(columns[0]), default: []].append(
                ExpectedEvent(
                    key: columns[1], transition: Int64(columns[2]) ?? -1, state: Int64(columns[3]) ?? -1))
        }
        return kept
    }
}
