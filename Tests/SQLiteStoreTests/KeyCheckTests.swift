// Tests that `dwell check` finds two events of a driver with the same idempotency key. The key of each event may or may
// not be listed in `event_key`.

import GRDB
import TestSupport
import Testing

@testable import SQLiteStore

struct KeyCheckTests {
    private let keys: KeyFixture

    init() throws {
        keys = try KeyFixture()
    }

    private func fill(_ count: Int, countMax: Int) async throws {
        let store = try keys.open(countMax: countMax)
        try await keys.append(1...count, to: store)
        await store.close()
        #expect(try keys.problems() == [])
    }

    /// Gives event 7 the key of event 3.
    private func repeatKey() throws { try keys.doctor("UPDATE event_row SET key = 'key-3' WHERE id = 7") }

    private let problem = "driver 1, events 3 and 7: have the same idempotency key"

    @Test func `two listed events`() async throws {
        try await fill(30, countMax: 20)
        try repeatKey()
        try keys.doctor(
            "UPDATE event_key SET place = 1 + (SELECT place FROM event_key WHERE number = 3) WHERE number = 7")
        #expect(try keys.problems() == [problem])
        // Exchange the two events in `event_key`. A search for the key of event 3 then finds event 7 first.
        try keys.doctor("UPDATE event_key SET number = iif(number = 3, 7, 3) WHERE number IN (3, 7)")
        #expect(try keys.problems() == [problem])
    }

    @Test func `two events that are not listed`() async throws {
        try await fill(30, countMax: 1000)
        #expect(try keys.listed().rows == [])
        try repeatKey()
        #expect(try keys.problems() == [problem])
    }

    @Test(arguments: [3, 7] as [Int64])
    func `a listed event and one that is not listed`(listed: Int64) async throws {
        try await fill(30, countMax: 1000)
        try repeatKey()
        try await DatabaseQueue(path: keys.path).write { db in
            try EventKeyTable(db).add(listed, under: StoredKey("key-3"), of: 1)
        }
        #expect(try keys.problems() == [problem])
    }

    @Test func `another driver may use the key`() async throws {
        let store = try keys.open(countMax: 20)
        try await keys.append(1...30, to: store)
        try await keys.append(1...30, of: keys.simulated, to: store)
        await store.close()
        #expect(try keys.problems() == [])
    }

    /// An event has no row in `event_key`, although a move of keys has already passed the row's place. The rest of the
    /// move would not add the row.
    @Test func `an event that a move has left out`() async throws {
        try await fill(140, countMax: 100)
        let moved = try keys.listed().rows[0]
        try keys.doctor("DELETE FROM event_key WHERE number = \(moved)")
        #expect(try keys.problems() == ["driver 1, event \(moved): is not found by its idempotency key"])
    }
}
