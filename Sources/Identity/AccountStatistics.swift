// Numbers about accounts, for metrics and the operator page.

package import JourneyModel

package protocol AccountStatistics: Sendable {
    /// Returns the id of the newest audit entry; 0 when there is none yet.
    func newestAuditID() async throws -> Int64

    /// Returns the counts of the audit entries after `id`. Entries whose action or outcome is unknown to this version
    /// are left out.
    func auditCounts(after id: Int64) async throws -> AuditCounts

    /// Returns the used share of each limit. Counts the codes that were sent in the hour before `now`.
    func codeSendUses(_ limits: CodeSendLimits, at now: Moment) async throws -> [CodeSendUse]

    func waitingRevocations() async throws -> WaitingRevocations
}

/// Counts of audit entries by action and outcome.
package struct AuditCounts: Sendable {
    package var newestID: Int64
    package var counts: [(action: AuditAction, outcome: AuditOutcome, count: Int)]

    package init(newestID: Int64, counts: [(action: AuditAction, outcome: AuditOutcome, count: Int)]) {
        (self.newestID, self.counts) = (newestID, counts)
    }
}

/// The revocations that Apple has not confirmed yet: their number, and the time of the oldest one.
package struct WaitingRevocations: Hashable, Sendable {
    package var count: Int
    /// The time when the oldest revocation was stored; nil if the queue is empty.
    package var oldest: Moment?

    package init(count: Int, oldest: Moment?) {
        (self.count, self.oldest) = (count, oldest)
    }
}
