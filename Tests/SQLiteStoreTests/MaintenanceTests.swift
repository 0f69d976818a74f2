// Tests of backup, restore and check on real files. Tests/Integration/maintenance.bats tests the commands while a
// server runs.

import Engine
import Foundation
import GRDB
import JourneyModel
import TestSupport
import Testing

@testable import Identity
@testable import SQLiteStore

struct MaintenanceTests {
    private let folder: ScratchFolder
    private let path: String

    init() throws {
        folder = try ScratchFolder(inMemory: true)
        path = folder.file("db")
    }

    private func fill() async throws {
        let pool = try DatabaseOpening.open(path: path, nowMilliseconds: 0)
        let store = try SQLiteEventStore(pool: pool, newestKeys: NewestKeys(countMax: 1))
        for name in ["a", "b"] {
            for event in SampleJourney.whole(prefix: name, session: "session-\(name)") {
                _ = try await store.appended(.sample(event, of: DriverID(name)))
            }
        }
        await store.close()
    }

    private func problems(_ file: String? = nil) throws -> [String] {
        let check = try DatabaseCheck(path: file ?? path)
        defer { check.close() }
        return try check.run { _ in }.problems
    }

    private func rowCounts(_ file: String) throws -> DatabaseCopy.RowCounts {
        let queue = try DatabaseQueue(path: file)
        defer { try? queue.close() }
        return try queue.read { db in try DatabaseCopy.rowCounts(db) }
    }

    /// Executes `sql` on the file without the store. Foreign keys are not checked.
    private func doctor(_ sql: String) throws {
        var configuration = Configuration()
        configuration.foreignKeysEnabled = false
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        defer { try? queue.close() }
        try queue.write { db in
            try db.execute(sql: sql)
            try #require(db.changesCount > 0)
        }
    }

    // MARK: Check

    @Test func `check counts what it folded and finds nothing in what the store wrote`() async throws {
        try await fill()
        let check = try DatabaseCheck(path: path)
        #expect(try check.run { _ in } == DatabaseCheck.Report(drivers: 2, events: 16, problems: []))
        check.close()
    }

    /// After an old database is rebuilt, the check runs before the refold of the drivers. At that time, the stored
    /// verdicts follow the rules of the old release.
    @Test func `before a refold by new rules, check examines the chains but not the verdicts`() async throws {
        try await fill()
        try doctor("UPDATE driver SET rules = rules - 1")
        try doctor("UPDATE event_row SET transition = 0 WHERE key = 'a1'")
        func found() throws -> DatabaseCheck.Report {
            let check = try DatabaseCheck(path: path)
            defer { check.close() }
            return try check.run(beforeRefold: true) { _ in }
        }
        let report = try found()
        #expect(report.problems == [] && report.refolding == 2)
        try doctor("UPDATE event_row SET previous = NULL WHERE key = 'a4'")
        #expect(try !found().problems.isEmpty)
    }

    @Test(arguments: [
        ("UPDATE event_row SET after_state = 2 WHERE key = 'a4'", "is stored with anchored after it"),
        ("UPDATE event_row SET transition = 0 WHERE key = 'a1'", "is stored as none, the fold gives applied"),
        ("UPDATE event_row SET transition = 2, reason = 1 WHERE key = 'b5'", "rejected (not_at_merchant)"),
        ("UPDATE event_row SET after_hard_offset_ms = 7 WHERE key = 'a3'", "or other deadlines"),
        ("UPDATE driver SET state = 0 WHERE driver_id = 'b'", "its row differs from the fold of its events"),
        ("UPDATE driver SET head_event = 1 WHERE driver_id = 'b'", "does not reference its last event"),
        ("UPDATE driver SET floor_at_ms = 1 WHERE driver_id = 'b'", "it has a floor without its journey"),
        ("INSERT INTO journey_base (driver, state) VALUES (1, 3)", "a journey without a floor"),
        ("UPDATE event_row SET driver = 77 WHERE key = 'a1'", "event references a missing row of driver"),
        ("UPDATE event_row SET kind = 77 WHERE key = 'a1'", "event references a missing row of event_kind"),
        ("DELETE FROM session WHERE session_id = 'session-a'", "event references a missing row of session"),
        (
            "UPDATE event_row SET settings_version = 77 WHERE id = 1",
            "event references a missing row of settings_version"
        ),
        ("UPDATE event_row SET fold_settings = 77 WHERE id = 1", "event references a missing row of settings_version"),
        ("DELETE FROM event_key WHERE number = 3", "event_key has 14 rows for 15 events"),
        ("DELETE FROM event_key WHERE number = 3", "event 3: is not found by its idempotency key"),
        ("UPDATE event_key SET number = 77 WHERE number = 3", "event_key references a missing row of event"),
        ("UPDATE event_key SET place = 1 WHERE number = 3", "event 3: is not found by its idempotency key"),
        ("INSERT INTO event_key (place, number) VALUES (1, 3)", "event_key has 16 rows for 15 events"),
        ("INSERT INTO event_key VALUES (1, 16)", "event_key lists event 16 at a place that its key does not have"),
        ("INSERT INTO event_key_early VALUES (16)", "event_key has 15 rows for 16 events"),
        ("INSERT INTO event_key_early VALUES (16)", "event 16: is not found by its idempotency key"),
        ("UPDATE event_row SET key = 'other' WHERE id = 3", "event 3: is not found by its idempotency key"),
        (
            "PRAGMA ignore_check_constraints = ON; UPDATE event_row SET digest = x'07' WHERE id = 3",
            "digest that is not of 16 bytes"
        ),
    ])
    func `check finds a doctored row`(_ sql: String, _ told: String) async throws {
        try await fill()
        try doctor(sql)
        let problems = try problems()
        #expect(problems.contains { $0.contains(told) }, "\(problems)")
    }

    @Test func `check finds a missing expiry, and events out of what the floor made`() async throws {
        let store = try SQLiteEventStore(path: path, nowMilliseconds: 0)
        let events = SampleJourney.whole(prefix: "a", session: "s")
        for event in events.prefix(4) { _ = try await store.appended(.sample(event, of: DriverID("a"))) }
        let late = EventSubmission.sample(.diagnostic("d"), key: "d", at: .sample.advanced(bySeconds: 9000))
        _ = try await store.appended(
            .sample(late, of: DriverID("a"), receivedAt: .sample.advanced(bySeconds: 9000)))
        let aged = try await store.agedEvents(
            AgedEventsRequest(
                now: .sample.advanced(bySeconds: 9000), receivedBefore: .sample.advanced(bySeconds: 8000),
                forwarded: .max, unforwardedBefore: .sample, after: 0, limit: 2))
        #expect(try await store.delete(aged.events[...]) == 2)
        await store.close()
        #expect(try problems() == [])
        try doctor("UPDATE journey_base SET state = 0")
        #expect(try problems().contains { $0.contains("is stored as applied, the fold gives rejected") })
        try doctor("UPDATE journey_base SET state = 1")
        #expect(try problems() == [])
        try await DatabaseQueue(path: path).write { db in
            let expiry = try #require(
                try Int64.fetchOne(db, sql: "SELECT id FROM event WHERE idempotency_key LIKE '\u{A7}%'"))
            let chain = try EventChain(db)
            let last = try chain.unlink([chain.requiredLink(expiry)], from: DriverEvents.end(of: 1, db))
            try EventKeyTable(db).remove(expiry)
            try db.execute(sql: "DELETE FROM event_row WHERE id = ?", arguments: [expiry])
            let end = try Data(chain.end(at: last).bytes)
            try db.execute(sql: "UPDATE driver SET chain = ? WHERE id = 1", arguments: [end])
        }
        #expect(try problems().contains { $0.contains("whose expiry is not stored") })
    }

    @Test func `check finds nothing wrong with drivers who were erased, before retention and after`() async throws {
        let fixture = try await AccountFixture()
        let start = AccountFixture.start
        for number in 0..<5 {
            let driver = DriverID("driver-\(number)")
            var random = SeededRandom(seed: UInt64(number))
            let events =
                SampleJourney.whole(prefix: "w", session: "session-\(number)", from: start)
                + SampleJourney.random(count: 60, prefix: "r\(number)", from: start, using: &random)
            for (index, event) in events.enumerated() {
                _ = try await fixture.store.appended(
                    .sample(event, of: driver, receivedAt: start.advanced(bySeconds: 7200 + index)))
            }
            if number < 4 { _ = try await fixture.own.erase(Caller(driver: driver), from: .at(start)) }
        }
        let file = fixture.folder.file("db")
        #expect(try problems(file) == [])
        let cut = start.advanced(bySeconds: 7200 + 40)
        let aged = try await fixture.store.agedEvents(
            AgedEventsRequest(
                now: cut, receivedBefore: cut, forwarded: .max, unforwardedBefore: cut, after: 0, limit: 1000))
        #expect(aged.events.count >= 40)
        #expect(try await fixture.store.delete(aged.events[...]) == aged.events.count)
        #expect(try problems(file) == [])
        // Retention has deleted events of driver-4. The database therefore has a floor for this driver.
        let receipt = try await fixture.own.erase(Caller(driver: DriverID("driver-4")), from: .at(start))
        #expect(try problems(file) == [])
        #expect(try ErasureScan(path: file).leftovers(ofReceipt: receipt.id) == [])
        await fixture.close()
    }

    // MARK: Backup and restore

    @Test func `a backup has every row, is the owner's alone, and is not replaced unasked`() async throws {
        try await fill()
        let file = folder.file("backup")
        var last: MaintenanceProgress?
        try DatabaseBackup.make(of: path, to: file, replacing: false) { last = $0 }
        #expect(last?.total ?? 0 > 0)
        #expect(try problems(file) == [])
        let counts = try rowCounts(file)
        #expect(try counts == rowCounts(path))
        #expect(counts["event_row"] == 16 && counts["driver"] == 2)
        let mode = try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? Int
        #expect(mode == 0o600)
        #expect(throws: MaintenanceRefusal("\(file) already exists; --force replaces it")) {
            try DatabaseBackup.make(of: path, to: file, replacing: false) { _ in }
        }
        try DatabaseBackup.make(of: path, to: file, replacing: true) { _ in }
        #expect(throws: MaintenanceRefusal("\(path) is the database itself")) {
            try DatabaseBackup.make(of: path, to: path, replacing: true) { _ in }
        }
        #expect(!DatabaseCopy.exists(file + ".partial"))
    }

    /// A killed program left the WAL of the earlier backup. SQLite would apply this WAL to the new backup.
    @Test(arguments: ["intact", "damaged", "gone"])
    func `a backup removes the WAL of the backup that it replaces`(_ earlier: String) async throws {
        try await fill()
        try DatabaseBackup.make(of: path, to: folder.file("backup"), replacing: false) { _ in }
        let store = try SQLiteEventStore(path: folder.file("backup"), nowMilliseconds: 0)
        for event in SampleJourney.whole(prefix: "c", session: "session-c") {
            _ = try await store.appended(.sample(event, of: DriverID("c")))
        }
        let killed = folder.file("killed")
        try folder.copyDatabase("backup", to: "killed")
        await store.close()
        #expect(DatabaseCopy.exists(killed + "-wal"))
        switch earlier {
        case "damaged":
            for suffix in ["", "-wal"] {
                try Data("not a database".utf8).write(to: URL(fileURLWithPath: killed + suffix))
            }
        case "gone":
            try FileManager.default.removeItem(atPath: killed)
            #expect(throws: MaintenanceRefusal("\(killed)-wal already exists; --force replaces it")) {
                try DatabaseBackup.make(of: path, to: killed, replacing: false) { _ in }
            }
        default: break
        }
        try DatabaseBackup.make(of: path, to: killed, replacing: true) { _ in }
        for suffix in ["-wal", "-shm", "-journal"] { #expect(!DatabaseCopy.exists(killed + suffix)) }
        #expect(try problems(killed) == [])
        #expect(try rowCounts(killed) == rowCounts(path))
    }

    @Test func `a backup that is in use is not replaced`() async throws {
        try await fill()
        let file = folder.file("backup")
        try DatabaseBackup.make(of: path, to: file, replacing: false) { _ in }
        let store = try SQLiteEventStore(path: file, nowMilliseconds: 0)
        #expect(throws: MaintenanceRefusal("\(file) is in use: end the program that has it open")) {
            try DatabaseBackup.make(of: path, to: file, replacing: true) { _ in }
        }
        #expect(try await store.eventCount() == 16)
        await store.close()
        #expect(!DatabaseCopy.exists(file + ".partial"))
        try DatabaseBackup.make(of: path, to: file, replacing: true) { _ in }
        #expect(try problems(file) == [])
    }

    @Test func `a backup replaces no device, no directory and no file that belongs to the database`() async throws {
        try await fill()
        for name in ["db-wal", "db-shm", "db-journal", "db.jwt-key", "db.sock"] {
            #expect(throws: MaintenanceRefusal("\(folder.file(name)) belongs to the database: choose another name")) {
                try DatabaseBackup.make(of: path, to: folder.file(name), replacing: true) { _ in }
            }
        }
        let pipe = folder.file("pipe")
        try #require(mkfifo(pipe, 0o600) == 0)
        for file in [pipe, "/dev/null", folder.path] {
            #expect(throws: MaintenanceRefusal("\(file) is not a regular file: choose another name")) {
                try DatabaseBackup.make(of: path, to: file, replacing: true) { _ in }
            }
            #expect(DatabaseCopy.exists(file) && !DatabaseCopy.exists(file + ".partial"))
        }
    }

    @Test func `when the disk is full, a backup says so and names its own file`() async throws {
        try await fill()
        let file = folder.file("backup")
        let script = FaultScript()
        try FaultyFileSystem.watch(file, script)
        script.arm(.diskFull, after: 0, failureCount: .max)
        #expect(throws: MaintenanceRefusal("\(file).partial: database or disk is full")) {
            try DatabaseBackup.make(of: path, to: file, replacing: false) { _ in }
        }
        #expect(!DatabaseCopy.exists(file + ".partial"))
    }

    @Test func `a database whose rows name nothing is not backed up, and what was there stays`() async throws {
        try await fill()
        let file = folder.file("backup")
        try Data("the old one".utf8).write(to: URL(fileURLWithPath: file))
        try doctor("DELETE FROM session WHERE session_id = 'session-a'")
        #expect(throws: MaintenanceRefusal.self) {
            try DatabaseBackup.make(of: path, to: file, replacing: true) { _ in }
        }
        #expect(try String(contentsOfFile: file, encoding: .utf8) == "the old one")
        #expect(!DatabaseCopy.exists(file + ".partial"))
    }

    @Test func `a restore puts the backup in place and keeps what was there`() async throws {
        try await fill()
        let file = folder.file("backup")
        try DatabaseBackup.make(of: path, to: file, replacing: false) { _ in }
        try doctor("DELETE FROM event_row WHERE key = 'a7'")
        let old = try DatabaseBackup.restore(file, to: path, stamp: "then") { _ in }
        #expect(old == "\(path).before-restore-then")
        let store = try SQLiteEventStore(path: path, nowMilliseconds: 0)
        #expect(try await store.eventCount() == 16)
        await store.close()
        let before = try DatabaseQueue(path: try #require(old))
        #expect(try await before.read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM event") } == 15)
    }

    /// An operator moved the database away but left its WAL. SQLite would apply this WAL to the restored backup.
    @Test func `a restore sets aside the WAL of a database that is gone`() async throws {
        try await fill()
        let file = folder.file("backup")
        try DatabaseBackup.make(of: path, to: file, replacing: false) { _ in }
        let store = try SQLiteEventStore(path: path, nowMilliseconds: 0)
        for event in SampleJourney.whole(prefix: "c", session: "session-c") {
            _ = try await store.appended(.sample(event, of: DriverID("c")))
        }
        let elsewhere = folder.file("elsewhere")
        try FileManager.default.copyItem(atPath: path + "-wal", toPath: elsewhere + "-wal")
        await store.close()
        let old = try DatabaseBackup.restore(file, to: elsewhere, stamp: "then") { _ in }
        #expect(old == "\(elsewhere).before-restore-then-wal")
        #expect(try problems(elsewhere) == [])
        let restored = try SQLiteEventStore(path: elsewhere, nowMilliseconds: 0)
        #expect(try await restored.eventCount() == 16)
        await restored.close()
    }

    @Test(arguments: [0, 4096]) func `a restore takes the place of a damaged database`(from start: Int) async throws {
        try await fill()
        let file = folder.file("backup")
        try DatabaseBackup.make(of: path, to: file, replacing: false) { _ in }
        var bytes = try Data(contentsOf: URL(fileURLWithPath: path))
        for index in bytes.indices.dropFirst(start).prefix(8192) { bytes[index] = 0x5A }
        try bytes.write(to: URL(fileURLWithPath: path))
        let old = try DatabaseBackup.restore(file, to: path, stamp: "then") { _ in }
        #expect(old == "\(path).before-restore-then")
        #expect(try Data(contentsOf: URL(fileURLWithPath: "\(path).before-restore-then")).count == bytes.count)
        #expect(try problems() == [])
    }

    @Test func `a store that was closed has all of its database in one file`() async throws {
        try await fill()
        let copy = folder.file("copy")
        try FileManager.default.copyItem(atPath: path, toPath: copy)
        let store = try SQLiteEventStore(path: copy, nowMilliseconds: 0)
        #expect(try await store.eventCount() == 16)
        await store.close()
    }

    /// SQLite reads a zero-byte file as an empty database.
    @Test(arguments: ["zero bytes", "another program's", "a record without migrations", "another schema_migration"])
    func `a restore refuses what is no backup, and a start what is no database of Dwell's`(_ kind: String) async throws
    {
        try await fill()
        let file = folder.file("foreign")
        #expect(FileManager.default.createFile(atPath: file, contents: nil))
        let statements = [
            "another program's": ["CREATE TABLE note (text TEXT)", "INSERT INTO note VALUES ('x')"],
            "a record without migrations": [
                "CREATE TABLE event (id INTEGER PRIMARY KEY)",
                """
                CREATE TABLE schema_migration (
                    number INTEGER PRIMARY KEY, name TEXT, sha256 TEXT, applied_at_ms INTEGER)
                """,
            ],
            "another schema_migration": ["CREATE TABLE schema_migration (version TEXT)"],
        ]
        if let statements = statements[kind] {
            let queue = try DatabaseQueue(path: file)
            try await queue.write { db in for sql in statements { try db.execute(sql: sql) } }
            try queue.close()
        }
        func expectRefusal(_ attempt: () throws -> Void) {
            let refusal = #expect(throws: MaintenanceRefusal.self) { try attempt() }
            let told = refusal?.description ?? ""
            #expect(told.contains("not a Dwell database"), "\(told)")
        }
        expectRefusal { _ = try DatabaseBackup.planRestore(of: file, to: path) }
        expectRefusal { _ = try DatabaseBackup.restore(file, to: path, stamp: "x") { _ in } }
        expectRefusal { try DatabaseBackup.make(of: file, to: folder.file("copy"), replacing: false) { _ in } }
        expectRefusal { _ = try DatabaseCheck(path: file).run { _ in } }
        #expect(throws: MigrationRefusal.self) { try DatabaseOpening.status(path: file) }
        #expect(throws: RecordsUnreadable.self) { try AuditRecords(path: file) }
        #expect(!DatabaseCopy.exists("\(path).before-restore-x"))
        #expect(try problems() == [])
        if kind == "zero bytes" {
            // The server accepts an empty file, because SQLite creates a new database as an empty file.
            let store = try SQLiteEventStore(path: file, nowMilliseconds: 0)
            await store.close()
        } else {
            let bytes = try Data(contentsOf: URL(fileURLWithPath: file))
            #expect(throws: MigrationRefusal.notDwell) { try SQLiteEventStore(path: file, nowMilliseconds: 0) }
            let tables = try await DatabaseQueue(path: file).read { db in
                try String.fetchAll(db, sql: "SELECT name FROM sqlite_schema")
            }
            #expect(!tables.contains("driver"))
            #expect(!bytes.isEmpty)
        }
    }

    @Test func `a restore says what both hold, and what would be lost`() async throws {
        try await fill()
        let file = folder.file("backup")
        try DatabaseBackup.make(of: path, to: file, replacing: false) { _ in }
        #expect(try DatabaseBackup.planRestore(of: file, to: path).loss == nil)
        #expect(try DatabaseBackup.planRestore(of: file, to: folder.file("none")).loss == nil)
        let store = try SQLiteEventStore(path: path, nowMilliseconds: 0)
        for event in SampleJourney.whole(prefix: "c", session: "session-c") {
            _ = try await store.appended(.sample(event, of: DriverID("c")))
        }
        await store.close()
        let plan = try DatabaseBackup.planRestore(of: file, to: path)
        #expect(plan.backup.events == 16 && plan.backup.drivers == 2)
        guard case .holds(let now) = plan.current else {
            Issue.record("\(plan.current)")
            return
        }
        #expect(now.events == 24 && now.drivers == 3)
        #expect(plan.loss == "The backup has 8 events and 1 driver fewer than the database.")
    }

    /// After a downgrade of the binary, the database has a migration that the binary does not know.
    @Test func `a restore over a newer database counts the deletions that it undoes, and they can be read`()
        async throws
    {
        try await fill()
        let file = folder.file("backup")
        try DatabaseBackup.make(of: path, to: file, replacing: false) { _ in }
        try doctor(
            """
            INSERT INTO schema_migration (number, name, sha256, applied_at_ms) VALUES (1000, 'next', '', 0);
            INSERT INTO audit (at_ms, action, outcome, reason) VALUES (7, 'erased', 'done', 'receipt');
            INSERT INTO erased_driver (driver_digest, erased_at_ms) VALUES (randomblob(32), 7)
            """)
        let plan = try DatabaseBackup.planRestore(of: file, to: path)
        guard case .ofAnotherVersion = plan.current else {
            Issue.record("\(plan.current)")
            return
        }
        #expect(plan.undoneErasures == 1)
        #expect(plan.loss == nil)
        let old = try #require(try DatabaseBackup.restore(file, to: path, stamp: "then") { _ in })
        #expect(try ErasureRecords.read(old).map(\.receipt) == ["receipt"])
        #expect(try ErasureRecords.read(path).isEmpty)
    }

    /// The folder of the link and the folder of the database could be on different disks. The restore must therefore
    /// write its file next to the database.
    @Test(arguments: [false, true])
    func `a restore through a symbolic link replaces the file to which it leads`(isDamaged: Bool) async throws {
        try await fill()
        let (file, link) = (folder.file("backup"), folder.file("links/db"))
        try DatabaseBackup.make(of: path, to: file, replacing: false) { _ in }
        try doctor("DELETE FROM driver")
        try FileManager.default.createDirectory(atPath: folder.file("links"), withIntermediateDirectories: false)
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: path)
        if isDamaged { try Data("not a database".utf8).write(to: URL(fileURLWithPath: path)) }
        let old = try #require(try DatabaseBackup.restore(file, to: link, stamp: "then") { _ in })
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: link) == path)
        #expect(old == "\(path).before-restore-then")
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.file("links")) == ["db"])
        #expect(try rowCounts(path) == rowCounts(file))
    }

    @Test func `a restore through a symbolic link to a missing file creates this file`() async throws {
        try await fill()
        let (file, link) = (folder.file("backup"), folder.file("link"))
        try DatabaseBackup.make(of: path, to: file, replacing: false) { _ in }
        try FileManager.default.createDirectory(atPath: folder.file("disk"), withIntermediateDirectories: false)
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: "disk/db")
        let old = try DatabaseBackup.restore(file, to: link, stamp: "then") { _ in }
        #expect(old == nil)
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: link) == "disk/db")
        #expect(try rowCounts(folder.file("disk/db")) == rowCounts(file))
    }

    @Test func `a restore over a newer database whose deletions cannot be read is to be confirmed`() async throws {
        try await fill()
        let file = folder.file("backup")
        try DatabaseBackup.make(of: path, to: file, replacing: false) { _ in }
        try doctor(
            """
            DROP TABLE erased_driver;
            INSERT INTO schema_migration (number, name, sha256, applied_at_ms) VALUES (1000, 'next', '', 0)
            """)
        let plan = try DatabaseBackup.planRestore(of: file, to: path)
        #expect(plan.undoneErasures == nil)
        let loss = try #require(plan.loss)
        #expect(loss.contains("which drivers were deleted"))
        let unreadable = #expect(throws: RecordsUnreadable.self) { try ErasureRecords.read(path) }
        let reason = unreadable?.description ?? ""
        #expect(reason.contains("run a newer one"), "\(reason)")
    }

    @Test(arguments: ["erased_driver", "sqlite_schema"])
    func `a restore over a damaged database is possible, and says that its deletions are unknown`(
        table: String
    ) async throws {
        try await fill()
        let file = folder.file("backup")
        try DatabaseBackup.make(of: path, to: file, replacing: false) { _ in }
        let queue = try DatabaseQueue(path: path)
        let (page, size) = try await queue.read { db in
            (
                try Int.fetchOne(db, sql: "SELECT rootpage FROM sqlite_schema WHERE name = ?", arguments: [table]) ?? 1,
                try Int.fetchOne(db, sql: "PRAGMA page_size") ?? 0
            )
        }
        try queue.close()
        let handle = try #require(FileHandle(forWritingAtPath: path))
        // The first page begins with SQLite's header of 100 bytes.
        let headerBytes = page == 1 ? 100 : 0
        try handle.seek(toOffset: UInt64((page - 1) * size + headerBytes))
        try handle.write(contentsOf: Data(repeating: 0x7f, count: size - headerBytes))
        try handle.close()

        let plan = try DatabaseBackup.planRestore(of: file, to: path)
        if table == "sqlite_schema" {
            guard case .unreadable = plan.current else {
                Issue.record("\(plan.current)")
                return
            }
        }
        #expect(plan.undoneErasures == nil)
        #expect(plan.loss == nil)
        _ = try DatabaseBackup.restore(file, to: path, stamp: "then") { _ in }
        #expect(try problems() == [])
    }

    @Test func `the last backup is recorded in the database that it is of, beside a server`() async throws {
        try await fill()
        let file = folder.file("backup")
        let store = try SQLiteEventStore(path: path, nowMilliseconds: 0)
        #expect(try await store.lastBackup() == nil)
        for moment in [Moment(millisecondsSinceEpoch: 5), Moment(millisecondsSinceEpoch: 9)] {
            try DatabaseBackup.make(of: path, to: file, replacing: true) { _ in }
            try DatabaseBackup.record(file, of: path, at: moment)
            let last = try #require(try await store.lastBackup())
            #expect(last.completedAt == moment && last.bytes > 0)
        }
        await store.close()
        #expect(throws: MaintenanceRefusal.self) {
            try DatabaseBackup.record(folder.file("none"), of: path, at: Moment(millisecondsSinceEpoch: 1))
        }
    }

    @Test func `the database that a restore replaces stays locked after its WAL is gone`() async throws {
        try await fill()
        let queue = try DatabaseBackup.locked(path)
        #expect(!FileManager.default.fileExists(atPath: path + "-wal"))
        for _ in 0..<2 {
            #expect(throws: DatabaseError.self) {
                let other = try DatabaseQueue(path: path)
                _ = try other.read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM event") }
            }
        }
        try queue.close()
        #expect(try problems() == [])
    }

    @Test func `a restore refuses a broken file, and a database that is in use`() async throws {
        try await fill()
        let file = folder.file("backup")
        try DatabaseBackup.make(of: path, to: file, replacing: false) { _ in }
        var bytes = try Data(contentsOf: URL(fileURLWithPath: file))
        for index in bytes.indices.dropFirst(bytes.count / 3).prefix(8192) { bytes[index] = 0x5A }
        let broken = folder.file("broken")
        try bytes.write(to: URL(fileURLWithPath: broken))
        #expect(throws: MaintenanceRefusal.self) { try DatabaseBackup.restore(broken, to: path, stamp: "x") { _ in } }
        try bytes.prefix(8192).write(to: URL(fileURLWithPath: broken))
        #expect(throws: MaintenanceRefusal.self) { try DatabaseBackup.restore(broken, to: path, stamp: "x") { _ in } }

        let store = try SQLiteEventStore(path: path, nowMilliseconds: 0)
        #expect(throws: MaintenanceRefusal("\(path) is in use: stop the server first")) {
            try DatabaseBackup.restore(file, to: path, stamp: "x") { _ in }
        }
        #expect(try await store.eventCount() == 16)
        await store.close()
        #expect(!DatabaseCopy.exists("\(path).before-restore-x"))
        #expect(!DatabaseCopy.exists("\(path).restoring"))
    }
}
