// Tests that the WAL is truncated when nothing is being written and no reader needs it.

import Engine
import GRDB
import JourneyModel
import TestSupport
import Testing

@testable import SQLiteStore

struct WALTruncationTests {
    private let folder: ScratchFolder
    private let store: SQLiteEventStore

    init() throws {
        folder = try ScratchFolder()
        store = try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
    }

    private func post(_ key: String) async throws {
        _ = try await store.appended(.sample(.sample(.chargerTargeted, key: key), of: DriverID("d")))
    }

    @Test func `a WAL that nobody writes to is cut to nothing, and every event is there`() async throws {
        for number in 0..<50 { try await post("k\(number)") }
        let before = try #require(store.logBytes())
        #expect(before > 0)
        await store.truncateLog(quietFor: .seconds(3600))
        #expect(store.logBytes() == before)
        await store.truncateLog(quietFor: .zero)
        #expect(store.logBytes() == 0)
        #expect(try await store.eventCount() == 50)
        try await post("again")
        #expect(try #require(store.logBytes()) > 0)
        #expect(try await store.eventCount() == 51)
        await store.close()
    }

    /// Deleted data may stay in the WAL only while a reader needs it. This also holds if the server restarts in the
    /// meantime.
    @Test func `a cut that a reader put off is made up for after a restart`() async throws {
        try await post("before")
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let reader = try DatabaseQueue(path: folder.file("db"), configuration: configuration)
        try await reader.writeWithoutTransaction { db in
            try db.execute(sql: "BEGIN")
            _ = try Int.fetchOne(db, sql: "SELECT count(*) FROM event")
        }
        try await store.change(purgesWAL: true) { db in try db.execute(sql: "UPDATE event_row SET metadata = NULL") }
        await store.close()
        let again = try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
        #expect(try #require(again.logBytes()) > 0)
        try await reader.writeWithoutTransaction { db in try db.execute(sql: "COMMIT") }
        try reader.close()
        for _ in 0..<100 where again.logBytes() != 0 { try await Task.sleep(for: .milliseconds(50)) }
        #expect(again.logBytes() == 0)
        let stillMarked = try await again.change { db in try Int.fetchOne(db, sql: "PRAGMA user_version") }
        #expect(stillMarked == 1)
        await again.close()
        let third = try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
        let marked = try await third.change { db in try Int.fetchOne(db, sql: "PRAGMA user_version") }
        #expect(marked == 0)
        await third.close()
    }

    @Test func `a reader's snapshot stays what it was, and the WAL is cut once the reader has gone`() async throws {
        try await post("before")
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let reader = try DatabaseQueue(path: folder.file("db"), configuration: configuration)
        func count() async throws -> Int? {
            try await reader.read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM event") }
        }
        try await reader.writeWithoutTransaction { db in
            try db.execute(sql: "BEGIN")
            _ = try Int.fetchOne(db, sql: "SELECT count(*) FROM event")
        }
        try await post("after")
        await store.truncateLog(quietFor: .zero)
        #expect(try #require(store.logBytes()) > 0)
        let seen = try await reader.writeWithoutTransaction { db in
            let seen = try Int.fetchOne(db, sql: "SELECT count(*) FROM event")
            try db.execute(sql: "COMMIT")
            return seen
        }
        #expect(seen == 1)
        await store.truncateLog(quietFor: .zero)
        #expect(store.logBytes() == 0)
        #expect(try await count() == 2)
        try reader.close()
        await store.close()
    }
}
