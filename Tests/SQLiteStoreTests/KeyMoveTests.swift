// Tests of moves of idempotency keys to `event_key` across restarts. After a restart, a move continues where it
// stopped. Each start therefore reads a bounded number of events, even if every process runs only for a short time.

import Engine
import GRDB
import JourneyModel
import TestSupport
import Testing

@testable import SQLiteStore

struct KeyMoveTests {
    /// A move begins after 100 events, and is complete after 50 more.
    private static let countMax = 100
    private static let unlistedMax = 150

    private let keys: KeyFixture

    init() throws {
        keys = try KeyFixture()
    }

    private func open() throws -> SQLiteEventStore { try keys.open(countMax: Self.countMax) }

    /// With hashes of one bit, most keys share their place in the table with other keys.
    @Test(arguments: zip([1, 7, 7, 40, 40, 130], [24, 24, 1, 24, 1, 1]))
    func `lives of any length move keys`(eventsPerLife: Int, bits: Int) async throws {
        try DatabaseOpening.open(path: keys.path, nowMilliseconds: 0).close()
        try keys.doctor("UPDATE event_key_hash SET bits = \(bits)")
        var killed: [SQLiteEventStore] = []
        var total = 0
        for life in 1...max(8, 170 / eventsPerLife) {
            let store = try open()
            try await keys.append((total + 1)...(total + eventsPerLife), to: store)
            total += eventsPerLife
            if life % 3 == 0 { killed.append(store) } else { await store.close() }
            #expect(try keys.listed().unlistedCount <= Self.unlistedMax)
        }
        let store = try open()
        try await keys.expectRepeats(1...total, in: store)
        for each in killed + [store] { await each.close() }
        #expect(try keys.problems() == [])
        #expect(try keys.listed().through >= total - Self.unlistedMax)
    }

    @Test(arguments: [false, true])
    func `a restart goes on with a move, and writes no key again`(isKilled: Bool) async throws {
        let first = try open()
        try await keys.append(1...140, to: first)
        #expect(try keys.listed().rows.count == 64 && keys.listed().through == 0)
        if !isKilled { await first.close() }
        // Change the place of one row of `event_key`, so that the store no longer finds it. If the restarted store
        // wrote the event's key again, the count below would be 65.
        try keys.doctor("UPDATE event_key SET place = place / 2 WHERE place = (SELECT min(place) FROM event_key)")
        let again = try open()
        try await keys.append(141...149, to: again)
        #expect(try keys.listed().rows.count == 64)
        try await keys.append([150], to: again)
        #expect(try keys.listed().rows == Array(1...100) && keys.listed().through == 100)
        await again.close()
        if isKilled { await first.close() }
    }

    @Test func `two processes move each key once`() async throws {
        let stores = [try open(), try open()]
        for number in 1...150 {
            try await keys.append([number], to: stores[number % 2])
            let listed = try keys.listed()
            #expect(listed.rows.count == (number < 132 ? 0 : number < 150 ? 64 : 100))
            #expect(listed.through == (number < 150 ? 0 : 100))
        }
        for store in stores {
            try await keys.expectRepeats(1...150, in: store)
            await store.close()
        }
        #expect(try keys.problems() == [])
    }

    /// If an event is deleted before its key is moved, its number is stored in `event_key_early`. When a move ends, it
    /// removes these numbers, so the table does not grow with every deletion.
    @Test(arguments: [1, 40])
    func `the numbers of deleted events are forgotten, too`(eventsPerLife: Int) async throws {
        for first in stride(from: 1, to: 170, by: eventsPerLife) {
            let store = try open()
            try await keys.append(first..<(first + eventsPerLife), of: keys.simulated, to: store)
            #expect(try await store.removeSimulatedDrivers(driversMax: 1).events == eventsPerLife)
            await store.close()
            let listed = try keys.listed()
            #expect(listed.early.count <= Self.unlistedMax && listed.unlistedCount <= Self.unlistedMax)
        }
        #expect(try keys.problems() == [])
    }

    /// The store that writes the file may keep 10,000 keys in memory. The store that opens the file next may keep far
    /// fewer.
    @Test func `more events than memory should have are moved, too`() async throws {
        let large = try keys.open(countMax: 10_000)
        try await keys.append(1...700, to: large)
        await large.close()
        let store = try open()
        try await keys.append(701...1100, to: store)
        #expect(try keys.listed().through == 701)
        try await keys.expectRepeats(1...1100, in: store)
        await store.close()
        #expect(try keys.problems() == [])
    }

    // MARK: Everything together

    /// Two processes share a file. At random, the database refuses an event, a process is restarted or killed, or a
    /// driver is deleted.
    @Test(arguments: 1...6 as ClosedRange<UInt64>)
    func `whatever fails or ends, an event is stored once`(seed: UInt64) async throws {
        var random = SeededRandom(seed: seed)
        let countMax = [1, 5, 20, 100].randomPick(&random)
        var stores = [try keys.open(countMax: countMax), try keys.open(countMax: countMax)]
        var ended: [SQLiteEventStore] = []
        var stored: [Int] = []
        for step in 1...120 {
            let index = Int.random(in: 0...1, using: &random)
            let store = stores[index]
            switch Int.random(in: 0..<12, using: &random) {
            case 0:
                if Bool.random(using: &random) { await store.close() } else { ended.append(store) }
                stores[index] = try keys.open(countMax: countMax)
            case 1:
                _ = await store.append(keys.request(step, of: keys.simulated))
                if Bool.random(using: &random) { _ = try await store.removeSimulatedDrivers(driversMax: 1) }
            case 2:
                let failing = "INSERT INTO audit (at_ms, action) VALUES (0, NULL)"
                _ = try? await store.change { db in try db.execute(sql: failing) }
            case 3...6:
                try await keys.refuse(step * 100, in: store)
                var batch = (1...Int.random(in: 1...6, using: &random)).map { step * 100 + $0 }
                batch.insert(step * 100, at: Int.random(in: 0...batch.count, using: &random))
                let outcomes = await store.append(batch.map { keys.request($0) })
                if Bool.random(using: &random) { try await keys.expectRepeats(stored.suffix(5), in: stores[1 - index]) }
                try await keys.acceptAll(in: stores[Int.random(in: 0...1, using: &random)])
                for (number, outcome) in zip(batch, outcomes) where number != step * 100 {
                    guard case .stored = outcome else {
                        Issue.record("seed \(seed): event \(number) is answered \(outcome)")
                        return
                    }
                    stored.append(number)
                }
            case 7:
                try await keys.expectRepeats(stored.shuffled(using: &random).prefix(10), in: store)
            default:
                let new = (1...Int.random(in: 1...40, using: &random)).map { step * 100 + $0 }
                for outcome in await store.append(new.map { keys.request($0) }) {
                    guard case .stored = outcome else {
                        Issue.record("seed \(seed): a new event is answered \(outcome)")
                        return
                    }
                }
                stored += new
            }
        }
        for store in stores { try await keys.expectRepeats(stored, in: store) }
        for store in stores + ended { await store.close() }
        #expect(try keys.problems() == [], "seed \(seed)")
        #expect(try keys.listed().unlistedCount <= Int64(countMax + countMax / 2 + 100), "seed \(seed)")
    }
}
