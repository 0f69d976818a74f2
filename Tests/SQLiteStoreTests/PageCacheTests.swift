// Tests of the layer over SQLite's page cache. An ordinary transaction scans no page of the cache. If a transaction
// shrinks the database, the cache keeps none of the removed pages.

import CSQLiteVFS
import GRDB
import TestSupport
import Testing

@testable import SQLiteStore

struct PageCacheTests {
    private let folder: ScratchFolder
    private let queue: DatabaseQueue

    init() throws {
        // SQLite accepts options for the process only before its first use.
        try #require(DatabaseOpening.isConfigured)
        folder = try ScratchFolder()
        queue = try DatabaseQueue(path: folder.file("db"))
        try queue.write { db in
            try db.execute(sql: "CREATE TABLE item (name BLOB PRIMARY KEY, bytes BLOB) WITHOUT ROWID")
        }
    }

    private func insert(_ count: Int, _ random: inout SeededRandom, _ db: Database) throws {
        for _ in 0..<count {
            try db.execute(
                sql: "INSERT OR REPLACE INTO item VALUES (?, zeroblob(?))",
                arguments: [Int64.random(in: 0..<5_000, using: &random), Int.random(in: 0..<900, using: &random)])
        }
    }

    @Test func `a transaction that splits nodes truncates no cache`() throws {
        var random = SeededRandom(seed: 1)
        let before = dwell_page_cache_truncations()
        for _ in 0..<50 { try queue.write { db in try insert(60, &random, db) } }
        #expect(try queue.read { db in try Int.fetchOne(db, sql: "PRAGMA page_count") } ?? 0 > 100)
        #expect(dwell_page_cache_truncations() == before)
    }

    @Test(arguments: 0..<20 as Range<UInt64>)
    func `rollbacks, savepoints and vacuums leave the rows that were committed`(seed: UInt64) throws {
        struct Undone: Error {}
        var random = SeededRandom(seed: seed)
        var expected: [String] = []
        let rows = "SELECT hex(name) || length(bytes) FROM item ORDER BY name"
        for _ in 0..<40 {
            switch Int.random(in: 0..<6, using: &random) {
            case 0:
                try? queue.write { db in
                    try insert(200, &random, db)
                    throw Undone()
                }
            case 1:
                try queue.write { db in
                    try insert(20, &random, db)
                    try db.inSavepoint {
                        try insert(100, &random, db)
                        return .rollback
                    }
                }
            case 2: try queue.write { db in try db.execute(sql: "DELETE FROM item WHERE name % 3 = 0") }
            case 3: try queue.vacuum()
            default: try queue.write { db in try insert(60, &random, db) }
            }
            let found = try queue.read { db in try String.fetchAll(db, sql: rows) }
            // A new connection reads from the file. `queue` would read from its cache.
            expected = try DatabaseQueue(path: folder.file("db")).read { db in try String.fetchAll(db, sql: rows) }
            #expect(found == expected)
        }
        #expect(try queue.read { db in try String.fetchAll(db, sql: "PRAGMA integrity_check") } == ["ok"])
    }
}
