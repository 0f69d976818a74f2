// Tests of several instances on one database: concurrent events of the same drivers, deadlines, and connections that
// are cut.

import Engine
import JourneyModel
import Synchronization
import TestSupport
import Testing

@testable import PostgresStore

struct InstancesTests {
    private static let end = Moment.sample.advanced(bySeconds: 900_000)

    private final class Tally: Sendable {
        let cut = Mutex(0)
        let answers = Mutex([String: Int]())
    }

    private struct Sent: Sendable {
        var driver: DriverID
        var events: [OrderedEvent]
    }

    private static func journeys(_ count: Int, prefix: String, countMax: Int = 30) -> [Sent] {
        (0..<count).map { index in
            var random = SeededRandom(seed: UInt64(index) + 1)
            let events = RandomJourney.events(
                from: .sample, countMax: countMax, sessionPrefix: "\(prefix)\(index)-", &random)
            return Sent(driver: DriverID("\(prefix)\(index)"), events: events)
        }
    }

    /// Checks that every event is stored once and that each driver's events are numbered without gaps. The stored rows
    /// must equal the fold of all events.
    private static func check(_ sent: [Sent], _ database: StoreFixture.Database) async throws {
        let stored = try await ExpectedEvent.stored(in: database)
        let numbers = try await database.rows(
            """
            SELECT driver_id, idempotency_key, seq
            FROM event JOIN driver ON driver.lane = event.lane AND driver.id = event.driver
            ORDER BY driver_id, seq
            """
        ).map { $0.split(separator: "|").map(String.init) }
        for journey in sent {
            let keys = numbers.filter { $0[0] == journey.driver.rawValue }.map { Array($0.dropFirst()) }
            #expect(keys.map { $0[1] } == (0..<keys.count).map { String($0 + 1) }, "\(journey.driver): numbers")
            #expect(Set(keys.map { $0[0] }).count == keys.count, "\(journey.driver): twice")
            let byKey = Dictionary(uniqueKeysWithValues: journey.events.map { ($0.idempotencyKey, $0) })
            let arrived = keys.compactMap { byKey[$0[0]] }
            #expect(arrived.count == journey.events.count, "\(journey.driver): lost")
            #expect(stored[journey.driver] == ExpectedEvent.all(arrived, until: end), "\(journey.driver): fold")
        }
        let behind = try await database.rows(
            """
            SELECT driver_id FROM driver WHERE last_seq <> (SELECT count(*) FROM event
                    WHERE event.lane = driver.lane AND event.driver = driver.id)
                OR version > last_seq OR NOT EXISTS (SELECT 1 FROM event
                    WHERE event.lane = driver.lane AND event.driver = driver.id AND seq = head_seq)
            """)
        #expect(behind == [], "drivers whose row does not fit their events")
    }

    @Test func `two instances store the events of the same drivers, each once`() async throws {
        let database = try await StoreFixture.database()
        let sent = Self.journeys(24, prefix: "both-")
        let storedCount = try await StoreFixture.withStores(2, on: database) { (stores) async throws in
            let count = try await withThrowingTaskGroup(of: Int.self) { group in
                for (index, journey) in sent.enumerated() {
                    for (number, store) in stores.enumerated() {
                        group.addTask {
                            // Both instances get every event, but in different orders and in different batches.
                            var random = SeededRandom(seed: UInt64(index * 2 + number))
                            var left = journey.events.shuffled(using: &random)[...]
                            var count = 0
                            while !left.isEmpty {
                                let part = left.prefix(Int.random(in: 1...4, using: &random))
                                left = left.dropFirst(part.count)
                                let outcomes = await store.append(part.map { .random($0, of: journey.driver) })
                                for outcome in outcomes {
                                    switch outcome {
                                    case .stored: count += 1
                                    case .replayed: break
                                    default: Issue.record("\(journey.driver): \(outcome)")
                                    }
                                }
                            }
                            return count
                        }
                    }
                }
                return try await group.reduce(0, +)
            }
            try await StoreFixture.expireAll(stores[0], at: Self.end)
            return count
        }
        #expect(storedCount == sent.reduce(0) { $0 + $1.events.count }, "acknowledged as new")
        try await Self.check(sent, database)
    }

    @Test func `a session that two drivers open at once on two instances belongs to one of them`() async throws {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(2, on: database) { (stores) async throws in
            for round in 0..<40 {
                async let one = stores[0].append(
                    .sample(.sample(.sessionRestored, key: "k", session: "s\(round)"), of: DriverID("a\(round)")))
                async let two = stores[1].append(
                    .sample(.sample(.sessionRestored, key: "k", session: "s\(round)"), of: DriverID("b\(round)")))
                let outcomes = await [one, two]
                #expect(outcomes.count { if case .stored = $0 { true } else { false } } == 1)
                #expect(outcomes.count { $0 == .sessionNotFound } == 1)
            }
        }
        let twice = try await database.rows("SELECT session_id FROM session GROUP BY session_id HAVING count(*) > 1")
        #expect(twice == [])
        #expect(try await database.rows("SELECT count(*) FROM driver") == ["40"], "a refused event creates no driver")
    }

    @Test func `a deadline is stored once, whichever instance is asked`() async throws {
        let database = try await StoreFixture.database()
        let drivers = (0..<40).map { DriverID("due-\($0)") }
        try await StoreFixture.withStores(2, on: database) { (stores) async throws in
            for driver in drivers {
                let events = SampleJourney.whole(prefix: "e", session: "due-\(driver)").prefix(4)
                _ = await stores[0].append(events.map { .sample($0, of: driver) })
            }
            let deadline = Moment.sample.advanced(bySeconds: 90 + 3600)
            #expect(try await stores[1].earliestDeadline() == deadline)
            let early = ExpiryRequest(now: deadline, settings: VersionedSettings(Settings()), driversMax: 64)
            #expect(try await stores[0].storeExpiries(early) == StoredExpiries(), "not before it has passed")
            var request = early
            request.now = deadline.advanced(byMilliseconds: 1)
            request.driversMax = 16
            let stored = try await withThrowingTaskGroup(of: [DriverID].self) { group in
                for store in stores {
                    group.addTask { [request] in
                        var (stored, request) = ([DriverID](), request)
                        repeat {
                            let part = try await store.storeExpiries(request)
                            #expect(part.failures == [])
                            stored += part.drivers
                            request.after = part.next
                        } while request.after != nil
                        return stored
                    }
                }
                return try await group.reduce([], +)
            }
            #expect(stored.count == drivers.count && Set(stored) == Set(drivers))
            #expect(try await stores[1].earliestDeadline() == nil)
        }
        let rows = try await database.rows("SELECT count(*), count(DISTINCT driver) FROM event WHERE origin = 1")
        #expect(rows == ["40|40"])
    }

    @Test func `nothing acknowledged is lost and nothing is stored twice while connections are cut`() async throws {
        let database = try await StoreFixture.database()
        let sent = Self.journeys(24, prefix: "cut-")
        let tally = Tally()
        try await StoreFixture.withStores(2, on: database) { (stores) async throws in
            try await withThrowingTaskGroup(of: Void.self) { group in
                let killer = Task {
                    for _ in 0..<30 where !Task.isCancelled {
                        let rows = try await database.rows(
                            """
                            SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                            WHERE datname = current_database() AND pid <> pg_backend_pid()
                                AND backend_type = 'client backend'
                            """)
                        tally.cut.withLock { $0 += rows.first.flatMap(Int.init) ?? 0 }
                        try await Task.sleep(for: .milliseconds(10))
                    }
                }
                for (index, journey) in sent.enumerated() {
                    group.addTask {
                        var random = SeededRandom(seed: UInt64(index))
                        for event in journey.events {
                            let request = AppendRequest.random(event, of: journey.driver)
                            // As a phone does, sends the event again, to any instance, until it is acknowledged.
                            while true {
                                let outcome = await stores.randomPick(&random).append(request)
                                let kind =
                                    switch outcome {
                                    case .stored: "stored"
                                    case .replayed: "replayed"
                                    case .failed(.unavailable): "unavailable"
                                    case .failed(.unknown): "unknown"
                                    default: "\(outcome)"
                                    }
                                tally.answers.withLock { $0[kind, default: 0] += 1 }
                                if kind == "stored" || kind == "replayed" { break }
                                guard kind == "unavailable" || kind == "unknown" else { return }
                            }
                        }
                    }
                }
                try await group.waitForAll()
                killer.cancel()
                _ = try? await killer.value
            }
            try await StoreFixture.expireAll(stores[0], at: Self.end)
        }
        let (cut, counts) = (tally.cut.withLock { $0 }, tally.answers.withLock { $0 })
        #expect(cut > 3)
        #expect(counts.keys.allSatisfy { ["stored", "replayed", "unavailable", "unknown"].contains($0) })
        try await Self.check(sent, database)
    }
}
