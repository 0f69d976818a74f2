// Tests that the store truncates the WAL when it has nothing to write and no reader needs the WAL.

import Engine
import Foundation
import GRDB
import JourneyModel
import SharedTables
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

    @Test func `the WAL of a database behind a symbolic link is found`() async throws {
        await store.close()
        let links = folder.file("links")
        let link = links + "/db"
        try FileManager.default.createDirectory(atPath: links, withIntermediateDirectories: false)
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: folder.file("db"))
        let linked = try SQLiteEventStore(path: link, nowMilliseconds: 0)
        _ = try await linked.appended(.sample(.sample(.chargerTargeted, key: "k"), of: DriverID("in-the-wal")))
        #expect(try #require(linked.logBytes()) > 0)
        let found = try ErasureScan(path: link).find(["in-the-wal"]).map(\.location)
        #expect(found.contains { $0.hasPrefix("db-wal, byte ") }, "\(found)")
        #expect(throws: MaintenanceRefusal.self) {
            try DatabaseBackup.make(of: link, to: folder.file("db-wal"), replacing: true) { _ in }
        }
        await linked.truncateLog(quietFor: .zero)
        #expect(linked.logBytes() == 0)
        await linked.close()
    }

    /// Deleted data may stay in the WAL only while a reader needs the WAL. A restart of the server must not change
    /// this.
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
