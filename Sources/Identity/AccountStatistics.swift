// Numbers about accounts, for metrics and the operator page.

package import JourneyModel

package protocol AccountStatistics: Sendable {
    /// An audit entry may become visible up to this many milliseconds after an entry with a higher id. 0 if entries
    /// become visible in the order of their ids.
    var auditSettlesMilliseconds: Int64 { get }

    /// Returns the id of the newest audit entry; 0 when there is none yet.
    func newestAuditID() async throws -> Int64

    /// Counts the audit entries with ids greater than `id` and at most `last`, by action and outcome. Ignores entries
    /// whose action or outcome this version does not know.
    func auditCounts(after id: Int64, through last: Int64) async throws -> [AuditCount]

    /// Returns how much of each limit on sent codes was used in the hour before `now`.
    func codeSendUses(_ limits: CodeSendLimits, at now: Moment) async throws -> [CodeSendUse]

    func waitingRevocations() async throws -> WaitingRevocations
}

/// The number of audit entries with one action and outcome.
package struct AuditCount: Hashable, Sendable {
    package var action: AuditAction
    package var outcome: AuditOutcome
    package var count: Int

    package init(action: AuditAction, outcome: AuditOutcome, count: Int) {
        (self.action, self.outcome, self.count) = (action, outcome, count)
    }
}

/// The revocations that Apple has not confirmed yet.
package struct WaitingRevocations: Hashable, Sendable {
    package var count: Int
    /// The time when the oldest revocation was stored; nil if the queue is empty.
    package var oldest: Moment?

    package init(count: Int, oldest: Moment?) {
        (self.count, self.oldest) = (count, oldest)
    }
}
