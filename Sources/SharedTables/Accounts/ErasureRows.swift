// The tombstones of deleted drivers, each with its receipt in the audit.

package import Identity
import JourneyModel

package enum ErasureRows {
    /// Returns all deletions, oldest first.
    package static func all(_ db: any SQLTransaction) throws -> [RecordedErasure] {
        // A tombstone and its receipt have only their time in common: one transaction writes both. If several receipts
        // have the same time, it is unknown which of them belongs to the tombstone. The deletion is then returned
        // without a receipt.
        try SQLRow.fetchAll(
            db,
            sql: """
                WITH receipt AS (
                    SELECT at_ms, CASE count(*) WHEN 1 THEN min(reason) END AS id
                    FROM audit WHERE action = 'erased' GROUP BY at_ms)
                SELECT driver_digest, erased_at_ms, receipt.id
                FROM erased_driver LEFT JOIN receipt ON receipt.at_ms = erased_at_ms
                ORDER BY erased_at_ms, driver_digest
                """
        ).map { row in try RecordedErasure(digest: row[0], at: row[1], receipt: row[2]) }
    }
}
