// Tests the table of idempotency keys. Its hashes have only a few bits here, so most keys collide.

import Foundation
import GRDB
import TestSupport
import Testing

@testable import SQLiteStore

struct EventKeyTableTests {
    private let folder: ScratchFolder
    private let queue: DatabaseQueue

    init() throws {
        folder = try ScratchFolder()
        try DatabaseOpening.open(path: folder.file("db"), nowMilliseconds: 0).close()
        queue = try DatabaseQueue(path: folder.file("db"))
    }

    private func insert(_ id: Int64, _ key: String, of driver: Int64, _ keys: EventKeyTable, _ db: Database) throws {
        try db.execute(
            sql: """
                INSERT INTO event_row (id, driver, corrected_at_ms, kind, settings_version, received_offset_ms, transition,
                    implied, after_state, key, digest, occurred_offset_ms, skew_ms)
                VALUES (?, ?, 0, 1, 1, 0, 0, 0, 0, ?, zeroblob(16), 0, 0)
                """, arguments: [id, driver, StoredKey(key).databaseValue])
        try keys.add(id, under: StoredKey(key), of: driver)
    }

    private func find(_ key: String, of driver: Int64, _ keys: EventKeyTable, _ db: Database) throws -> Int64? {
        let stored = StoredKey(key)
        let sql = "SELECT 1 FROM event WHERE id = ? AND driver = ? AND key = ?"
        let found = try keys.first(from: keys.hash.place(of: stored, of: driver)) { (event) throws(SQLiteError) in
            do {
                let isFound = try Bool.fetchOne(db, sql: sql, arguments: [event, driver, stored.databaseValue])
                return isFound == true ? event : nil
            } catch {
                throw SQLiteError(error)
            }
        }
        let listed = try Int64.fetchOne(
            db,
            sql: """
                \(EventKeyTable.listedSQL)
                SELECT event.id FROM listed CROSS JOIN event ON event.id = listed.event WHERE driver = ?2 AND key = ?3
                """,
            arguments: [try EventKeyHash(db).place(of: stored, of: driver), driver, stored.databaseValue])
        #expect(listed == found, "the writer and the readers find the same")
        return found
    }

    @Test(arguments: [1, 3, 5, 8, 24], [1, 2, 3])
    func `after additions and removals, exactly the events that are left are found`(bits: Int, seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        try queue.write { db in
            try db.execute(sql: "UPDATE event_key_hash SET bits = ?", arguments: [bits])
            let keys = try EventKeyTable(db)
            var stored: [Int64: (key: String, driver: Int64)] = [:]
            var removed: [(key: String, driver: Int64)] = []
            for id in Int64(1)...60 {
                // Both drivers use some of the same keys.
                let key = Bool.random(using: &random) ? "key-\(id / 2)" : UUID().uuidString.lowercased()
                try insert(id, key, of: id % 2, keys, db)
                stored[id] = (key, id % 2)
                guard Int.random(in: 0..<3, using: &random) > 0 else { continue }
                guard let gone = stored.keys.sorted().randomElement(using: &random) else { continue }
                try keys.remove(gone)
                try db.execute(sql: "DELETE FROM event_row WHERE id = ?", arguments: [gone])
                if let event = stored.removeValue(forKey: gone) { removed.append(event) }
                for (id, event) in stored { #expect(try find(event.key, of: event.driver, keys, db) == id) }
            }
            for event in removed { #expect(try find(event.key, of: event.driver, keys, db) == nil) }
            #expect(try Int64.fetchSet(db, sql: "SELECT number FROM event_key") == Set(stored.keys))
            #expect(try Int.fetchOne(db, sql: "SELECT count(*) FROM event_key") == stored.count)
            var problems: [String] = []
            var check = try #require(try KeyCheck(db))
            _ = try check.examine(limit: 1000, &problems, db)
            #expect(problems == [])
            for id in stored.keys {
                try keys.remove(id)
                try db.execute(sql: "DELETE FROM event_row WHERE id = ?", arguments: [id])
            }
            #expect(try Int.fetchOne(db, sql: "SELECT count(*) FROM event_key") == 0)
        }
    }

    @Test(arguments: [2, 24])
    func `a driver's second event with a key is refused`(bits: Int) throws {
        try queue.write { db in
            try db.execute(sql: "UPDATE event_key_hash SET bits = ?", arguments: [bits])
            let keys = try EventKeyTable(db)
            for id in Int64(1)...5 { try insert(id, "k\(id)", of: 1, keys, db) }
            try insert(6, "k3", of: 2, keys, db)
            let error = #expect(throws: SQLiteError.self) { try keys.add(7, under: StoredKey("k3"), of: 1) }
            #expect(error?.isAboutOneStatement == true)
        }
    }

    @Test func `the place depends on the secret, the driver and the key, and is near the driver's other places`() throws
    {
        try queue.write { db in
            let one = try EventKeyHash(db)
            #expect(one.place(of: StoredKey("k"), of: 1) == one.place(of: StoredKey("k"), of: 1))
            #expect(one.place(of: StoredKey("k"), of: 1) != one.place(of: StoredKey("l"), of: 1))
            let (first, second) = (one.place(of: StoredKey("k"), of: 1), one.place(of: StoredKey("k"), of: 2))
            #expect(first != second - 1 << 24, "another driver's keys have other hashes")
            for driver in [0, 1, 70_000] as [Int64] {
                let places = (0..<1000).map { one.place(of: StoredKey("k\($0)"), of: driver) }
                #expect(places.allSatisfy { $0 >> 24 == driver })
                #expect(Set(places).count > 990)
            }
            try db.execute(sql: "UPDATE event_key_hash SET secret = randomblob(16)")
            #expect(try EventKeyHash(db).place(of: StoredKey("k"), of: 1) != first)
        }
    }

    @Test(arguments: [1 << 38, 1 << 39, .max] as [Int64])
    func `the largest row numbers of drivers have places`(driver: Int64) throws {
        try queue.write { db in
            let keys = try EventKeyTable(db)
            let hash = try EventKeyHash(db)
            #expect((0...Int64.max >> 1).contains(hash.place(of: StoredKey("k"), of: driver)))
            try insert(1, "k", of: driver, keys, db)
            try insert(2, "k", of: driver & (1 << 38 - 1), keys, db)
            #expect(try find("k", of: driver, keys, db) == 1)
            #expect(try find("k", of: driver & (1 << 38 - 1), keys, db) == 2)
        }
    }
}
