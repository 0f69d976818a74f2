// Counts production purchases by status for the operator page, by repeated passes over the facts of all drivers. A pass
// works at most a twentieth of the time, however many drivers there are. Sandbox purchases are not counted.

package import JourneyModel
import Synchronization

package struct PurchaseTotals: Hashable, Sendable {
    package var active = 0
    package var grace = 0
    package var billingRetry = 0
    /// Since midnight, UTC.
    package var refundsToday = 0

    package init() {}

    /// Adds one driver's purchases. Valid consumables and non-consumables count as active.
    mutating func add(_ facts: PurchaseFacts, at now: Moment) {
        for entitlement in facts.entitlements(at: now) where entitlement.environment == .production {
            switch entitlement.status {
            case .active: active += 1
            case .grace: grace += 1
            case .billingRetry: billingRetry += 1
            case .expired, .revoked, .refunded: break
            }
        }
        let midnight = now.floored(toSeconds: 86_400)
        refundsToday += facts.transactions.values.count { fact in
            guard fact.environment == .production, let revocation = fact.revocation else { return false }
            return revocation.kind == .refund && revocation.date >= midnight
        }
    }
}

/// The facts of some drivers, and the start of the next page; nil for the last page.
package struct PurchasePage: Sendable {
    package var facts: [PurchaseFacts]
    package var next: Int64?

    package init(facts: [PurchaseFacts], next: Int64?) {
        self.facts = facts
        self.next = next
    }
}

package final class PurchaseCounts: Sendable {
    static let pauseSeconds = 5
    static let pausePerDuration = 20

    private let read: @Sendable (_ after: Int64) async throws -> PurchasePage
    private let clock: @Sendable () -> Moment
    private let last = Mutex<PurchaseTotals?>(nil)

    package init(
        read: @escaping @Sendable (_ after: Int64) async throws -> PurchasePage, clock: @escaping @Sendable () -> Moment
    ) {
        self.read = read
        self.clock = clock
    }

    /// The result of the last complete pass; nil before the first.
    package var totals: PurchaseTotals? { last.withLock { $0 } }

    /// Runs until the task is cancelled.
    @Sendable package func run() async {
        while !Task.isCancelled {
            do {
                let totals = try await count { try await Task.sleep(for: $0 * Self.pausePerDuration) }
                last.withLock { $0 = totals }
            } catch is CancellationError {
                return
            } catch {
                // The database is unavailable, which is reported elsewhere: keep the last totals.
            }
            do { try await Task.sleep(for: .seconds(Self.pauseSeconds)) } catch { return }
        }
    }

    /// One pass. `pause` is called after each page with the time that it took.
    func count(_ pause: (Duration) async throws -> Void) async throws -> PurchaseTotals {
        var totals = PurchaseTotals()
        var after: Int64 = 0
        while true {
            let start = ContinuousClock.now
            let page = try await read(after)
            for facts in page.facts { totals.add(facts, at: clock()) }
            guard let next = page.next else { return totals }
            after = next
            try await pause(ContinuousClock.now - start)
        }
    }
}
