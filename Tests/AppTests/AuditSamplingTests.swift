// Tests of the metric that counts audit entries. On PostgreSQL, an entry may become visible after entries with higher
// ids. Each entry must still be counted once.

import Identity
import JourneyModel
import PrometheusExport
import Synchronization
import TestSupport
import Testing

@testable import App

@Suite struct AuditSamplingTests {
    /// An audit whose entries all have the same action and outcome.
    private final class ScriptedAudit: AccountStatistics {
        let auditSettlesMilliseconds: Int64
        private let visible = Mutex<Set<Int64>>([1, 2])

        init(settlesMilliseconds: Int64) {
            auditSettlesMilliseconds = settlesMilliseconds
        }

        func show(_ id: Int64) { visible.withLock { ids in _ = ids.insert(id) } }
        func delete(_ id: Int64) { visible.withLock { ids in _ = ids.remove(id) } }

        func newestAuditID() async throws -> Int64 { visible.withLock { ids in ids.max() ?? 0 } }

        func auditCounts(after id: Int64, through last: Int64) async throws -> [AuditCount] {
            let count = visible.withLock { ids in ids.filter { $0 > id && $0 <= last }.count }
            return count == 0 ? [] : [AuditCount(action: .refresh, outcome: .done, count: count)]
        }

        func codeSendUses(_ limits: CodeSendLimits, at now: Moment) async throws -> [CodeSendUse] { [] }
        func waitingRevocations() async throws -> WaitingRevocations { WaitingRevocations(count: 0, oldest: nil) }
    }

    private let clock = ManualClock()
    private let metrics = PrometheusMetrics()

    private func sampling(_ audit: ScriptedAudit) -> AuditSampling {
        AuditSampling(store: audit, factory: metrics, clock: { [clock] in clock.now.millisecondsSinceEpoch })
    }

    /// The value of the counter; 0 before it is first incremented.
    private var counted: Int {
        metrics.text().split(separator: "\n")
            .first { $0.hasPrefix(#"dwell_auth_total{action="refresh",outcome="done"} "#) }
            .flatMap { $0.split(separator: " ").last }.flatMap { Int($0) } ?? 0
    }

    @Test func `an entry that becomes visible after one with a higher id is counted once`() async {
        let audit = ScriptedAudit(settlesMilliseconds: 10_000)
        let sampling = sampling(audit)
        await sampling.sample()
        audit.show(4)
        clock.advance(bySeconds: 15)
        await sampling.sample()
        audit.show(3)
        audit.show(6)
        clock.advance(bySeconds: 9)
        await sampling.sample()
        #expect(counted == 0)
        clock.advance(bySeconds: 1)
        await sampling.sample()
        #expect(counted == 2)
        audit.show(5)
        clock.advance(bySeconds: 10)
        await sampling.sample()
        #expect(counted == 4)
        for _ in 0..<3 {
            clock.advance(bySeconds: 15)
            await sampling.sample()
        }
        #expect(counted == 4)
    }

    @Test func `entries that become visible in the order of their ids are counted at once`() async {
        let audit = ScriptedAudit(settlesMilliseconds: 0)
        let sampling = sampling(audit)
        await sampling.sample()
        #expect(counted == 0)
        audit.show(3)
        audit.show(4)
        await sampling.sample()
        #expect(counted == 2)
        audit.delete(4)
        await sampling.sample()
        audit.show(4)
        audit.show(5)
        await sampling.sample()
        #expect(counted == 3)
    }
}
