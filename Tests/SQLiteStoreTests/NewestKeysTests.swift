// Tests of the idempotency keys that the store holds in memory before it moves them to `event_key`.

import Engine
import GRDB
import JourneyModel
import TestSupport
import Testing

@testable import SQLiteStore

struct NewestKeysTests {
    private let keys: KeyFixture

    init() throws {
        keys = try KeyFixture()
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
            // There are only 200 places, so many entries share a place. The driver determines the high bits of a place,
            // and the hash of the key determines the low bits.
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
        let store = try keys.open(countMax: 100)
        try await keys.append(1...100, to: store)
        #expect(try keys.listed().rows == [])
        try await keys.expectRepeats(1...100, in: store)
        // The store now has 100 keys in memory, the maximum. Each further event makes two keys due. When 64 keys are
        // due, the store writes them to `event_key`.
        try await keys.append(101...140, to: store)
        #expect(try keys.listed().rows.count == 64 && keys.listed().through == 0)
        try await keys.expectRepeats(1...140, in: store)
        try await keys.append(141...180, to: store)
        #expect(try keys.listed().rows == Array(1...100) && keys.listed().through == 100)
        try await keys.expectRepeats(1...180, in: store)
        await store.close()
        #expect(try keys.problems() == [])
    }

    @Test(arguments: [40, 130, 170, 400])
    func `a start finds all keys, wherever a move was interrupted`(count: Int) async throws {
        let store = try keys.open(countMax: 100)
        try await keys.append(1...count, to: store)
        await store.close()
        #expect(try keys.problems() == [])
        let again = try keys.open(countMax: 100)
        try await keys.expectRepeats(1...count, in: again)
        try await keys.append((count + 1)...(count + 300), to: again)
        try await keys.expectRepeats(1...(count + 300), in: again)
        await again.close()
        #expect(try keys.problems() == [])
        #expect(try keys.listed().through > count, "the interrupted move is done again")
    }

    @Test func `an event of a rolled back transaction leaves nothing in memory`() async throws {
        let store = try keys.open(countMax: 10)
        try await keys.append(1...5, to: store)
        let full =
            "CREATE TRIGGER full BEFORE INSERT ON event_row WHEN NEW.id >= 7 BEGIN SELECT RAISE(ABORT, 'full'); END"
        try await store.change { db in try db.execute(sql: full) }
        let outcomes = await store.append((6...9).map { keys.request($0) })
        guard case .stored = outcomes[0], case .failed = outcomes[1] else {
            Issue.record("\(outcomes)")
            return
        }
        try await store.change { db in try db.execute(sql: "DROP TRIGGER full") }
        #expect(try await store.lookUp(keys.request(7).submission, of: keys.driver) == nil)
        try await keys.append(7...40, to: store)
        try await keys.expectRepeats(1...40, in: store)
        await store.close()
        #expect(try keys.problems() == [])
    }

    @Test(arguments: [1, 20, 1000])
    func `what another process deletes is neither found nor moved`(countMax: Int) async throws {
        let store = try keys.open(countMax: countMax)
        let other = keys.simulated
        for number in 1...30 {
            _ = await store.append(keys.request(number))
            _ = await store.append(keys.request(number, of: other))
        }
        let command = try SQLiteEventStore(existing: keys.path, digests: nil)
        #expect(try await command.removeSimulatedDrivers(driversMax: 1).events == 30)
        await command.close()
        #expect(try await store.lookUp(keys.request(1).submission, of: other) == nil)
        try await keys.append(31...90, to: store)
        try await keys.expectRepeats(1...90, in: store)
        for number in 1...30 {
            guard case .stored = await store.append(keys.request(number, of: other)) else {
                Issue.record("event \(number) of a removed driver is found")
                return
            }
        }
        try await keys.append(91...200, to: store)
        await store.close()
        #expect(try keys.problems() == [])
        let left = try keys.listed()
        #expect(left.early.allSatisfy { $0 > left.through })
        let again = try keys.open(countMax: countMax)
        try await keys.expectRepeats(1...200, in: again)
        await again.close()
    }

    /// During an update, the old server still has connections after the new server has started. For this time, both
    /// processes have the file open.
    @Test(arguments: [1, 20, 1000])
    func `two processes know each other's keys`(countMax: Int) async throws {
        let stores = [try keys.open(countMax: countMax), try keys.open(countMax: countMax)]
        for number in 1...150 {
            try await keys.append([number], to: stores[number % 2])
            try await keys.expectRepeats([number, max(1, number - 30)], in: stores[(number + 1) % 2])
        }
        for store in stores {
            try await keys.expectRepeats(1...150, in: store)
            await store.close()
        }
        #expect(try keys.problems() == [])
    }

    /// The rollback of event 6 makes row number 6 free again. The other process stores events 7 to 9 in rows 6 to 8.
    @Test(arguments: ["ROLLBACK", "ABORT"])
    func `after a rollback, events that another process stores are found`(raise: String) async throws {
        let store = try keys.open(countMax: 1000)
        let other = try keys.open(countMax: 1000)
        try await keys.append(1...5, to: store)
        try await keys.refuse(6, raise, in: store)
        guard case .failed = await store.append(keys.request(6)) else {
            Issue.record("event 6 is stored")
            return
        }
        try await keys.append(7...9, to: other)
        try await keys.expectRepeats(7...9, in: store)
        try await keys.acceptAll(in: store)
        try await keys.append([6], to: store)
        for each in [store, other] {
            try await keys.expectRepeats(1...9, in: each)
            await each.close()
        }
        #expect(try keys.problems() == [])
        #expect(try keys.listed().unlistedCount == 9)
    }

    @Test(arguments: [[6], [6, 7], [7, 6], [7, 6, 8], [7, 8, 6], [6, 6], [7, 6, 8, 6]], [4, 1000])
    func `a refused event leaves the keys of its neighbours, and takes no number`(
        batch: [Int], countMax: Int
    ) async throws {
        let store = try keys.open(countMax: countMax)
        let other = try keys.open(countMax: countMax)
        try await keys.append(1...5, to: store)
        try await keys.refuse(6, in: store)
        let outcomes = await store.append(batch.map { keys.request($0) })
        for (number, outcome) in zip(batch, outcomes) {
            switch outcome {
            case .stored: #expect(number != 6)
            case .failed: #expect(number == 6)
            default: Issue.record("event \(number) is answered \(outcome)")
            }
        }
        #expect(try await store.lookUp(keys.request(6).submission, of: keys.driver) == nil)
        let stored = Array(1...5) + batch.filter { $0 != 6 }
        try await keys.append(20...23, to: other)
        try await keys.expectRepeats(stored + Array(20...23), in: store)
        try await keys.acceptAll(in: other)
        try await keys.append([6], to: store)
        for each in [store, other] {
            try await keys.expectRepeats(stored + [6] + Array(20...23), in: each)
            await each.close()
        }
        #expect(try keys.problems() == [])
        let listed = try keys.listed()
        #expect(listed.through + listed.unlistedCount == stored.count + 5)
    }

    @Test func `readers learn of every removal`() {
        let newest = NewestKeys(countMax: 10)
        #expect(newest.lastNumber == -1)
        newest.removeAll(listedThrough: 5)
        var count = newest.removalCount
        func expectRemoval(_ isRemoval: Bool, _ change: () -> Void) {
            change()
            #expect((newest.removalCount != count) == isRemoval)
            count = newest.removalCount
        }
        expectRemoval(false) { for event in Int64(6)...9 { newest.add(event, at: 77) } }
        expectRemoval(false) { newest.remove(after: 9) }
        expectRemoval(true) { newest.remove(after: 7) }
        #expect(newest.lastNumber == 7 && newest.events(at: 77) == [6, 7])
        expectRemoval(false) { #expect(newest.beginMove().map(\.event) == [6, 7]) }
        expectRemoval(false) { newest.add(8, at: 77) }
        #expect(newest.events(at: 77) == [8, 6, 7])
        expectRemoval(true) { newest.endMove() }
        #expect(newest.lastNumber == 8 && newest.events(at: 77) == [8])
        expectRemoval(true) { newest.removeAll(listedThrough: 8) }
        #expect(newest.lastNumber == 8 && newest.events(at: 77) == [])
    }

    @Test func `keys of two drivers that have the same place are told apart`() async throws {
        let store = try keys.open(countMax: 20)
        try await store.change { db in try db.execute(sql: "UPDATE event_key_hash SET bits = 1") }
        await store.close()
        let again = try keys.open(countMax: 20)
        try await keys.append(1...100, to: again)
        try await keys.expectRepeats(1...100, in: again)
        for number in 101...130 {
            #expect(try await again.lookUp(keys.request(number).submission, of: keys.driver) == nil)
        }
        await again.close()
        #expect(try keys.problems() == [])
    }
}
