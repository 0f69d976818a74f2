// Tests of account changes, which share transactions with events. If a change fails halfway, the other changes and
// events are not affected. If a change ends the shared transaction, this whole transaction fails, but later
// transactions succeed.

import Engine
import GRDB
import JourneyModel
import TestSupport
import Testing

@testable import SQLiteStore

struct ChangeIsolationTests {
    @Test func `a change that fails after its first write leaves no trace, and its neighbours are stored`() async throws
    {
        let folder = try ScratchFolder(inMemory: true)
        let store = try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
        let answers = await withTaskGroup(of: Bool.self) { group in
            for number in 0..<300 {
                group.addTask {
                    if number % 3 == 0 { return await failHalfWay(number, store) }
                    let event = EventSubmission.sample(.chargerTargeted, key: "k")
                    return (try? await store.appended(.sample(event, of: DriverID("d\(number)")))) != nil
                }
            }
            return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
        }
        #expect(answers == 200)
        #expect(try await store.eventCount() == 200)
        let drivers = try await store.read { db in
            try Int.fetchOne(db, sql: "SELECT count(*) FROM driver WHERE driver_id LIKE 'half-%'")
        }
        #expect(drivers == 0)
        await store.close()
    }

    @Test func `an error that is not SQLite's refuses one change, and the store goes on`() async throws {
        struct Unreadable: Error {}
        let folder = try ScratchFolder(inMemory: true)
        let store = try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
        await #expect(throws: StoreFailure.self) {
            try await store.change { (_: Database) throws -> Void in throw Unreadable() }
        }
        let one = try await store.change { db in try Int.fetchOne(db, sql: "SELECT 1") }
        #expect(one == 1)
        await store.close()
        await #expect(throws: StoreFailure.unavailable("the store is closed")) {
            try await store.change { (_: Database) -> Void in }
        }
    }

    /// A change executes ROLLBACK, which ends the transaction that it shares with others. No change of the server does
    /// this.
    @Test(.timeLimit(.minutes(1)))
    func `after a change that ends the group's transaction, the answers are true and later events are stored`()
        async throws
    {
        let folder = try ScratchFolder(inMemory: true)
        let store = try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
        let requests = (0..<20).map { index in
            AppendRequest.sample(.sample(.chargerTargeted, key: "k\(index)"), of: DriverID("d\(index)"))
        }
        let writer = await HeldWriter(of: store)
        async let before = store.append(Array(requests[..<10]))
        while store.writesWaiting < 10 { await Task.yield() }
        async let isDone = endTransaction(store)
        while store.writesWaiting < 11 { await Task.yield() }
        async let after = store.append(Array(requests[10...]))
        while store.writesWaiting < 21 { await Task.yield() }
        try await writer.release()
        let stored = await (before + after).filter { if case .stored = $0 { true } else { false } }
        #expect(await !isDone)
        #expect(try await store.eventCount() == stored.count)
        let event = EventSubmission.sample(.chargerTargeted, key: "k")
        _ = try await store.appended(.sample(event, of: DriverID("d")))
        #expect(try await store.eventCount() == stored.count + 1)
        await store.close()
    }

    private func endTransaction(_ store: SQLiteEventStore) async -> Bool {
        let done: Void? = try? await store.change { db in try db.execute(sql: "ROLLBACK") }
        return done != nil
    }

    private func failHalfWay(_ number: Int, _ store: SQLiteEventStore) async -> Bool {
        let done: Void? = try? await store.change { db in
            try db.execute(
                sql: "INSERT INTO driver (driver_id, created_at_ms) VALUES (?, 0)", arguments: ["half-\(number)"])
            try db.execute(sql: "INSERT INTO audit (at_ms, action) VALUES (0, NULL)")
        }
        return done != nil
    }
}
