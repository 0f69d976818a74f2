// `EventErasure` on SQLite. `beginErasure` replaces the driver's id by a pseudonym. ErasureProgress rewrites the
// driver's other rows in pieces.

package import Engine
import GRDB
package import SharedTables

extension SQLiteEventStore: EventErasure {
    /// Copies most of the WAL into the database file, before a deletion begins. At the end of the deletion, all
    /// requests wait while the writer truncates the WAL. The copy shortens this wait.
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
        guard var progress = try ErasureProgress(of: driver, db) else {
            return ChangeEffects(keepsDriverCache: false)
        }
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
            // A stopping server must not wait for a long deletion. The deletion continues at the next start.
            if Task.isCancelled { throw .cancelled }
            // After the step `wal`, all requests wait while the writer truncates the WAL. To shorten this wait, most of
            // the WAL is copied into the database file now.
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
