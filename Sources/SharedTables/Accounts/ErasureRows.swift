// The tombstones of deleted drivers. Each deletion also has a receipt in the audit.

package import Identity
import JourneyModel

package enum ErasureRows {
    /// The number of tombstones that one query looks up.
    private static let lookedUpTogether = 500

    /// Returns the times of deletion, by the digests of the drivers' ids.
    static func times(of digests: [[UInt8]], _ db: any SQLTransaction) throws -> [[UInt8]: Moment] {
        let marks = repeatElement("?", count: lookedUpTogether).joined(separator: ", ")
        var times: [[UInt8]: Moment] = [:]
        for start in stride(from: 0, to: digests.count, by: lookedUpTogether) {
            let part = digests[start..<min(start + lookedUpTogether, digests.count)]
            // The last part is filled up with copies of one digest, so that all parts use the same SQL statement.
            let asked = part + repeatElement(digests[start], count: lookedUpTogether - part.count)
            let rows = try SQLRow.fetchAll(
                db, sql: "SELECT driver_digest, erased_at_ms FROM erased_driver WHERE driver_digest IN (\(marks))",
                arguments: SQLArguments(asked.map(\.sqlValue)))
            for row in rows { times[try row[0]] = try row[1] as Moment }
        }
        return times
    }

    /// Returns all deletions, oldest first.
    package static func all(_ db: any SQLTransaction) throws -> [RecordedErasure] {
        // One transaction writes a tombstone and its receipt, so both have the same time. Nothing else connects them.
        // If several receipts have the same time, the deletions of that time are returned without a receipt.
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
