// `EventErasure` on SQLite. The driver's id is replaced by a pseudonym, and ErasureProgress rewrites the other rows in
// pieces.

package import Engine
import GRDB
package import SharedTables

extension SQLiteEventStore: EventErasure {
    /// Called before the transaction that begins a deletion. If that transaction also completes the deletion, the
    /// writer truncates the WAL while all requests wait. To shorten this wait, most of the WAL is copied into the
    /// database file here.
    package func prepareErasure() async { await copyWAL() }

    package func beginErasure(
        of driver: Int64, digest: [UInt8], pseudonym: String, _ db: any SQLTransaction
    ) throws {
        let db = try Database.of(db)
        try ErasureProgress.begin(driver, digest, db)
        try db.execute(
            sql: "UPDATE driver SET driver_id = ?1, last_correction_ms = NULL, clock_memory = NULL WHERE id = ?2",
            arguments: [pseudonym, driver])
    }

    /// Deletes the phone number's codes from `one_time_code`, the table that held the codes before migration 14.
    package func eraseOlderCodes(ofPhone digest: [UInt8], _ db: any SQLTransaction) throws {
        try db.execute(sql: "DELETE FROM one_time_code WHERE phone_digest = ?", arguments: [digest])
    }

    package func eraseFirstRows(of driver: Int64, _ db: any SQLTransaction) throws -> ChangeEffects {
        let db = try Database.of(db)
        guard var progress = try ErasureProgress(of: driver, db) else { return ChangeEffects() }
        var piece = try progress.advance(rowsMax: pace.rowsPerErasurePiece, mayComplete: true, db)
        piece.changesDrivers()
        return piece.effects
    }

    package func unfinishedErasures(_ digest: [UInt8]?, _ db: any SQLTransaction) throws -> [Int64] {
        try ErasureProgress.unfinished(digest, Database.of(db))
    }

    package func completeErasure(of driver: Int64) async throws(StoreFailure) {
        let rowsMax = pace.rowsPerErasurePiece
        var step: ErasureStep? = .audit
        while let next = step {
            // A server that stops must not wait for a long deletion. The next start of the server continues the
            // deletion.
            if Task.isCancelled { throw .cancelled }
            // The step `wal` rewrites no rows. After this step, the writer truncates the WAL while all requests wait.
            // To shorten this wait, most of the WAL is copied into the database file here.
            if next == .wal { await copyWAL() }
            let advance = { @Sendable (db: Database) throws -> ErasurePiece in
                var progress = try ErasureProgress(of: driver, db)
                return try progress?.advance(rowsMax: rowsMax, mayComplete: false, db) ?? ErasurePiece()
            }
            let piece = try await change(isPaced: next != .wal, effects: { $0.effects }, advance)
            step = piece.step
        }
    }
}
