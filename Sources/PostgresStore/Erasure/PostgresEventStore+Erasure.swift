// `EventErasure` on PostgreSQL: replaces the id in the driver's row by a pseudonym. ErasureProgress rewrites the other
// rows in pieces.

package import Engine
package import JourneyModel
import Postgres
package import SharedTables

extension PostgresEventStore: EventErasure {
    package func prepareErasure() async {}

    /// Adds the driver's row and removes it again. The deletion therefore conflicts with a batch that adds the same
    /// driver at the same time.
    ///
    /// If the batch comes first, the deletion waits for it, fails with 40001, and is run again. If the deletion comes
    /// first, the batch waits, finds the tombstone, and removes the row that it has added (Events/ErasedDrivers.swift).
    package func collideWithAdding(_ driver: DriverID, at now: Moment, _ db: any SQLTransaction) throws {
        let row = try db.addDriver(driver, at: now)
        let removedCount = try db.execute(
            sql: "DELETE FROM driver WHERE id = ?1 AND lane = \(Lane.sql(ofDriver: "?1")) AND version = 0",
            arguments: [row])
        if removedCount == 0 {
            // The row belongs to a batch that came first. A single PostgreSQL server reports this conflict itself, but
            // a worker of Citus does not.
            throw PostgresError(.server(sqlState: SQLState.serializationFailure), "the driver was added meanwhile")
        }
        // Only Citus needs this statement: it makes the coordinator commit before the worker with the driver's row. The
        // reason is that the statement changes a reference table.
        //
        // As soon as the worker commits, a batch that waits for the row continues. The batch must then find the
        // tombstone, which is on the coordinator.
        try db.execute(sql: "DELETE FROM erasure WHERE driver = ?1", arguments: [row])
    }

    /// Replaces the ids in the rows of `driver` and `journey_base`, and raises the driver's version. A batch that has
    /// read the driver by its old id therefore writes nothing.
    package func beginErasure(
        of driver: Int64, digest: [UInt8], pseudonym: String, _ db: any SQLTransaction
    ) throws {
        let pseudonym = Lane.name(pseudonym, in: Lane.of(driver: driver))
        try ErasureProgress.begin(driver, digest, db)
        try db.execute(
            sql: """
                UPDATE driver SET driver_id = ?2, version = version + 1, last_correction_ms = NULL,
                    clock_memory = NULL, recent_changes = NULL, \(ErasedTexts.rewrittenJourney("driver"))
                WHERE id = ?1 AND lane = \(Lane.sql(ofDriver: "?1"))
                """, arguments: [driver, pseudonym])
        try db.execute(
            sql: """
                UPDATE journey_base SET \(ErasedTexts.rewrittenJourney("journey_base"))
                WHERE driver = ?1 AND lane = \(Lane.sql(ofDriver: "?1")) AND ?2 <> ''
                """, arguments: [driver, pseudonym])
    }

    package func eraseFirstRows(of driver: Int64, _ db: any SQLTransaction) throws -> ChangeEffects {
        var progress = try ErasureProgress(of: driver, db)
        _ = try progress?.advance(db)
        return ChangeEffects()
    }

    package func unfinishedErasures(_ digest: [UInt8]?, _ db: any SQLTransaction) throws -> [Int64] {
        try ErasureProgress.unfinished(digest, db)
    }

    package func completeErasure(of driver: Int64) async throws(StoreFailure) {
        var isComplete = false
        while !isComplete {
            // An instance that stops must not wait for a long deletion. Another instance continues the deletion, or
            // this one at its next start.
            if Task.isCancelled { throw .cancelled }
            isComplete = try await change { db in
                var progress = try ErasureProgress(of: driver, db)
                return try progress?.advance(db) ?? true
            }
        }
    }

    /// Does nothing, because the store cannot make PostgreSQL overwrite removed bytes. In a table, they stay until
    /// VACUUM has freed the space and other rows are written there. In the WAL, they stay until the WAL is recycled.
    package func finishRemoval(within timeout: Duration) async -> Bool { true }
}
