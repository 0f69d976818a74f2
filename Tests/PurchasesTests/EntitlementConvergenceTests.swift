// Property tests of the fold of purchases. In any order, with repeats and delays, the facts must give the same, correct
// entitlements.
//
// Set DWELL_PURCHASE_YEARS=100000 for a long run. A failure prints its seed. To begin the next run with this seed, set
// DWELL_PROPERTY_SEED to it.

import JourneyModel
import TestSupport
import Testing

@testable import Purchases

@Suite struct EntitlementConvergenceTests {
    private static let seeds = PropertyRun.seeds("DWELL_PURCHASE_YEARS", unlessSet: 2000)

    @Test("A year's facts give the same set and entitlements in any order, with repeats and delays")
    func anyOrder() {
        for seed in Self.seeds {
            let store = SimulatedStore(seed: seed)
            var random = SeededRandom(seed: ~seed)
            let inOrder = PurchaseFacts(store.facts)
            var arrived = PurchaseFacts()
            for fact in Self.deliveries(of: store.facts, &random) { arrived.add(fact) }
            guard arrived == inOrder else {
                Issue.record("seed \(seed): the facts depend on the order of arrival")
                return
            }
            for _ in 1...3 {
                let time = hour(.random(in: -100...(450 * 24), using: &random))
                guard arrived.entitlements(at: time) == inOrder.entitlements(at: time) else {
                    Issue.record("seed \(seed): the entitlements depend on the order of arrival")
                    return
                }
            }
        }
    }

    @Test("From each step of the store to the next, the facts give the entitlements that the store expects")
    func truth() {
        for seed in Self.seeds {
            let store = SimulatedStore(seed: seed)
            var random = SeededRandom(seed: ~seed)
            for (step, next) in zip(store.steps, store.steps.dropFirst().map(\.hour) + [Int.max]) {
                // Check only about a quarter of the steps. The time for all of them would grow with the square of their
                // number.
                guard random.chance(1, in: 4) else { continue }
                var facts = PurchaseFacts()
                for fact in Self.deliveries(of: Array(store.facts.prefix(step.factCount)), &random) { facts.add(fact) }
                let first = hour(step.hour).advanced(bySeconds: 1)
                let last = next == .max ? first : hour(next).advanced(bySeconds: -1)
                for time in [first, last] where time >= first {
                    let found = Dictionary(
                        facts.entitlements(at: time).map {
                            ($0.productID, SimulatedStore.Truth(status: $0.status, accessEnds: $0.accessEnds))
                        }, uniquingKeysWith: { one, _ in one })
                    guard found == step.truth else {
                        Issue.record(
                            "seed \(seed), hour \(step.hour) and \(time): found \(found), expected \(step.truth)")
                        return
                    }
                }
            }
        }
    }

    @Test("The simulated years reach every status, upgrades and their refunds, early renewals and expiry by time alone")
    func coverage() {
        var statuses: Set<Entitlement.Status> = []
        var upgrades = 0
        var earlyCharges = 0
        var silentEnds = 0
        var refundedUpgrades = 0
        for seed in UInt64(1)...300 {
            let store = SimulatedStore(seed: seed)
            refundedUpgrades += store.refundedUpgradeCount
            statuses.formUnion(store.steps.flatMap { $0.truth.values.map(\.status) })
            for case .transaction(let fact) in store.facts {
                upgrades += fact.isUpgraded ? 1 : 0
                earlyCharges += fact.signedDate < fact.purchaseDate ? 1 : 0
            }
            for (step, next) in zip(store.steps, store.steps.dropFirst()) where step.factCount == next.factCount {
                silentEnds += 1
            }
        }
        #expect(statuses == Set(Entitlement.Status.allCases))
        #expect(upgrades > 10)
        #expect(earlyCharges > 10)
        #expect(silentEnds > 10)
        #expect(refundedUpgrades > 10)
    }

    private static func deliveries(of facts: [SignedFact], _ random: inout SeededRandom) -> [SignedFact] {
        let repeats = facts.filter { _ in random.chance(1, in: 4) }
        return (facts + repeats + repeats.prefix(2)).shuffled(using: &random)
    }
}
