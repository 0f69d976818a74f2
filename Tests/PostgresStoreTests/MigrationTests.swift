// Tests of the migrations. The binary contains the migrations of `migrations/postgresql/`, and each migration runs
// once. A database of another version is refused.

import Foundation
import TestSupport
import Testing

@testable import PostgresStore

struct MigrationTests {
    @Test func `the binary has the files of the folder, in order`() throws {
        let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../migrations/postgresql")
            .standardized
        let files = try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
        #expect(
            files
                == PostgresMigration.all.map { migration in
                    let digits = String(migration.number)
                    return String(repeating: "0", count: 4 - digits.count) + digits + "_\(migration.name).sql"
                })
        for (file, migration) in zip(files, PostgresMigration.all) {
            #expect(try String(contentsOf: folder.appending(path: file), encoding: .utf8) == migration.sql)
        }
    }

    @Test func `several instances that start at once migrate once`() async throws {
        let database = try await StoreFixture.emptyDatabase()
        let ran = try await withThrowingTaskGroup(of: [Int64].self) { group in
            for _ in 0..<4 { group.addTask { try await database.migrate() } }
            return try await group.reduce([], +)
        }
        #expect(ran == PostgresMigration.all.map(\.number))
        let rows = try await database.rows("SELECT number, name, sha256, applied_at_ms FROM schema_migration")
        #expect(rows == PostgresMigration.all.map { "\($0.number)|\($0.name)|\($0.checksum)|1" })
    }

    @Test func `a newer, an edited and another program's database are refused and left alone`() async throws {
        let newest = PostgresMigration.all.count
        let next = PostgresMigration(number: Int64(newest) + 1, name: "next", sql: "CREATE TABLE next (id int8)")
        let database = try await StoreFixture.database()
        #expect(try await database.migrate(PostgresMigrationRun(PostgresMigration.all + [next])) == [next.number])
        await #expect(
            throws: PostgresMigrationRefusal.databaseIsNewer(applied: next.number, known: Int64(newest))
        ) { try await database.migrate() }

        var edited = PostgresMigration.all
        edited[0].sql += " "
        await #expect(throws: PostgresMigrationRefusal.migrationWasEdited(number: 1, name: "events")) {
            try await database.migrate(PostgresMigrationRun(edited + [next]))
        }

        let other = try await StoreFixture.emptyDatabase()
        _ = try await other.rows("CREATE TABLE invoice (id int8)")
        await #expect(throws: PostgresMigrationRefusal.notDwell) { try await other.migrate() }
        #expect(try await other.rows("SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()") == ["1"])
    }

    @Test func `tables of an extension do not make a database another program's`() async throws {
        let database = try await StoreFixture.emptyDatabase()
        // PostGIS owns a table of this name. PostGIS is not always installed, so the test makes another extension own
        // the table.
        _ = try await database.rows("CREATE TABLE spatial_ref_sys (srid int4)")
        _ = try await database.rows("ALTER EXTENSION plpgsql ADD TABLE spatial_ref_sys")
        #expect(try await database.migrate() == PostgresMigration.all.map(\.number))
        #expect(try await database.migrate() == [])
    }

    @Test func `a migration that fails leaves the database as it was`() async throws {
        let database = try await StoreFixture.database()
        let next = Int64(PostgresMigration.all.count) + 1
        let failing = PostgresMigration(
            number: next, name: "bad", sql: "CREATE TABLE kept (id int8);\nSELECT nothing;\n")
        await #expect(throws: PostgresMigrationRefusal.self) {
            try await database.migrate(PostgresMigrationRun(PostgresMigration.all + [failing]))
        }
        #expect(
            try await database.rows("SELECT to_regclass('kept') IS NULL, max(number) FROM schema_migration")
                == ["t|\(next - 1)"])
        #expect(try await database.migrate() == [])
    }
}
