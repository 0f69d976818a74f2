// Tests that the feed skips no event, however the transactions of several instances overlap.

import Engine
import JourneyModel
import Postgres
import Sockets
import TestSupport
import Testing

@testable import PostgresStore

struct FeedOrderTests {
    private static func append(_ key: String, of driver: String, to store: PostgresEventStore) async throws {
        _ = try await store.appended(.sample(.sample(.diagnostic("d"), key: key), of: DriverID(driver)))
    }

    @Test func `an event committed after a transaction that began earlier waits for it`() async throws {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            let store = stores[0]
            try await Self.append("first", of: "a", to: store)
            #expect(try await store.fed(1).map(\.eventID) == ["first"])
            let connection = try await PostgresConnection.open(
                try database.configuration, on: StoreFixture.loops.next(), until: .inSeconds(10))
            defer { connection.close() }
            // This transaction has a number and is not committed, like a batch of another instance. The feed must not
            // return events of transactions with higher numbers.
            let open = PostgresStatement("open_number", "SELECT pg_current_xact_id()::text")
            _ = try await connection.run([.init(.begin), .init(open)], until: .inSeconds(10))
            try await Self.append("second", of: "b", to: store)
            #expect(try await store.storedEvents(after: 0, limit: 10).map(\.eventID) == ["first"])
            #expect(try await store.position(of: "c").waitingCount == 1)
            _ = try await connection.run([.init(.commit)], until: .inSeconds(10))
            #expect(try await store.fed(2).map(\.eventID) == ["first", "second"])
        }
    }

    @Test func `a reader beside three instances gets every event once`() async throws {
        let database = try await StoreFixture.database()
        let (driverCount, eventCount) = (24, 40)
        try await StoreFixture.withStores(3, on: database) { (stores) async throws in
            async let fed = Self.readAll(stores[0], count: driverCount * eventCount)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for driver in 0..<driverCount {
                    group.addTask {
                        for event in 0..<eventCount {
                            let store = stores[(driver + event) % 3]
                            try await Self.append("\(driver)-\(event)", of: "d\(driver)", to: store)
                        }
                    }
                }
                try await group.waitForAll()
            }
            let events = try await fed
            #expect(events.count == driverCount * eventCount)
            for driver in 0..<driverCount {
                let keys = events.filter { $0.driver == DriverID("d\(driver)") }.map(\.eventID)
                #expect(keys == (0..<eventCount).map { "\(driver)-\($0)" })
            }
            #expect(events.map(\.id) == events.map(\.id).sorted())
        }
    }

    /// Reads the feed as a consumer does, each time from the last id that it got. Stops at the end of the feed, when
    /// `count` events are read or a minute has passed.
    private static func readAll(_ store: PostgresEventStore, count: Int) async throws -> [FeedEvent] {
        let end = ContinuousClock.now + .seconds(60)
        var events: [FeedEvent] = []
        while true {
            let new = try await store.storedEvents(after: events.last?.id ?? 0, limit: 7)
            events += new
            if new.isEmpty, events.count >= count || .now > end { return events }
            if new.isEmpty { try await Task.sleep(for: .milliseconds(2)) }
        }
    }

    @Test func `a database that got lower transaction numbers goes on above its events`() async throws {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            try await Self.append("before", of: "a", to: stores[0])
        }
        // Simulates a dump (pg_dump) that is restored on a new server. The stored positions are higher than those that
        // the new server gives to new events.
        _ = try await database.rows("UPDATE event SET position = position + (1000000::int8 << 16)")
        _ = try await database.migrate()
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            let before = try await stores[0].fed(1)
            #expect(before.map(\.eventID) == ["before"])
            try await Self.append("after", of: "a", to: stores[0])
            let after = try await stores[0].fed(1, after: before[0].id)
            #expect(after.map(\.eventID) == ["after"])
        }
        let offset = try await database.rows("SELECT xact_offset FROM event_position")
        _ = try await database.migrate()
        #expect(try await database.rows("SELECT xact_offset FROM event_position") == offset)
    }
}
