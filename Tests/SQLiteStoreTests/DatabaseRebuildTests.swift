// Tests of migration 26 for databases with events. A reader finds the same rows in the rebuilt database as before, and
// an interruption at any step loses nothing. During the rebuild, no process can write to the old file.

import Engine
import Foundation
import GRDB
import JourneyModel
import TestSupport
import Testing

@testable import SQLiteStore

struct DatabaseRebuildTests {
    private struct Interruption: Error {}

    private let folder: ScratchFolder
    private let path: String
    private var kept: String { path + ".before-26" }

    init() throws {
        folder = try ScratchFolder(inMemory: true)
        path = folder.file("db")
    }

    private func options(
        _ reached: @escaping @Sendable (DatabaseRebuild.Step) throws -> Void = { _ in }
    ) -> DatabaseRebuild.Options {
        DatabaseRebuild.Options(lockSeconds: 0, holdSeconds: 0, sliceRows: 20, reached: reached)
    }

    private func open(_ options: DatabaseRebuild.Options? = nil, _ report: (RebuildReport) -> Void = { _ in }) throws {
        try DatabaseOpening.open(
            path: path, nowMilliseconds: 7, rebuild: options ?? self.options(), report: report
        ).close()
    }

    private func exists(_ path: String) -> Bool { FileManager.default.fileExists(atPath: path) }

    private func expectRebuilt(_ before: [String: [String]], _ columns: [String: [String]]) throws {
        let after = try OldDatabase.contents(of: path, columns: columns)
        for (table, rows) in before { #expect(after[table] == rows, "\(table)") }
        #expect(try OldDatabase.contents(of: kept, columns: columns) == before)
        for leftover in [".rebuild", ".rebuild-journal", ".rebuild-wal", ".before-26-wal"] {
            #expect(!exists(path + leftover), "\(leftover)")
        }
        try expectLinks()
        let check = try DatabaseCheck(path: path)
        defer { check.close() }
        #expect(try check.run { _ in }.problems == [])
    }

    /// Checks the links between a driver's events, and the stored idempotency keys. Shares no code with the rebuild.
    private func expectLinks() throws {
        let queue = try DatabaseQueue(path: path)
        defer { try? queue.close() }
        try queue.read { db in
            #expect(try !db.tableExists("rebuild"))
            let drivers = try Int64.fetchAll(db, sql: "SELECT id FROM driver")
            for driver in drivers {
                let rows = try Row.fetchAll(
                    db, sql: "SELECT id, previous, jump FROM event WHERE driver = ? ORDER BY corrected_at_ms, id",
                    arguments: [driver])
                let ids = rows.map { $0[0] as Int64 }
                for (index, row) in rows.enumerated() {
                    #expect(row[1] as Int64? == (index == 0 ? nil : ids[index - 1]))
                    let level = EventChain.level(of: ids[index])
                    #expect(row[2] as Int64? == ids[..<index].last { EventChain.level(of: $0) > level })
                }
                let chain = try Data.fetchOne(db, sql: "SELECT chain FROM driver WHERE id = ?", arguments: [driver])
                #expect(try chain.map { try ChainEnd(bytes: Array($0)).last } == ids.last)
            }
            let keys = try EventKeyTable(db)
            let through = try Int64.fetchOne(db, sql: "SELECT listed_through FROM event_key_progress") ?? -1
            #expect(through > 0, "the rebuild lists the old events")
            for event in try Int64.fetchAll(db, sql: "SELECT id FROM event WHERE id <= ?", arguments: [through]) {
                #expect(try keys.place(ofListed: event) != nil)
            }
            let counts = "SELECT (SELECT count(*) FROM event_key) = (SELECT count(*) FROM event WHERE id <= ?)"
            #expect(try Bool.fetchOne(db, sql: counts, arguments: [through]) == true)
        }
    }

    @Test func `readers find what the old release stored, and the old file is kept`() throws {
        let old = try OldDatabase(path)
        let columns = try old.allColumns()
        let before = try OldDatabase.contents(of: path, columns: columns)
        #expect(before["event"]?.count == 134)
        let applied = try DatabaseOpening.status(path: path).prefix(25)
        var reports: [RebuildReport] = []
        try open { reports.append($0) }
        try expectRebuilt(before, columns)
        #expect(reports.first == .begins(rowCount: 134, copiedCount: 0))
        #expect(reports.last == .isDone(kept: kept))
        let status = try DatabaseOpening.status(path: path)
        #expect(status.prefix(25) == applied)
        #expect(status[25].appliedAtMilliseconds == 7)
        #expect(try DatabaseOpening.status(path: kept)[25].appliedAtMilliseconds == nil)
    }

    @Test func `odd rows: gaps in the numbers, a refold and a deletion under way, a floor, late events`() throws {
        let old = try OldDatabase(path)
        try old.change(
            """
            DELETE FROM event WHERE id IN (SELECT id FROM event ORDER BY id LIMIT 3) OR id % 7 = 3;
            UPDATE sqlite_sequence SET seq = 5000 WHERE name = 'event';
            UPDATE event SET corrected_at_ms = corrected_at_ms - 50000 WHERE id % 11 = 0;
            UPDATE event SET corrected_at_ms = 1000 WHERE id % 13 = 0;
            UPDATE event SET occurred_at = 'no time', occurred_at_ms = -1 WHERE id % 17 = 0;
            UPDATE event SET occurred_at = '1969-12-31T23:59:59.999Z', occurred_at_ms = -1 WHERE id % 19 = 0;
            UPDATE event SET sent_at_ms = NULL, after_hard_deadline_ms = 9e15 WHERE id % 5 = 0;
            UPDATE driver SET rules = 0, floor_at_ms = 7, clock_memory = x'0102';
            INSERT INTO refold (driver, cause, rules, last_event, row_count) SELECT id, 9, 1, 9, 4 FROM driver;
            INSERT INTO erasure (driver, driver_digest, step, last, event_count)
                SELECT id, zeroblob(32), 'events', 7, 1 FROM driver LIMIT 1;
            INSERT INTO journey_base (driver, state) SELECT id, 0 FROM driver;
            CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER);
            INSERT INTO _litestream_seq VALUES (1, 44);
            CREATE INDEX operators_own ON driver (created_at_ms);
            CREATE VIEW "operator's own" AS SELECT count(*) AS event_count FROM event;
            """)
        let columns = try old.allColumns()
        let before = try OldDatabase.contents(of: path, columns: columns)
        try open()
        let after = try OldDatabase.contents(of: path, columns: columns)
        for (table, rows) in before { #expect(after[table] == rows, "\(table)") }
        try expectLinks()
        let queue = try DatabaseQueue(path: path)
        defer { try? queue.close() }
        #expect(
            try queue.read { db in
                try String.fetchAll(db, sql: "SELECT name FROM sqlite_schema WHERE name LIKE 'operator%' ORDER BY name")
            } == ["operator's own", "operators_own"])
        #expect(
            try queue.read { db in try Int.fetchOne(db, sql: "SELECT seq FROM sqlite_sequence WHERE name = 'event_row'")
            }
                == 5000)
    }

    @Test(arguments: DatabaseRebuild.Step.allCases)
    func `an interruption after any step is made up for by the next start`(_ step: DatabaseRebuild.Step) throws {
        let old = try OldDatabase(path)
        let columns = try old.allColumns()
        let before = try OldDatabase.contents(of: path, columns: columns)
        let stop = options { if $0 == step { throw Interruption() } }
        #expect(throws: Interruption.self) { try open(stop) }
        // Whichever step was interrupted, the file at `path` contains all events.
        #expect(try OldDatabase.contents(of: path, columns: columns)["event"] == before["event"])
        if step != .replaced { #expect(throws: Interruption.self) { try open(stop) } }
        var reports: [RebuildReport] = []
        try open { reports.append($0) }
        if step == .sliceCopied { #expect(reports.first == .begins(rowCount: 134, copiedCount: 40)) }
        if [.eventsCopied, .keysWritten, .checked, .oldKept].contains(step) {
            #expect(reports.first == .begins(rowCount: 134, copiedCount: 134))
        }
        try expectRebuilt(before, columns)
    }

    @Test func `a database that was used after an interruption is copied from the beginning`() throws {
        let old = try OldDatabase(path)
        #expect(throws: Interruption.self) {
            try open(options { if $0 == .eventsCopied { throw Interruption() } })
        }
        try old.change("UPDATE event SET metadata = '{\"changed\":true}' WHERE id = 2")
        let columns = try old.allColumns()
        let before = try OldDatabase.contents(of: path, columns: columns)
        var reports: [RebuildReport] = []
        try open { reports.append($0) }
        #expect(reports.first == .begins(rowCount: 134, copiedCount: 0))
        try expectRebuilt(before, columns)
    }

    @Test func `new events, repeats and late events are taken as before`() async throws {
        let newer = folder.file("newer")
        let (driver, other) = (DriverID("a"), DriverID("b"))
        let events = SampleJourney.whole(prefix: "a", session: "s")
        let store = try SQLiteEventStore(path: newer, nowMilliseconds: 0)
        for (index, event) in events.enumerated() where index != 2 {
            _ = try await store.appended(.sample(event, of: driver))
        }
        let expected = try SQLiteEventStore(path: folder.file("expected"), nowMilliseconds: 0)
        for event in events { _ = try await expected.appended(.sample(event, of: driver)) }
        await store.close()
        _ = try OldDatabase(path, from: newer)
        try open()

        let rebuilt = try SQLiteEventStore(path: path, nowMilliseconds: 0)
        for (index, event) in events.enumerated() where index != 2 {
            let outcome = await rebuilt.append(.sample(event, of: driver))
            guard case .replayed = outcome else {
                Issue.record("\(outcome)")
                continue
            }
        }
        let reused = EventSubmission.sample(.diagnostic("other"), key: events[0].idempotencyKey)
        let outcome = await rebuilt.append(.sample(reused, of: driver))
        guard case .keyReused = outcome else {
            Issue.record("another event with an old key was taken: \(outcome)")
            return
        }
        _ = try await rebuilt.appended(.sample(events[2], of: driver))
        _ = try await rebuilt.appended(.sample(events[0], of: other))
        #expect(try await rebuilt.journey(of: driver) == expected.journey(of: driver))
        let order = try await rebuilt.timeline(of: driver).map(\.idempotencyKey)
        #expect(try await order == expected.timeline(of: driver).map(\.idempotencyKey))
        await rebuilt.close()
        await expected.close()
        try expectLinks()
        let check = try DatabaseCheck(path: path)
        defer { check.close() }
        #expect(try check.run { _ in }.problems == [])
    }

    // MARK: Other processes

    @Test func `a server that still has the database open is waited for, and nothing of it is lost`() throws {
        let old = try OldDatabase(path)
        let draining = try DatabasePool(path: path)
        #expect(throws: MaintenanceRefusal.self) { try open() }
        try draining.write { db in try db.execute(sql: "UPDATE event SET skew_ms = 77 WHERE id = 1") }
        #expect(!exists(kept) && !exists(path + ".rebuild"))
        var waiting = options()
        waiting.lockSeconds = 60
        var isWaiting = false
        try open(waiting) { report in
            guard case .waits = report else { return }
            isWaiting = true
            try? draining.write { db in try db.execute(sql: "UPDATE event SET skew_ms = 78 WHERE id = 1") }
            try? draining.close()
        }
        #expect(isWaiting)
        let queue = try DatabaseQueue(path: path)
        defer { try? queue.close() }
        #expect(try queue.read { db in try Int.fetchOne(db, sql: "SELECT skew_ms FROM event WHERE id = 1") } == 78)
        _ = old
    }

    @Test func `nobody reads or writes the old file during a rebuild`() throws {
        _ = try OldDatabase(path)
        let path = path
        try open(
            options { step in
                // From the step `replaced` on, `path` is the new file.
                guard step != .replaced else { return }
                let error = #expect(throws: DatabaseError.self) {
                    let queue = try DatabaseQueue(path: path)
                    defer { try? queue.close() }
                    try queue.write { db in try db.execute(sql: "UPDATE event SET skew_ms = 79 WHERE id = 1") }
                }
                #expect(error?.resultCode == .SQLITE_BUSY)
                let readError = #expect(throws: DatabaseError.self) {
                    let queue = try DatabaseQueue(path: path)
                    defer { try? queue.close() }
                    _ = try queue.read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM event") }
                }
                #expect(readError?.resultCode == .SQLITE_BUSY)
            })
        let queue = try DatabaseQueue(path: path)
        defer { try? queue.close() }
        #expect(try queue.read { db in try Int.fetchOne(db, sql: "SELECT skew_ms FROM event WHERE id = 1") } != 79)
    }

    // MARK: Refusals

    @Test func `a new file that is not clean does not take the database's place`() throws {
        let old = try OldDatabase(path)
        try old.change("UPDATE event SET after_state = 5, transition = 2 WHERE id = 4")
        let error = #expect(throws: MaintenanceRefusal.self) { try open() }
        #expect(error?.description.contains("event 4: is stored as rejected") == true, "\(error?.description ?? "")")
        #expect(!exists(kept))
        #expect(try DatabaseOpening.status(path: path)[25].appliedAtMilliseconds == nil)
        // The rebuild has refused to put its new file in the database's place. The next start must begin a new file.
        var reports: [RebuildReport] = []
        #expect(throws: MaintenanceRefusal.self) { try open { reports.append($0) } }
        #expect(reports.first == .begins(rowCount: 134, copiedCount: 0))
    }

    @Test func `a driver whom an older release folded is refolded later, and no problem`() throws {
        let old = try OldDatabase(path)
        try old.change("UPDATE driver SET rules = 0; UPDATE driver SET rules = 1 WHERE id = 1")
        try open()
        #expect(exists(kept))
    }

    @Test func `an older file of the kept name is not replaced`() throws {
        _ = try OldDatabase(path)
        try Data("mine".utf8).write(to: URL(fileURLWithPath: kept))
        let error = #expect(throws: MaintenanceRefusal.self) { try open() }
        #expect(error?.description.contains("\(kept) already exists") == true)
        #expect(try String(contentsOfFile: kept, encoding: .utf8) == "mine")
    }

    @Test func `the new file has the mode of the old one, and a symbolic link stays`() throws {
        let old = try OldDatabase(folder.file("real"))
        try FileManager.default.setAttributes([.posixPermissions: 0o640], ofItemAtPath: old.path)
        try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: old.path)
        try open()
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: path) == old.path)
        #expect(try FileStatus(old.path).mode == 0o640)
        #expect(exists(old.path + ".before-26"))
        #expect(try DatabaseOpening.status(path: path)[25].appliedAtMilliseconds == 7)
    }
}
