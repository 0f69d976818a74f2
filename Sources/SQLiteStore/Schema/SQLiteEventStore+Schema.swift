// The schema of the database, for the server's first log line.

package import Engine
import GRDB

package struct AppliedSchema: Hashable, Sendable {
    /// The number of the newest migration.
    package var number: Int
    /// The migrations that ran when the store was opened, by file name, in order.
    package var migrationsRun: [String]
}

extension SQLiteEventStore {
    /// Returns the applied schema.
    ///
    /// - Parameter openedAtMilliseconds: the `nowMilliseconds` with which the store was opened.
    package func schema(openedAtMilliseconds: Int64) async throws(StoreFailure) -> AppliedSchema {
        try await read { db in
            let rows = try Row.fetchAll(
                db, sql: "SELECT number, name, applied_at_ms FROM schema_migration ORDER BY number")
            return AppliedSchema(
                number: rows.last.map { $0[0] } ?? 0,
                migrationsRun: rows.filter { $0[2] == openedAtMilliseconds }.map { $0[1] })
        }
    }
}
