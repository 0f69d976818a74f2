// Tests that an acknowledged event is in the files. The required SQLite settings are in effect, and a copy of a running
// store's files contains every acknowledged event exactly once. FaultTests shows that a commit needs its sync.

import Engine
import Foundation
import GRDB
import JourneyModel
import Synchronization
import TestSupport
import Testing

@testable import SQLiteStore

struct DurabilityTests {
    /// How many events of each driver are acknowledged.
    private final class Acknowledged: Sendable {
        let counts = Mutex([Int](repeating: 0, count: 16))
    }

    @Test func `the connection of the writer has WAL mode, synchronous FULL and foreign keys`() async throws {
        let folder = try ScratchFolder()
        let pool = try DatabaseOpening.open(path: folder.file("db"), nowMilliseconds: 0)
        let store = try SQLiteEventStore(pool: pool)
        _ = try await store.appended(.sample(.sample(.chargerTargeted, key: "k"), of: DriverID("d")))
        let found = try await pool.writeWithoutTransaction { db in
            try ["journal_mode", "synchronous", "foreign_keys"].map { pragma in
                try String.fetchOne(db, sql: "PRAGMA \(pragma)")
            }
        }
        #expect(found == ["wal", "2", "1"])
        await store.close()
    }

    @Test func `foreign keys hold, and every table is strict`() async throws {
        let folder = try ScratchFolder()
        let pool = try DatabaseOpening.open(path: folder.file("db"), nowMilliseconds: 0)
        await #expect(throws: DatabaseError.self) {
            try await pool.write { db in
                try db.execute(sql: "INSERT INTO session (session_id, driver, opened_at_ms) VALUES ('s', 99, 0)")
            }
        }
        let loose = try await pool.read { db in
            try String.fetchAll(
                db,
                sql: """
                    SELECT name FROM pragma_table_list
                    WHERE schema = 'main' AND type = 'table' AND NOT strict AND name NOT LIKE 'sqlite_%'
                    """)
        }
        #expect(loose.isEmpty)
        try pool.close()
    }

    /// The files are copied from an open store, without a checkpoint. Such a copy equals what kill -9 would leave.
    @Test(.timeLimit(.minutes(1)))
    func `every acknowledged event is in a copy of the files that is made while others are stored`() async throws {
        let folder = try ScratchFolder()
        let store = try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
        let acknowledged = Acknowledged()
        // The counts of acknowledged events when each copy was begun.
        var known: [[Int]] = []
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<16 {
                group.addTask {
                    for submission in SampleJourney.whole(prefix: "k", session: "s\(number)") {
                        _ = try await store.appended(.sample(submission, of: DriverID("d\(number)")))
                        acknowledged.counts.withLock { $0[number] += 1 }
                    }
                }
            }
            for count in stride(from: 16, to: 16 * 8, by: 16) {
                while acknowledged.counts.withLock({ $0.reduce(0, +) }) < count {
                    try await Task.sleep(for: .microseconds(50))
                }
                known.append(acknowledged.counts.withLock { $0 })
                try folder.copyDatabase("db", to: "copy\(known.count)")
            }
            try await group.waitForAll()
        }
        for (index, counts) in known.enumerated() {
            let copy = try SQLiteEventStore(path: folder.file("copy\(index + 1)"), nowMilliseconds: 0)
            for (number, count) in counts.enumerated() {
                let keys = try await copy.timeline(of: DriverID("d\(number)")).map(\.idempotencyKey)
                #expect(keys.count >= count, "copy \(index + 1), driver \(number)")
                #expect(keys == (0..<keys.count).map { "k\($0)" })
            }
            await copy.close()
        }
        try folder.copyDatabase("db", to: "copy")
        let copy = try SQLiteEventStore(path: folder.file("copy"), nowMilliseconds: 0)
        #expect(try await copy.eventCount() == 16 * 8)
        for number in 0..<16 {
            let timeline = try await copy.timeline(of: DriverID("d\(number)"))
            #expect(timeline.map(\.idempotencyKey) == (0..<8).map { "k\($0)" })
            #expect(timeline.last?.state == .sessionEnded)
        }
        await copy.close()
        await store.close()
    }

    @Test func `a repeat after a restart is replayed with the same verdict`() async throws {
        let folder = try ScratchFolder()
        let request = AppendRequest.sample(.sample(.enteredChargerIntentZone, key: "k"), of: DriverID("d"))
        let first = try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
        guard case .stored(let event) = try await first.appended(request) else {
            Issue.record("not stored")
            return
        }
        await first.close()
        let second = try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
        #expect(try await second.appended(request) == .replayed(event))
        await second.close()
    }

    @Test(.timeLimit(.minutes(1)))
    func `a closed store refuses, and closing finishes what waits`() async throws {
        let folder = try ScratchFolder()
        let store = try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0, waitingMax: 200)
        let requests = (0..<200).map { index in
            AppendRequest.sample(.sample(.chargerTargeted, key: "k\(index)"), of: DriverID("d"))
        }
        let writer = await HeldWriter(of: store)
        async let outcomes = store.append(requests)
        while store.writesWaiting < 200 { await Task.yield() }
        async let isClosed: Void = store.close()
        // The full queue makes the store refuse each request at once. When the store begins to close, the reason of the
        // refusal changes.
        let end = ContinuousClock.now + .seconds(10)
        while await refusal(store) != .unavailable("the store is closed"), .now < end { await Task.yield() }
        #expect(await refusal(store) == .unavailable("the store is closed"))
        try await writer.release()
        let stored = await outcomes.filter { if case .stored = $0 { true } else { false } }
        await isClosed
        #expect(stored.count == 200)
        await #expect(throws: StoreFailure.self) { try await store.appended(requests[0]) }
        await #expect(throws: StoreFailure.self) { try await store.checkWritable() }
        await #expect(throws: StoreFailure.self) { try await store.lookUp(requests[0].submission, of: DriverID("d")) }
        await store.close()
    }

    private func refusal(_ store: SQLiteEventStore) async -> StoreFailure? {
        do throws(StoreFailure) {
            try await store.checkWritable()
            return nil
        } catch {
            return error
        }
    }

    @Test func `a database that can be written says so`() async throws {
        let folder = try ScratchFolder()
        let store = try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
        try await store.checkWritable()
        await store.close()
    }

    @Test func `row numbers ascend in the order of commits, late events included`() async throws {
        let folder = try ScratchFolder()
        let pool = try DatabaseOpening.open(path: folder.file("db"), nowMilliseconds: 0)
        let store = try SQLiteEventStore(pool: pool)
        let events = SampleJourney.whole(prefix: "k", session: "s").reversed()
        for submission in events { _ = try await store.appended(.sample(submission, of: DriverID("d"))) }
        let keys = try await pool.read { db in
            try String.fetchAll(db, sql: "SELECT idempotency_key FROM event ORDER BY id")
        }
        #expect(keys == events.map(\.idempotencyKey))
        await store.close()
    }
}
