// Tests of the keys of the newest events: in memory, after a rollback, after a start, and while they are moved to
// `event_key`. StoreConvergenceTests, FaultTests and the contracts run with small numbers of keys in memory as well.

import Engine
import GRDB
import JourneyModel
import TestSupport
import Testing

@testable import SQLiteStore

struct NewestKeysTests {
    private let folder: ScratchFolder
    private let path: String
    private let driver = DriverID("driver")

    init() throws {
        folder = try ScratchFolder(inMemory: true)
        path = folder.file("db")
    }

    private func open(countMax: Int) throws -> SQLiteEventStore {
        try SQLiteEventStore(
            pool: DatabaseOpening.open(path: path, nowMilliseconds: 0), newestKeys: NewestKeys(countMax: countMax))
    }

    private func request(_ number: Int, of driver: DriverID? = nil) -> AppendRequest {
        .sample(
            .sample(.diagnostic("d"), key: "key-\(number)", at: .sample.advanced(bySeconds: number)),
            of: driver ?? self.driver, receivedAt: .sample.advanced(bySeconds: number))
    }

    private func append(_ numbers: some Sequence<Int>, to store: SQLiteEventStore) async throws {
        for number in numbers {
            guard case .stored = await store.append(request(number)) else {
                Issue.record("event \(number) is not stored")
                return
            }
        }
    }

    /// Expects that the store answers each event as a repeat, on the writer and on a read connection.
    private func expectRepeats(_ numbers: some Sequence<Int>, in store: SQLiteEventStore) async throws {
        for number in numbers {
            let request = request(number)
            let found = try await store.lookUp(request.submission, of: driver)
            guard case .replayed? = found, case .replayed = await store.append(request) else {
                Issue.record("event \(number) is found as \(String(describing: found))")
                return
            }
        }
    }

    private func listed() throws -> (rows: [Int64], through: Int64, early: [Int64]) {
        try DatabaseQueue(path: path).read { db in
            (
                try Int64.fetchAll(db, sql: "SELECT number FROM event_key ORDER BY number"),
                try Int64.fetchOne(db, sql: "SELECT listed_through FROM event_key_progress") ?? -1,
                try Int64.fetchAll(db, sql: "SELECT number FROM event_key_early ORDER BY number")
            )
        }
    }

    private func expectCheckFindsNothing() throws {
        let check = try DatabaseCheck(path: path)
        defer { check.close() }
        #expect(try check.run { _ in }.problems == [])
    }

    @Test(arguments: [1, 2, 3])
    func `places hold what was added and not removed`(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var placed = PlacedEvents()
        var model: [PlacedEvents.Entry] = []
        var next: Int64 = 1
        for _ in 0..<5_000 {
            if Int.random(in: 0..<20, using: &random) == 0 {
                let last = next - Int64.random(in: 0...40, using: &random)
                placed.remove(after: last)
                model.removeAll { $0.event > last }
                next = max(1, last + 1)
            }
            // Few places, in the high bits as those of drivers and in the low bits as those of hashes.
            let place = Int64.random(in: 0..<50, using: &random) << 24 | Int64.random(in: 0..<4, using: &random)
            placed.add(PlacedEvents.Entry(place: place, event: next))
            model.append(PlacedEvents.Entry(place: place, event: next))
            next += 1
            let asked = Int64.random(in: 0..<50, using: &random) << 24 | Int64.random(in: 0..<4, using: &random)
            #expect(Set(placed.events(at: asked)) == Set(model.filter { $0.place == asked }.map(\.event)))
        }
        #expect(placed.entries == model)
    }

    @Test func `keys stay in memory until there are enough, and are then moved`() async throws {
        let store = try open(countMax: 100)
        try await append(1...100, to: store)
        #expect(try listed().rows == [])
        try await expectRepeats(1...100, in: store)
        // 64 keys at a time: two for each event.
        try await append(101...140, to: store)
        #expect(try listed().rows.count == 64 && listed().through == 0)
        try await expectRepeats(1...140, in: store)
        try await append(141...180, to: store)
        #expect(try listed().rows == Array(1...100) && listed().through == 100)
        try await expectRepeats(1...180, in: store)
        await store.close()
        try expectCheckFindsNothing()
    }

    @Test(arguments: [40, 130, 170, 400])
    func `a start finds all keys, wherever a move was interrupted`(count: Int) async throws {
        let store = try open(countMax: 100)
        try await append(1...count, to: store)
        await store.close()
        try expectCheckFindsNothing()
        let again = try open(countMax: 100)
        try await expectRepeats(1...count, in: again)
        try await append((count + 1)...(count + 300), to: again)
        try await expectRepeats(1...(count + 300), in: again)
        await again.close()
        try expectCheckFindsNothing()
        #expect(try listed().through > count, "the interrupted move is done again")
    }

    @Test func `an event of a rolled back transaction leaves nothing in memory`() async throws {
        let store = try open(countMax: 10)
        try await append(1...5, to: store)
        let full =
            "CREATE TRIGGER full BEFORE INSERT ON event_row WHEN NEW.id >= 7 BEGIN SELECT RAISE(ABORT, 'full'); END"
        try await store.change { db in try db.execute(sql: full) }
        let outcomes = await store.append((6...9).map { request($0) })
        guard case .stored = outcomes[0], case .failed = outcomes[1] else {
            Issue.record("\(outcomes)")
            return
        }
        try await store.change { db in try db.execute(sql: "DROP TRIGGER full") }
        #expect(try await store.lookUp(request(7).submission, of: driver) == nil)
        try await append(7...40, to: store)
        try await expectRepeats(1...40, in: store)
        await store.close()
        try expectCheckFindsNothing()
    }

    @Test(arguments: [1, 20, 1000])
    func `what another process deletes is neither found nor moved`(countMax: Int) async throws {
        let store = try open(countMax: countMax)
        let other = DriverID("\(DriverID.simulatedPrefix)1")
        for number in 1...30 {
            _ = await store.append(request(number))
            _ = await store.append(request(number, of: other))
        }
        let command = try SQLiteEventStore(existing: path, digests: nil)
        #expect(try await command.removeSimulatedDrivers(driversMax: 1).events == 30)
        await command.close()
        #expect(try await store.lookUp(request(1).submission, of: other) == nil)
        try await append(31...90, to: store)
        try await expectRepeats(1...90, in: store)
        for number in 1...30 {
            guard case .stored = await store.append(request(number, of: other)) else {
                Issue.record("event \(number) of a removed driver is found")
                return
            }
        }
        try await append(91...200, to: store)
        await store.close()
        try expectCheckFindsNothing()
        let left = try listed()
        #expect(left.early.allSatisfy { $0 > left.through })
        let again = try open(countMax: countMax)
        try await expectRepeats(1...200, in: again)
        await again.close()
    }

    /// As during an update, when the new server has begun and the old one still has connections.
    @Test(arguments: [1, 20, 1000])
    func `two processes know each other's keys`(countMax: Int) async throws {
        let stores = [try open(countMax: countMax), try open(countMax: countMax)]
        for number in 1...150 {
            try await append([number], to: stores[number % 2])
            try await expectRepeats([number, max(1, number - 30)], in: stores[(number + 1) % 2])
        }
        for store in stores {
            try await expectRepeats(1...150, in: store)
            await store.close()
        }
        try expectCheckFindsNothing()
    }

    /// The numbers of the rolled back events are then those of events that the other process stores.
    @Test func `after a rollback, events that another process stores are found`() async throws {
        let store = try open(countMax: 1000)
        let other = try open(countMax: 1000)
        try await append(1...5, to: store)
        let refused = "CREATE TRIGGER no BEFORE UPDATE ON driver BEGIN SELECT RAISE(ROLLBACK, 'no'); END"
        try await store.change { db in try db.execute(sql: refused) }
        guard case .failed = await store.append(request(6)) else {
            Issue.record("event 6 is stored")
            return
        }
        try await store.change { db in try db.execute(sql: "DROP TRIGGER no") }
        try await append(7...9, to: other)
        try await expectRepeats(7...9, in: store)
        try await append([6], to: store)
        for each in [store, other] {
            try await expectRepeats(1...9, in: each)
            await each.close()
        }
        try expectCheckFindsNothing()
    }

    @Test func `keys of two drivers that have the same place are told apart`() async throws {
        let store = try open(countMax: 20)
        try await store.change { db in try db.execute(sql: "UPDATE event_key_hash SET bits = 1") }
        await store.close()
        let again = try open(countMax: 20)
        try await append(1...100, to: again)
        try await expectRepeats(1...100, in: again)
        for number in 101...130 { #expect(try await again.lookUp(request(number).submission, of: driver) == nil) }
        await again.close()
        try expectCheckFindsNothing()
    }
}
