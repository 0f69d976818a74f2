// What notifications need from SQLite's tables of events. SharedTables implements the rest of `PushStore`.

package import Engine
import GRDB
package import JourneyModel
package import Push
package import SharedTables

extension SQLiteEventStore: PushTables {
    package func newestPosition(_ db: any SQLTransaction) throws -> Int64 {
        try Int64.fetchOne(db, sql: "SELECT max(id) FROM event") ?? 0
    }

    package func pushChanges(after id: Int64, since: Moment) async throws(StoreFailure) -> PushChanges {
        try await read { (db: Database) in try PushChangeRows.changes(after: id, since: since, db) }
    }
}
