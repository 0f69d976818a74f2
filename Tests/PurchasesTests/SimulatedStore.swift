// Simulates a year of one driver's purchases in the App Store. Times are in hours from `start`. Each step adds the
// facts that Apple would sign: purchases, renewals, billing failures and recoveries, upgrades, downgrades, refunds and
// their reversals.
//
// After each step the simulation also records the expected entitlements, without using the facts. A test compares them
// with the entitlements that are computed from the facts.

import JourneyModel
import TestSupport

@testable import Purchases

enum SignedFact: Hashable, Sendable {
    case transaction(TransactionFact)
    case renewal(RenewalFact)

    var signedDate: Moment {
        switch self {
        case .transaction(let fact): fact.signedDate
        case .renewal(let fact): fact.signedDate
        }
    }
}

extension PurchaseFacts {
    mutating func add(_ fact: SignedFact) {
        switch fact {
        case .transaction(let fact): add(fact)
        case .renewal(let fact): add(fact)
        }
    }

    init(_ facts: some Sequence<SignedFact>) {
        self.init()
        for fact in facts { add(fact) }
    }
}

func hour(_ hour: Int) -> Moment { start.advanced(bySeconds: hour * 3600) }

struct SimulatedStore {
    /// The expected entitlement to one product.
    struct Truth: Hashable {
        var status: Entitlement.Status
        var accessEnds: Moment?
    }

    /// One step. From `hour` until the next step, `truth` has the expected entitlements by product id.
    struct Step {
        var hour: Int
        /// The number of `facts` after this step.
        var factCount: Int
        var truth: [String: Truth]
    }

    static let monthly = "monthly", yearly = "yearly", weekly = "weekly", lifetime = "lifetime", coins = "coins"
    private static let hours = [monthly: 30 * 24, yearly: 365 * 24, weekly: 7 * 24]

    private(set) var facts: [SignedFact] = []
    private(set) var steps: [Step] = []
    /// The number of refunded upgrades after which the replaced period still looked valid. That period had not expired,
    /// and Apple had not marked it as upgraded.
    private(set) var refundedUpgradeCount = 0

    private var random: SeededRandom
    private var now = 0
    private var lastID = 0
    private var truth: [String: Truth] = [:]
    private var subscription: TransactionFact?
    private var renewal: RenewalFact?
    private var lifetimePurchase: TransactionFact?
    private var coinCount: Int64 = 0

    init(seed: UInt64) {
        random = SeededRandom(seed: seed)
        subscribe()
        while now < 365 * 24, steps.count < 60 { play() }
    }

    // MARK: Steps

    private mutating func play() {
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<6: buyCoins()
        case 6..<9: buyLifetime()
        case 9..<14: refundLifetime()
        case 14..<20: if mayChange { upgrade() }
        case 20..<26: if mayChange { planDowngrade() }
        case 26..<34: if mayChange { setAutoRenew(!(renewal?.autoRenews ?? true)) }
        case 34..<40: if mayChange { refundAndMaybeReverse() }
        case 40..<44: if mayChange { extend() }
        case 44..<50: signAgain()
        default: passPeriod()
        }
    }

    /// Whether the subscription is active, its period has started, and more than four hours of the period are left.
    private var mayChange: Bool {
        guard let subscription, truth[subscription.productID]?.status == .active, let ends = subscription.expiresDate
        else {
            return false
        }
        return ends > hour(now + 4) && subscription.purchaseDate <= hour(now)
    }

    private mutating func wait(_ hours: Int) { now += max(1, hours) }

    /// Waits for a random time that ends before the period does.
    private mutating func waitWithinPeriod() {
        guard let ends = subscription?.expiresDate else { return wait(1) }
        let left = Int(ends.milliseconds(since: hour(now)) / 3_600_000)
        if left > 3 {
            wait(Int.random(in: 1...(left - 2), using: &random))
        } else if left < 0 {
            wait(1)
        }
    }

    private mutating func subscribe() {
        let product = [Self.monthly, Self.yearly, Self.weekly].randomPick(&random)
        // If the old subscription expired after a grace period, the new renewal information lacks the end of that
        // period. The facts then show only when the paid period ended.
        if let last = subscription, truth[last.productID]?.status == .expired {
            truth[last.productID]?.accessEnds = last.expiresDate
        }
        buy(product, original: subscription?.originalTransactionID)
        sign(autoRenews: true)
        step()
    }

    private mutating func passPeriod() {
        guard let current = subscription, let ends = current.expiresDate, truth[current.productID]?.status == .active,
            let renewal
        else {
            wait(Int.random(in: 1...800, using: &random))
            return subscribe()
        }
        let end = Int(ends.milliseconds(since: start) / 3_600_000)
        guard renewal.autoRenews else {
            now = max(now + 1, end)
            sign(autoRenews: false, intent: 1)
            close(current, .expired, at: ends)
            return step()
        }
        switch Int.random(in: 0..<10, using: &random) {
        case 0..<3: fail(current, end: end)
        case 3..<6: renewEarly(current, end: end)
        default:
            now = max(now + 1, end)
            renew(current, at: end)
            step()
        }
    }

    /// Renews the subscription 1 to 12 hours before the period ends. If the period is nearly over, renews it at the end
    /// of the period.
    ///
    /// An early renewal of the same product moves the end of access at once. If the product changes, the new product
    /// begins when the old period ends.
    private mutating func renewEarly(_ current: TransactionFact, end: Int) {
        guard end - now > 14 else {
            now = max(now + 1, end)
            renew(current, at: end)
            return step()
        }
        now = end - Int.random(in: 1...12, using: &random)
        let next = renewal?.autoRenewProductID ?? current.productID
        let before = truth
        renew(current, at: end)
        if next != current.productID {
            // The new period has not started, so the old one continues until its end.
            truth = before
            step()
            now = end
            close(current, .expired, at: hour(end))
            truth[next] = Truth(status: .active, accessEnds: subscription?.expiresDate)
        }
        step()
    }

    private mutating func renew(_ current: TransactionFact, at begin: Int) {
        let next = renewal?.autoRenewProductID ?? current.productID
        buy(next, original: current.originalTransactionID, begin: begin)
        if next != current.productID { close(current, .expired, at: hour(begin)) }
        sign(autoRenews: true)
    }

    private mutating func fail(_ current: TransactionFact, end: Int) {
        now = max(now + 1, end)
        let hasGrace = random.chance(1, in: 2)
        let grace = hasGrace ? now + 16 * 24 : nil
        sign(autoRenews: true, isRetrying: true, grace: grace, intent: 2)
        close(current, hasGrace ? .grace : .billingRetry, at: hour(grace ?? end))
        step()
        let recovers = random.chance(1, in: 2)
        if let grace {
            if recovers, random.chance(1, in: 2) {
                wait(Int.random(in: 1...(15 * 24), using: &random))
                renew(current, at: now)
                return step()
            }
            now = grace
            // In half of the cases, Apple signs nothing during the grace period, and only time ends it.
            if random.chance(1, in: 2) { sign(autoRenews: true, isRetrying: true, grace: grace, intent: 2) }
            close(current, .billingRetry, at: hour(grace))
            step()
        }
        if recovers {
            wait(Int.random(in: 1...(20 * 24), using: &random))
            renew(current, at: now)
        } else {
            now = end + 60 * 24
            if random.chance(1, in: 2) { sign(autoRenews: false, intent: 2) }
            // The facts contain the end of a grace period only while the latest renewal information contains it.
            let isKnown = renewal?.isInBillingRetry == true
            close(current, .expired, at: isKnown ? hour(grace ?? end) : hour(end))
        }
        step()
    }

    private mutating func upgrade() {
        guard var old = subscription, old.productID != Self.yearly else { return }
        waitWithinPeriod()
        buy(Self.yearly, original: old.originalTransactionID)
        close(old, .expired, at: hour(now))
        // Apple does not always send the replaced transaction again with the mark that it was upgraded. The
        // entitlements must be correct even if only the new transaction shows the upgrade.
        if random.chance(1, in: 2) {
            old.isUpgraded = true
            emit(&old)
        }
        sign(autoRenews: true)
        step()
        if random.chance(1, in: 3) { refundAndMaybeReverse(isSoon: true) }
    }

    private mutating func planDowngrade() {
        guard let current = subscription, renewal?.autoRenews == true else { return }
        waitWithinPeriod()
        let others = [Self.monthly, Self.weekly].filter { $0 != current.productID }
        sign(autoRenews: true, next: others.randomPick(&random))
        step()
    }

    private mutating func setAutoRenew(_ isOn: Bool) {
        waitWithinPeriod()
        sign(autoRenews: isOn)
        step()
    }

    /// Refunds the current period at a random time, or after an upgrade (`isSoon`) an hour later. The period that the
    /// upgrade replaced has usually not expired by that time.
    private mutating func refundAndMaybeReverse(isSoon: Bool = false) {
        guard var current = subscription else { return }
        if isSoon { wait(1) } else { waitWithinPeriod() }
        if hasReplacedUnexpired(current) { refundedUpgradeCount += 1 }
        let paid = truth[current.productID]
        current.revocation = TransactionFact.Revocation(date: hour(now), kind: .refund)
        emit(&current)
        subscription = current
        sign(autoRenews: false)
        close(current, .refunded, at: hour(now))
        step()
        if random.chance(1, in: 2), current.expiresDate.map({ $0 > hour(now + 3) }) == true {
            wait(1)
            current.revocation = nil
            emit(&current)
            subscription = current
            truth[current.productID] = paid
            step()
        }
    }

    /// Returns whether the facts contain a transaction of another subscription product that is not expired, revoked or
    /// marked as upgraded. `current` has replaced that transaction.
    private func hasReplacedUnexpired(_ current: TransactionFact) -> Bool {
        PurchaseFacts(facts).transactions.values.contains {
            $0.kind == .autoRenewable && $0.productID != current.productID && $0.revocation == nil && !$0.isUpgraded
                && $0.expiresDate.map { $0 > hour(now) } == true
        }
    }

    private mutating func extend() {
        guard var current = subscription else { return }
        waitWithinPeriod()
        current.expiresDate = current.expiresDate?.advanced(bySeconds: 14 * 86_400)
        emit(&current)
        subscription = current
        truth[current.productID] = Truth(status: .active, accessEnds: current.expiresDate)
        step()
    }

    /// Signs the current transaction again without changes, as Apple does when the app sends it again.
    private mutating func signAgain() {
        wait(1)
        guard now < 365 * 24, var current = subscription, current.purchaseDate <= hour(now) else { return }
        // If the subscription expired during the wait, undo the wait and sign nothing.
        if let status = truth[current.productID]?.status, status == .active,
            current.expiresDate.map({ $0 <= hour(now) }) == true
        {
            now -= 1
            return
        }
        emit(&current)
        step()
    }

    private mutating func buyCoins() {
        waitWithinPeriod()
        let quantity = Int64.random(in: 1...5, using: &random)
        var purchase = transaction(Self.coins, .consumable, begin: now)
        purchase.quantity = quantity
        emit(&purchase)
        coinCount += quantity
        truth[Self.coins] = Truth(status: .active, accessEnds: nil)
        step()
    }

    private mutating func buyLifetime() {
        guard lifetimePurchase == nil else { return }
        waitWithinPeriod()
        var purchase = transaction(Self.lifetime, .nonConsumable, begin: now)
        purchase.ownership = random.chance(1, in: 3) ? .familyShared : .purchased
        emit(&purchase)
        lifetimePurchase = purchase
        truth[Self.lifetime] = Truth(status: .active, accessEnds: nil)
        step()
    }

    private mutating func refundLifetime() {
        guard var purchase = lifetimePurchase else { return }
        waitWithinPeriod()
        if purchase.revocation != nil {
            purchase.revocation = nil
            truth[Self.lifetime] = Truth(status: .active, accessEnds: nil)
        } else {
            let isFamily = purchase.ownership == .familyShared
            purchase.revocation = TransactionFact.Revocation(date: hour(now), kind: isFamily ? .familySharing : .refund)
            truth[Self.lifetime] = Truth(status: isFamily ? .revoked : .refunded, accessEnds: hour(now))
        }
        emit(&purchase)
        lifetimePurchase = purchase
        step()
    }

    // MARK: Expected entitlements

    private mutating func step() {
        // A second step at the same hour replaces the first.
        if steps.last?.hour == now { steps.removeLast() }
        steps.append(Step(hour: now, factCount: facts.count, truth: truth))
    }

    private mutating func close(_ fact: TransactionFact, _ status: Entitlement.Status, at end: Moment) {
        truth[fact.productID] = Truth(status: status, accessEnds: end)
    }

    private mutating func buy(_ product: String, original: String?, begin: Int? = nil) {
        var fact = transaction(product, .autoRenewable, begin: begin ?? now, original: original)
        fact.expiresDate = hour((begin ?? now) + (Self.hours[product] ?? 0))
        emit(&fact)
        subscription = fact
        truth[product] = Truth(status: .active, accessEnds: fact.expiresDate)
    }

    private mutating func transaction(
        _ product: String, _ kind: TransactionFact.Kind, begin: Int, original: String? = nil
    ) -> TransactionFact {
        lastID += 1
        let id = String(1000 + lastID)
        return TransactionFact(
            environment: .production, bundleID: "app", transactionID: id, originalTransactionID: original ?? id,
            productID: product, kind: kind, subscriptionGroupID: kind == .autoRenewable ? "group" : nil,
            purchaseDate: hour(begin), expiresDate: nil, quantity: 1, ownership: .purchased, isUpgraded: false,
            revocation: nil, offer: nil, appAccountToken: nil, signedDate: hour(now), payload: [])
    }

    /// Two bytes that differ for each fact. They serve as the fact's payload.
    private var number: [UInt8] { [UInt8(facts.count / 256 % 256), UInt8(facts.count % 256)] }

    /// Signs a fact at the current hour. To keep the order of facts of the same hour, the signing time also has a
    /// millisecond for each earlier fact.
    private mutating func emit(_ fact: inout TransactionFact) {
        fact.signedDate = hour(now).advanced(byMilliseconds: Int64(facts.count % 1000))
        fact.payload = number
        facts.append(.transaction(fact))
    }

    private mutating func sign(
        autoRenews: Bool, isRetrying: Bool = false, grace: Int? = nil, intent: Int64? = nil, next: String? = nil
    ) {
        guard let subscription else { return }
        let fact = RenewalFact(
            environment: .production, originalTransactionID: subscription.originalTransactionID,
            productID: subscription.productID, autoRenewProductID: next ?? subscription.productID,
            autoRenews: autoRenews, isInBillingRetry: isRetrying, gracePeriodExpiresDate: grace.map(hour),
            expirationIntent: intent, signedDate: hour(now).advanced(byMilliseconds: Int64(facts.count % 1000)),
            payload: number)
        renewal = fact
        facts.append(.renewal(fact))
    }
}
