// The schema of the database, for the server's first log line.

package import Engine
import GRDB

extension SQLiteEventStore {
    /// Returns the applied schema.
    ///
    /// - Parameter openedAtMilliseconds: the `nowMilliseconds` with which the store was opened. It identifies the
    ///   migrations that ran at that opening (`migrationsRun`).
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
