// The table `rebuild` in the new file of a rebuild (DatabaseRebuild). It records the state of the old file, because an
// interrupted rebuild may continue only if the old file is unchanged. The table is dropped when the finished database
// is first opened.

import GRDB

enum RebuildMark {
    /// Returns whether the new file has the table. A rebuild writes the table after it has copied all tables except
    /// `event` and `event_key`.
    static func exists(_ db: Database) throws -> Bool {
        try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM new.sqlite_schema WHERE name = 'rebuild')") ?? false
    }

    static func write(_ source: String, _ db: Database) throws {
        try db.execute(sql: "CREATE TABLE new.rebuild (source TEXT NOT NULL) STRICT")
        try db.execute(sql: "INSERT INTO new.rebuild (source) VALUES (?)", arguments: [source])
    }

    /// Returns whether the file at `path` is an unfinished copy of the old file in the state `source`
    /// (`DatabaseRebuild.fingerprint`). Returns false if this binary does not know all migrations of the copy.
    static func isOf(_ source: String, _ path: String) -> Bool {
        guard DatabaseCopy.exists(path), let queue = try? DatabaseQueue(path: path) else { return false }
        defer { try? queue.close() }
        let found = try? queue.read { db in
            try MigrationRun().requireDwell(db)
            return try String.fetchOne(db, sql: "SELECT source FROM rebuild")
        }
        return found == source
    }

    static func remove(_ path: String) throws {
        let queue = try DatabaseQueue(path: path)
        defer { try? queue.close() }
        try queue.write(remove)
    }

    static func remove(_ db: Database) throws {
        guard try db.tableExists("rebuild") else { return }
        try db.drop(table: "rebuild")
    }
}
