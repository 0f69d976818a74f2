// Tests that a commit makes one write to the WAL and one sync. Dwell's VFS delays and joins SQLite's writes. FaultTests
// covers failed writes.
//
// Other connections must not notice the delay. This must hold without syncs, for transactions larger than the cache,
// and after a rollback.

import Foundation
import GRDB
import JourneyModel
import TestSupport
import Testing

@testable import SQLiteStore

struct WriteCoalescingTests {
    private let folder: ScratchFolder
    private let script = FaultScript()
    private let pool: DatabasePool

    init() throws {
        folder = try ScratchFolder()
        try FaultyFileSystem.watch(folder.path, script)
        pool = try DatabaseOpening.open(path: folder.file("db"), nowMilliseconds: 0)
        // The first commit after a truncation adds zeros to the WAL file. CREATE TABLE is this commit, so no test
        // counts the additional write.
        try pool.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA wal_checkpoint(TRUNCATE)")
            try db.execute(sql: "CREATE TABLE line (id INTEGER PRIMARY KEY, text)")
        }
    }

    private static let insert = "INSERT INTO line (text) VALUES (hex(randomblob(1000)))"

    private func add(_ count: Int, _ db: Database) throws {
        for _ in 0..<count { try db.execute(sql: Self.insert) }
    }

    private func elsewhere<Value>(_ body: (Database) throws -> Value) throws -> Value {
        let queue = try DatabaseQueue(path: folder.file("db"))
        defer { try? queue.close() }
        return try queue.writeWithoutTransaction(body)
    }

    private func expectLines(_ count: Int) throws {
        let here = try pool.writeWithoutTransaction { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM line") }
        let (there, sound) = try elsewhere { db in
            (
                try Int.fetchOne(db, sql: "SELECT count(*) FROM line"),
                try String.fetchAll(db, sql: "PRAGMA integrity_check")
            )
        }
        #expect(here == count)
        #expect(there == count)
        #expect(sound == ["ok"])
    }

    @Test func `a commit of many pages is one write`() throws {
        script.arm(.syncError, after: .max, failureCount: 1)
        try pool.write { db in try add(20, db) }
        #expect(script.writeCount == 1)
        try expectLines(20)
        try pool.close()
    }

    @Test func `what is longer than the buffer is written in pieces`() throws {
        script.arm(.syncError, after: .max, failureCount: 1)
        // The 1,200 rows fill about 600 pages. More pages would start a checkpoint, which writes each page separately.
        try pool.write { db in try add(1200, db) }
        #expect((2...80).contains(script.writeCount))
        try expectLines(1200)
        try pool.close()
    }

    @Test func `a commit that is not synced is seen by others all the same`() throws {
        for mode in ["OFF", "NORMAL"] {
            try pool.writeWithoutTransaction { db in try db.execute(sql: "PRAGMA synchronous = \(mode)") }
            let before = try elsewhere { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM line") ?? 0 }
            try pool.write { db in try add(5, db) }
            try expectLines(before + 5)
        }
        try pool.close()
    }

    @Test func `a transaction larger than its cache reads what it wrote`() throws {
        try pool.writeWithoutTransaction { db in try db.execute(sql: "PRAGMA cache_size = 5") }
        try pool.write { db in
            try add(300, db)
            #expect(try Int.fetchOne(db, sql: "SELECT count(*) FROM line WHERE length(text) = 2000") == 300)
            try db.execute(sql: "UPDATE line SET text = upper(text) || 'x'")
        }
        try expectLines(300)
        try pool.close()
    }

    /// The rolled-back transaction leaves frames in the WAL. First a commit of another connection overwrites some of
    /// these frames, and then a commit of this connection overwrites further ones.
    @Test func `a large transaction that was taken back harms nobody`() throws {
        try pool.writeWithoutTransaction { db in try db.execute(sql: "PRAGMA cache_size = 5") }
        for round in 1...5 {
            try? pool.write { db in
                try add(100 * round, db)
                throw DatabaseError(resultCode: .SQLITE_ABORT)
            }
            try elsewhere { db in try add(3, db) }
            try pool.write { db in try add(2, db) }
            try expectLines(5 * round)
        }
        try pool.close()
    }

    @Test func `a checkpoint by another connection finds every page`() throws {
        try pool.write { db in try add(40, db) }
        let busy = try elsewhere { db in try Int.fetchOne(db, sql: "PRAGMA wal_checkpoint(TRUNCATE)") }
        #expect(busy == 0)
        try pool.write { db in try add(40, db) }
        try expectLines(80)
        try pool.close()
    }

    // MARK: The WAL's file grows ahead of the frames

    private static let growth: UInt64 = 512 * 1024

    private var logBytes: UInt64 {
        get throws {
            let attributes = try FileManager.default.attributesOfItem(atPath: folder.file("db") + "-wal")
            return (attributes[.size] as? UInt64) ?? 0
        }
    }

    private func cutLog() throws {
        let isBusy = try pool.writeWithoutTransaction { db in
            try Bool.fetchOne(db, sql: "PRAGMA wal_checkpoint(TRUNCATE)")
        }
        #expect(isBusy == false)
    }

    /// A sync takes twice as long if the WAL file has become longer. The file therefore grows in steps of half a
    /// mebibyte.
    @Test func `commits leave the size of the WAL as it is, until half a mebibyte is full`() throws {
        try cutLog()
        try pool.write { db in try add(1, db) }
        #expect(try logBytes == Self.growth)
        for _ in 0..<10 {
            try pool.write { db in try add(1, db) }
            #expect(try logBytes == Self.growth)
        }
        try pool.write { db in try add(300, db) }
        #expect(try logBytes == 2 * Self.growth)
        try cutLog()
        #expect(try logBytes == 0)
        try pool.write { db in try add(1, db) }
        #expect(try logBytes == Self.growth)
        try expectLines(312)
        try pool.close()
    }

    @Test func `what another connection wrote past the end stays`() throws {
        for round in 1...4 {
            try pool.write { db in try add(1, db) }
            // This transaction writes about two mebibytes.
            try elsewhere { db in
                try db.inTransaction {
                    try add(1000, db)
                    return .commit
                }
            }
            try pool.write { db in try add(1, db) }
            try expectLines(1002 * round)
        }
        try pool.close()
    }

    /// After a crash, the WAL contains zeros behind its frames. Recovery must not read the zeros as frames.
    @Test func `zeros behind the last frame are no frames`() throws {
        try pool.write { db in try add(7, db) }
        let copy = folder.file("copy")
        for suffix in ["", "-wal"] {
            try FileManager.default.copyItem(atPath: folder.file("db") + suffix, toPath: copy + suffix)
        }
        let queue = try DatabaseQueue(path: copy)
        let (count, sound) = try queue.read { db in
            (
                try Int.fetchOne(db, sql: "SELECT count(*) FROM line"),
                try String.fetchAll(db, sql: "PRAGMA integrity_check")
            )
        }
        #expect(count == 7)
        #expect(sound == ["ok"])
        try queue.close()
        try pool.close()
    }

    @Test func `a WAL that cannot grow ahead takes the commit all the same`() throws {
        try cutLog()
        // The commit writes the header, the zeros and the frames. The write of the zeros fails.
        script.arm(.diskFull, after: 1, failureCount: 1)
        try pool.write { db in try add(3, db) }
        #expect(script.writeCount == 3)
        #expect(try logBytes < Self.growth)
        try expectLines(3)
        try pool.close()
    }
}
