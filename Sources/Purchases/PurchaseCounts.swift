// Counts the entitlements of each environment by status, for the operator page and the metrics. Each count takes one
// pass over the facts of all drivers.
//
// After each page of drivers, the pass pauses for twenty times as long as the page took. Counting therefore uses less
// than a twentieth of the server's time.

package import JourneyModel
import Synchronization

package struct PurchaseTotals: Hashable, Sendable {
    /// The counts of one environment.
    package struct Counts: Hashable, Sendable {
        /// The number of entitlements by status. Valid consumables and non-consumables count as active.
        package var entitlements: [Entitlement.Status: Int] = [:]
        /// The number of refunds since the last midnight in UTC.
        package var refundsToday = 0

        package init() {}

        package func count(_ status: Entitlement.Status) -> Int { entitlements[status] ?? 0 }
    }

    private var counts: [AppStoreEnvironment: Counts] = [:]

    package init() {}

    package subscript(environment: AppStoreEnvironment) -> Counts {
        get { counts[environment] ?? Counts() }
        set { counts[environment] = newValue }
    }

    /// Adds one driver's purchases.
    mutating func add(_ facts: PurchaseFacts, at now: Moment) {
        for entitlement in facts.entitlements(at: now) {
            self[entitlement.environment].entitlements[entitlement.status, default: 0] += 1
        }
        let midnight = now.floored(toSeconds: 86_400)
        for fact in facts.transactions.values {
            guard let revocation = fact.revocation, revocation.kind == .refund, revocation.date >= midnight else {
                continue
            }
            self[fact.environment].refundsToday += 1
        }
    }
}

/// One page of a pass: the facts of some drivers. `next` is the `after` for the following page; nil on the last page.
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

    /// The result of the last complete pass; nil before the first pass is complete.
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
                // The database is unavailable. Other code reports this. The totals of the last complete pass are kept.
            }
            do { try await Task.sleep(for: .seconds(Self.pauseSeconds)) } catch { return }
        }
    }

    /// Makes one pass and returns the totals. After each page except the last, calls `pause` with the time that the
    /// page took.
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
