// Tests that `dwell explain` reads a database file, while a server runs and after it has stopped. The command never
// writes, and it reports a missing database.

import Engine
import Foundation
import GRDB
import JourneyModel
import SQLiteStore
import TestSupport
import Testing

@Suite struct EventRecordsTests {
    private static let driver = DriverID("jonas")

    private static func store(_ submissions: [EventSubmission], in store: SQLiteEventStore) async throws {
        for submission in submissions {
            _ = try await store.appended(.sample(submission, of: driver, receivedAt: .sample.advanced(bySeconds: 7200)))
        }
    }

    @Test("a session's journey begins after the one before it, and has the driver's other events in between")
    func journeyOfASession() async throws {
        let folder = try ScratchFolder()
        let store = try SQLiteEventStore(path: folder.file("a"), nowMilliseconds: 0)
        try await Self.store(SampleJourney.whole(prefix: "a", session: "s1"), in: store)
        let second = Moment.sample.advanced(bySeconds: 1000)
        try await Self.store(SampleJourney.whole(prefix: "b", session: "s2", from: second), in: store)
        let third = second.advanced(bySeconds: 1000)
        try await Self.store(SampleJourney.whole(prefix: "c", session: "s3", from: third), in: store)
        let stray = EventSubmission.sample(
            .enteredMerchantZone, key: "stray", session: "s9", at: second.advanced(bySeconds: 100))
        try await Self.store([stray], in: store)

        // The server still has the file open.
        let records = try EventRecords(path: folder.file("a"))
        defer { records.close() }
        let events = try #require(try records.events(ofSession: "s2")).events
        // a7 comes after the event that ended the first journey, so it belongs to the second one. All events are in the
        // fold's order.
        #expect(events.map(\.eventID) == ["a7", "b0", "b1", "b2", "b3", "stray", "b4", "b5", "b6", "b7"])
        #expect(events.map(\.before) == [events[0].before] + events.dropLast().map(\.after))
        #expect(events[0].before.state == .sessionEnded)
        #expect(events[2].verdict.implied == .reset)
        await store.close()
        #expect(try records.events(ofSession: "s2")?.events == events)
    }

    @Test("the first event of a driver comes from IDLE")
    func firstEvent() async throws {
        let folder = try ScratchFolder()
        let store = try SQLiteEventStore(path: folder.file("a"), nowMilliseconds: 0)
        try await Self.store(SampleJourney.whole(prefix: "a", session: "s1"), in: store)
        await store.close()
        let records = try EventRecords(path: folder.file("a"))
        defer { records.close() }
        let events = try #require(try records.events(of: Self.driver, last: 100))
        #expect(events.events.count == 8)
        #expect(events.events[0].before == Journey())
        #expect(!events.isCut)
        #expect(try records.events(of: Self.driver, last: 8)?.isCut == false)
        #expect(try records.events(of: Self.driver, last: 7)?.isCut == true)
    }

    /// The file contains pages of an unfinished transaction. Only a rollback could remove them, and a rollback writes
    /// to the file.
    @Test("a file with an unfinished transaction is not read")
    func unfinishedTransaction() async throws {
        let folder = try ScratchFolder()
        let (path, copy) = (folder.file("a"), folder.file("b"))
        let store = try SQLiteEventStore(path: path, nowMilliseconds: 0)
        try await Self.store(SampleJourney.whole(prefix: "a", session: "s1"), in: store)
        await store.close()
        try await DatabaseQueue(path: path).writeWithoutTransaction { db in
            _ = try String.fetchOne(db, sql: "PRAGMA journal_mode = DELETE")
            // The cache has only one page, so SQLite writes pages of the transaction to the file before the transaction
            // ends.
            try db.execute(sql: "PRAGMA cache_size = 1; BEGIN; CREATE TABLE filler (bytes BLOB)")
            for _ in 0..<100 { try db.execute(sql: "INSERT INTO filler VALUES (zeroblob(4000))") }
            for suffix in ["", "-journal"] {
                try FileManager.default.copyItem(atPath: path + suffix, toPath: copy + suffix)
            }
            try db.execute(sql: "ROLLBACK")
        }
        let error = #expect(throws: RecordsUnreadable.self) { try EventRecords(path: copy) }
        #expect(error?.description.contains("unfinished transaction") == true, "\(String(describing: error))")
    }

    @Test("the database file is the same afterwards, byte for byte")
    func writesNothing() async throws {
        let folder = try ScratchFolder()
        let store = try SQLiteEventStore(path: folder.file("a"), nowMilliseconds: 0)
        try await Self.store(SampleJourney.whole(prefix: "a", session: "s1"), in: store)
        await store.close()
        let before = try Data(contentsOf: URL(fileURLWithPath: folder.file("a")))
        let records = try EventRecords(path: folder.file("a"))
        _ = try records.events(ofSession: "s1")
        records.close()
        #expect(try Data(contentsOf: URL(fileURLWithPath: folder.file("a"))) == before)
    }

    @Test("what is no database, or not there, is a sentence and makes no file")
    func unreadable() throws {
        let folder = try ScratchFolder()
        #expect(throws: RecordsUnreadable.self) { try EventRecords(path: folder.file("none")) }
        #expect(!FileManager.default.fileExists(atPath: folder.file("none")))
        try Data(repeating: 0x41, count: 8192).write(to: URL(fileURLWithPath: folder.file("text")))
        #expect(throws: RecordsUnreadable.self) { try EventRecords(path: folder.file("text")).events(ofSession: "s") }
        try Data().write(to: URL(fileURLWithPath: folder.file("empty")))
        #expect(throws: RecordsUnreadable.self) { try EventRecords(path: folder.file("empty")).events(ofSession: "s") }
    }
}
