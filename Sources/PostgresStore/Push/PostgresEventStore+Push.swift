// The part of `PushStore` that reads PostgreSQL's tables of events. SharedTables implements the rest.

package import Engine
package import JourneyModel
package import Push
package import SharedTables

extension PostgresEventStore: PushTables {
    package func newestPosition(_ db: any SQLTransaction) throws -> Int64 {
        try Int64.fetchOne(db, sql: "SELECT max(position) FROM event WHERE position < \(EventPosition.end)") ?? 0
    }

    package func pushChanges(after id: Int64, since: Moment) async throws(StoreFailure) -> PushChanges {
        let end = try await settledEnd()
        let areDistributed = try await shards().areDistributed
        return try await read { db in
            try PushChangeRows.changes(after: id, before: end, since: since, areDistributed: areDistributed, db)
        }
    }
}
