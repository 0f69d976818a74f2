// Tests that the files in `migrations/`, the binary's migrations and the migrated database agree. The binary rejects a
// database with migrations that it does not know.

import Engine
import Foundation
import GRDB
import Testing

@testable import SQLiteStore

struct MigrationTests {
    /// The directory `migrations` at the top of the repository.
    private static let folder = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appendingPathComponent("migrations")

    @Test func `the binary carries the folder, file by file`() throws {
        let files = try FileManager.default.contentsOfDirectory(atPath: Self.folder.path)
            .filter { $0.hasSuffix(".sql") && $0 != "schema.sql" }.sorted()
        let carried = Migration.all.map { migration in
            let number = String(migration.number)
            return String(repeating: "0", count: 4 - number.count) + number + "_\(migration.name).sql"
        }
        #expect(carried == files)
        #expect(Migration.all.map(\.number) == Array(1...files.count))
        for (migration, file) in zip(Migration.all, files) {
            let text = try String(contentsOf: Self.folder.appendingPathComponent(file), encoding: .utf8)
            #expect(migration.sql == text, "\(file)")
        }
    }

    @Test func `a fresh database is the snapshot`() async throws {
        let scratch = try ScratchFolder()
        let pool = try DatabaseOpening.open(path: scratch.file("db"), nowMilliseconds: 0)
        let statements = try await pool.read { db in
            try String.fetchAll(
                db,
                sql: """
                    SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY rowid
                    """)
        }
        let snapshot = try String(contentsOf: Self.folder.appendingPathComponent("schema.sql"), encoding: .utf8)
        let made = statements.map { "\n\($0);\n" }.joined()
        let body = snapshot.split(separator: "\n", omittingEmptySubsequences: false)
            .drop { $0.hasPrefix("--") }.joined(separator: "\n")
        #expect(body == made, "migrations/schema.sql should be:\n\(made)")
        try pool.close()
    }

    @Test func `what was applied is recorded, and opening again changes nothing`() throws {
        let scratch = try ScratchFolder()
        try DatabaseOpening.open(path: scratch.file("db"), nowMilliseconds: 5).close()
        try DatabaseOpening.open(path: scratch.file("db"), nowMilliseconds: 6).close()
        let status = try DatabaseOpening.status(path: scratch.file("db"))
        #expect(status == Migration.all.map { .init(number: $0.number, name: $0.name, appliedAtMilliseconds: 5) })
    }

    @Test func `a database newer than the binary is refused`() throws {
        let scratch = try ScratchFolder()
        let next = Migration.all.count + 1
        let newer = MigrationRun(Migration.all + [Migration(number: next, name: "next", sql: "SELECT 1")])
        try DatabaseOpening.open(path: scratch.file("db"), migrations: newer, nowMilliseconds: 0).close()
        #expect(throws: MigrationRefusal.databaseIsNewer(applied: next, known: next - 1)) {
            try DatabaseOpening.open(path: scratch.file("db"), nowMilliseconds: 0)
        }
    }

    @Test func `a migration that was edited after it was applied is refused`() throws {
        let scratch = try ScratchFolder()
        try DatabaseOpening.open(path: scratch.file("db"), nowMilliseconds: 0).close()
        var edited = Migration.all
        edited[0].sql += "\n-- one more line"
        #expect(throws: MigrationRefusal.migrationWasEdited(number: 1, name: "events")) {
            try DatabaseOpening.open(
                path: scratch.file("db"), migrations: MigrationRun(edited), nowMilliseconds: 0)
        }
    }

    @Test(arguments: [
        "CREATE TABLE half (id INTEGER) STRICT; SELECT no_such_function()",
        "CREATE TABLE half (id INTEGER REFERENCES driver (id)) STRICT; INSERT INTO half VALUES (7)",
    ])
    func `a migration that fails, or breaks a foreign key, leaves nothing behind`(_ sql: String) throws {
        let scratch = try ScratchFolder()
        let failing = Migration(number: Migration.all.count + 1, name: "failing", sql: sql)
        #expect(throws: (any Error).self) {
            try DatabaseOpening.open(
                path: scratch.file("db"), migrations: MigrationRun(Migration.all + [failing]), nowMilliseconds: 0)
        }
        let queue = try DatabaseQueue(path: scratch.file("db"))
        #expect(try queue.read { db in try db.tableExists("half") } == false)
        #expect(try DatabaseOpening.status(path: scratch.file("db")).count == Migration.all.count)
    }

    /// `sha256sum` prints this digest for an empty file.
    @Test func `the checksum is SHA-256`() {
        let empty = Migration(number: 1, name: "empty", sql: "")
        #expect(empty.checksum == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
    }
}
