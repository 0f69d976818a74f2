// Implements the protocol `AccountStatistics` for every `SQLDatabase`, so a store only declares that it conforms.

package import Engine
package import Identity
package import JourneyModel

extension SQLDatabase {
    /// Returns the id of the newest audit entry; 0 if there is none.
    package func newestAuditID() async throws(StoreFailure) -> Int64 {
        try await read { db in try Int64.fetchOne(db, sql: "SELECT max(id) FROM audit") ?? 0 }
    }

    /// Counts the audit entries after `id` up to `last`, for each action and outcome. Leaves out entries whose action
    /// or outcome this version does not know.
    package func auditCounts(after id: Int64, through last: Int64) async throws(StoreFailure) -> [AuditCount] {
        try await read { db in
            let rows = try SQLRow.fetchAll(
                db,
                sql: "SELECT action, outcome, count(*) FROM audit WHERE id > ? AND id <= ? GROUP BY action, outcome",
                arguments: [id, last])
            var counts: [AuditCount] = []
            for row in rows {
                guard let action = try AuditAction(rawValue: row[0]), let outcome = try AuditOutcome(rawValue: row[1])
                else { continue }
                counts.append(AuditCount(action: action, outcome: outcome, count: try row[2]))
            }
            return counts
        }
    }

    /// Returns how much of each limit in `CodeSendUse.Limit` was used in the hour before `now`.
    package func codeSendUses(_ limits: CodeSendLimits, at now: Moment) async throws(StoreFailure) -> [CodeSendUse] {
        try await read { db in try CodeRows.uses(limits, at: now, db) }
    }

    package func waitingRevocations() async throws(StoreFailure) -> WaitingRevocations {
        try await read { db in
            guard let row = try SQLRow.fetchOne(db, sql: "SELECT count(*), min(created_at_ms) FROM apple_revocation")
            else { return WaitingRevocations(count: 0, oldest: nil) }
            return try WaitingRevocations(count: row[0], oldest: row[1])
        }
    }
}
