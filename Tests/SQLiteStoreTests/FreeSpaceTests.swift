// Tests that the unallocated space of database pages contains nothing of removed rows, and that the rest of each page
// does not change. A second database, without Dwell's VFS, shows what SQLite alone leaves.

import CSQLiteVFS
import Foundation
import GRDB
import GRDBSQLite
import TestSupport
import Testing

@testable import SQLiteStore

struct FreeSpaceTests {
    /// Which connection copies the WAL into the database file.
    enum Copying: CaseIterable {
        case writer
        case checkpointer
    }

    struct Format: Sendable, CustomTestStringConvertible {
        var pageBytes: Int
        var reservedBytes: Int32 = 0
        var autoVacuum = "NONE"
        var testDescription: String { "\(pageBytes) bytes, \(reservedBytes) reserved, auto_vacuum \(autoVacuum)" }
    }

    static let formats = [
        Format(pageBytes: 512), Format(pageBytes: 512, reservedBytes: 32), Format(pageBytes: 1024),
        Format(pageBytes: 4096), Format(pageBytes: 4096, reservedBytes: 8), Format(pageBytes: 65536),
        Format(pageBytes: 65536, reservedBytes: 255), Format(pageBytes: 1024, autoVacuum: "FULL"),
        Format(pageBytes: 512, autoVacuum: "INCREMENTAL"),
    ]

    private let folder: ScratchFolder

    init() throws {
        // SQLite accepts options for the process only before its first use.
        try #require(DatabaseOpening.isConfigured)
        folder = try ScratchFolder()
    }

    private func open(_ name: String, _ format: Format) throws -> DatabaseQueue {
        let queue = try DatabaseQueue(path: folder.file(name))
        try queue.writeWithoutTransaction { db in
            var reserved = format.reservedBytes
            #expect(sqlite3_file_control(db.sqliteConnection, "main", SQLITE_FCNTL_RESERVE_BYTES, &reserved) == 0)
            for pragma in [
                "page_size = \(format.pageBytes)", "auto_vacuum = \(format.autoVacuum)", "journal_mode = WAL",
                "synchronous = OFF", "secure_delete = ON", "wal_autocheckpoint = 0",
            ] { _ = try Row.fetchAll(db, sql: "PRAGMA \(pragma)") }
            try db.execute(
                sql: """
                    CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, bytes BLOB);
                    CREATE INDEX item_by_name ON item (name);
                    CREATE INDEX item_by_bytes ON item (bytes, name);
                    CREATE TABLE word (name TEXT PRIMARY KEY, bytes BLOB) WITHOUT ROWID;
                    """)
        }
        return queue
    }

    private func wal(_ queue: DatabaseQueue, _ mode: String) throws {
        try queue.writeWithoutTransaction { db in
            let row = try #require(try Row.fetchOne(db, sql: "PRAGMA wal_checkpoint(\(mode))"))
            #expect(row[0] == 0 && row[1] == row[2] as Int)
        }
    }

    /// Returns the statements of one transaction. No name is used twice, so a removed name must be nowhere in the file.
    ///
    /// Each blob repeats one byte sequence. Most of these sequences look like the beginning of a b-tree page. Some
    /// blobs are longer than a page.
    private func change(_ count: Int, _ next: inout Int, _ pageBytes: Int, _ random: inout SeededRandom) -> [String] {
        var statements: [String] = []
        for _ in 0..<count {
            let id = Int.random(in: 0..<600, using: &random)
            let name = "'~name\(next)\(String(repeating: "n", count: Int.random(in: 0..<60, using: &random)))~'"
            let lengths = [0..<8, 0..<8, 0..<60, 0..<400, 0..<(3 * min(pageBytes, 8192))]
            let length = Int.random(in: lengths.randomElement(using: &random) ?? 0..<1, using: &random)
            let byte = ["00", "02", "05", "0A", "0D", "0D00000000"].randomElement(using: &random) ?? ""
            let blob = "X'\(String(repeating: byte, count: length / (byte.count / 2)))'"
            next += 1
            switch Int.random(in: 0..<8, using: &random) {
            case 0: statements.append("DELETE FROM item WHERE id BETWEEN \(id) AND \(id + 3)")
            case 1: statements.append("DELETE FROM word WHERE bytes < \(blob) OR length(name) = \(id % 60 + 10)")
            case 2: statements.append("UPDATE item SET name = \(name) WHERE id = \(id)")
            case 3: statements.append("UPDATE item SET bytes = \(blob) WHERE id % 97 = \(id % 97)")
            case 4: statements.append("INSERT INTO word VALUES (\(name), \(blob))")
            default: statements.append("INSERT OR REPLACE INTO item VALUES (\(id), \(name), \(blob))")
            }
        }
        return statements
    }

    private static let names = "SELECT name FROM item UNION SELECT name FROM word"
    private static let rows = """
        SELECT id || name || hex(bytes) FROM item UNION ALL SELECT name || hex(bytes) FROM word ORDER BY 1
        """

    /// Returns the names that the file contains in full. A name that continues on an overflow page is not found.
    private func names(in file: String) throws -> Set<String> {
        let bytes = [UInt8](try Data(contentsOf: URL(fileURLWithPath: folder.file(file))))
        let parts = bytes.split(separator: UInt8(ascii: "~"))
        let names = parts.filter { part in
            part.count < 80 && part.starts(with: "name".utf8)
                && part.dropFirst(4).drop { (48..<58).contains($0) }.allSatisfy { $0 == UInt8(ascii: "n") }
        }
        return Set(names.map { "~\(String(decoding: $0, as: UTF8.self))~" })
    }

    @Test(arguments: formats, Copying.allCases)
    func `a file whose free space is cleared has the rows of its twin and none that were removed`(
        format: Format, copying: Copying
    ) throws {
        let (queue, twin) = (try open("db", format), try open("twin", format))
        let copier = try DatabaseQueue(path: folder.file("db"))
        try (copying == .writer ? queue : copier).writeWithoutTransaction { db in
            _ = try Row.fetchAll(db, sql: "SELECT 1 FROM sqlite_schema")
            let connection = try #require(db.sqliteConnection)
            switch copying {
            case .writer: #expect(dwell_join_log_writes(connection) == SQLITE_OK)
            case .checkpointer: #expect(dwell_step_writes(connection, 7, { _, _ in 3 }, nil) == SQLITE_OK)
            }
        }
        var random = SeededRandom(seed: UInt64(format.pageBytes) + UInt64(format.reservedBytes))
        var next = 0
        var leftInTwin: Set<String> = []
        for _ in 0..<10 {
            let statements = change(120, &next, format.pageBytes, &random)
            for queue in [queue, twin] {
                try queue.write { db in for statement in statements { try db.execute(sql: statement) } }
            }
            try wal(copying == .writer ? queue : copier, "PASSIVE")
            try wal(twin, "PASSIVE")
            let rows = try twin.read { db in try String.fetchAll(db, sql: Self.rows) }
            #expect(try queue.read { db in try String.fetchAll(db, sql: Self.rows) } == rows)
            // A fresh connection reads the file, without this connection's cache.
            let fresh = try DatabaseQueue(path: folder.file("db"))
            #expect(try fresh.read { db in try String.fetchAll(db, sql: Self.rows) } == rows)
            try fresh.close()
            let names = try queue.read { db in try String.fetchSet(db, sql: Self.names) }
            leftInTwin.formUnion(try self.names(in: "twin").subtracting(names))
            if format.autoVacuum == "NONE" {
                let left = try self.names(in: "db").subtracting(names)
                #expect(left == [])
            }
        }
        // On pages of 512 bytes, most names continue on an overflow page, and `names(in:)` does not find such names.
        if format.pageBytes > 512 { #expect(leftInTwin != [], "SQLite alone leaves removed names") }
        #expect(try copier.read { db in try String.fetchAll(db, sql: "PRAGMA integrity_check") } == ["ok"])
        try copier.close()
        try queue.close()
        try twin.close()
        let bytes = try Data(contentsOf: URL(fileURLWithPath: folder.file("db")))
        let expected = try Data(contentsOf: URL(fileURLWithPath: folder.file("twin")))
        #expect(bytes.count == expected.count)
        let changed = zip(bytes, expected).filter { $0 != $1 }
        // In a file with auto_vacuum, every page stays as it is.
        #expect(changed.isEmpty == (format.autoVacuum != "NONE"))
        #expect(changed.allSatisfy { byte, _ in byte == 0 })
    }
}
