// Computes entitlements as a pure function of Apple's signed data and the current time. A subscription is the set of
// transactions with the same original transaction id. At most one of its products gives access at any time.
//
// Each product that is not an auto-renewable subscription is evaluated independently.

package import JourneyModel

extension PurchaseFacts {
    /// Length of Apple's billing retry period in days. If the payment still fails after this period, the subscription
    /// counts as expired.
    package static let billingRetryDays = 60

    /// Returns one entitlement per environment, app, subscription group and product, sorted by these four. A driver may
    /// have several subscriptions to one product, for example a bought one and one that a family member shares. Of
    /// these, only the entitlement with the best status is returned.
    package func entitlements(at now: Moment) -> [Entitlement] {
        var best: [EntitlementKey: Entitlement] = [:]
        for entitlement in subscriptionEntitlements(at: now) + productEntitlements(at: now) {
            let key = EntitlementKey(entitlement)
            if let other = best[key], !entitlement.isBetter(than: other) { continue }
            best[key] = entitlement
        }
        return best.sorted { $0.key < $1.key }.map(\.value)
    }

    private func subscriptionEntitlements(at now: Moment) -> [Entitlement] {
        let subscriptions = Dictionary(
            grouping: transactions.values.filter { $0.kind == .autoRenewable }, by: \.subscription)
        return subscriptions.flatMap { key, transactions in
            Subscription(transactions: transactions, renewal: renewals[key], now: now).entitlements
        }
    }

    private func productEntitlements(at now: Moment) -> [Entitlement] {
        let others = transactions.values.filter { $0.kind != nil && $0.kind != .autoRenewable }
        let products = Dictionary(grouping: others) { fact in
            ProductKey(environment: fact.environment, bundleID: fact.bundleID, productID: fact.productID)
        }
        return products.values.compactMap { Self.product($0, at: now) }
    }

    /// Evaluates a product that is not an auto-renewable subscription. The latest purchase that is not revoked
    /// determines the entitlement. If every purchase is revoked, the latest purchase determines it.
    private static func product(_ facts: [TransactionFact], at now: Moment) -> Entitlement? {
        let valid = facts.filter { $0.revocation(at: now) == nil }
        guard let last = (valid.isEmpty ? facts : valid).max(by: { $0.isBefore($1) }), let kind = last.kind else {
            return nil
        }
        var entitlement = Entitlement(last, kind: kind, status: .active, accessEnds: last.expiresDate)
        if let revocation = last.revocation(at: now) {
            entitlement.status = revocation.status
            entitlement.accessEnds = revocation.date
        } else if let expires = last.expiresDate, expires <= now {
            entitlement.status = .expired
        }
        if kind == .consumable {
            entitlement.quantity = valid.reduce(0) { $0.addingWithoutOverflow($1.quantity) }
        }
        return entitlement
    }
}

private struct Subscription {
    let transactions: [TransactionFact]
    let renewal: RenewalFact?
    let now: Moment
    /// The transactions whose period has started.
    private let begun: [TransactionFact]

    init(transactions: [TransactionFact], renewal: RenewalFact?, now: Moment) {
        self.transactions = transactions
        self.renewal = renewal
        self.now = now
        begun = transactions.filter { $0.hasBegun(at: now) }
    }

    /// One entitlement for each product that has had a period, and for the product of `current`. If no period has
    /// started yet, every product gets an entitlement.
    var entitlements: [Entitlement] {
        let current = current
        // If no transaction gives access, the transaction with the latest start shows why.
        let last = current ?? begun.max { $0.isBefore($1) }
        let early = transactions.filter { !$0.hasBegun(at: now) && (begun.isEmpty || $0.key == current?.key) }
        return Dictionary(grouping: begun + early, by: \.productID).values.compactMap { facts in
            guard let latest = facts.max(by: { $0.isBefore($1) }), let expires = latest.expiresDate else { return nil }
            if let current, current.productID == latest.productID {
                return entitlement(of: current, .active, until: paidUntil(current))
            }
            if let revocation = latest.revocation(at: now) {
                return entitlement(of: latest, revocation.status, until: min(revocation.date, expires))
            }
            guard current == nil, let last, last.key == latest.key, !latest.isUpgraded else {
                // Another product of the group has replaced the product of `latest`. If the transaction of the other
                // product is not known yet, the replacement happened no later than the `signedDate` of `latest`.
                let replaced = begun.filter { latest.isBefore($0) }.map(\.purchaseDate).min() ?? latest.signedDate
                return entitlement(of: latest, .expired, until: min(replaced, expires))
            }
            return afterExpiry(latest, expired: expires)
        }
    }

    /// The transaction that gives access now: the latest one that is not expired, replaced or revoked. A transaction
    /// whose period has started is preferred, because Apple may sign a renewal up to a day before its period starts.
    private var current: TransactionFact? {
        begun.filter(isValid).max { $0.isBefore($1) } ?? transactions.filter(isValid).max { $0.isBefore($1) }
    }

    private func isValid(_ fact: TransactionFact) -> Bool {
        guard let expires = fact.expiresDate, expires > now, fact.revocation(at: now) == nil else { return false }
        return !isReplaced(fact, before: expires)
    }

    /// Returns whether another product replaced the transaction's product before `end`. Apple does not always sign the
    /// replaced transaction again with `isUpgraded`, so the other transactions are searched too. A later refund of the
    /// other product does not restore the replaced period, because Apple refunded the rest of that period.
    private func isReplaced(_ fact: TransactionFact, before end: Moment) -> Bool {
        fact.isUpgraded
            || begun.contains { other in
                other.productID != fact.productID && other.purchaseDate > fact.purchaseDate && other.purchaseDate < end
            }
    }

    /// Returns when the paid time ends. A paid renewal of the same product extends this time.
    private func paidUntil(_ current: TransactionFact) -> Moment? {
        transactions.filter { $0.productID == current.productID && isValid($0) }.compactMap(\.expiresDate).max()
    }

    /// Returns the entitlement for the expired period `latest`. Must not be called if `latest` was revoked or replaced.
    private func afterExpiry(_ latest: TransactionFact, expired: Moment) -> Entitlement {
        guard let renewal = renewal(after: latest), renewal.isInBillingRetry else {
            return entitlement(of: latest, .expired, until: expired)
        }
        if let grace = renewal.gracePeriodExpiresDate, grace > now {
            return entitlement(of: latest, .grace, until: grace)
        }
        let retryEnds = expired.advanced(bySeconds: PurchaseFacts.billingRetryDays * 86_400)
        let accessEnded = max(expired, renewal.gracePeriodExpiresDate ?? expired)
        return entitlement(of: latest, now < retryEnds ? .billingRetry : .expired, until: accessEnded)
    }

    /// Returns the renewal information; nil if it is about a period before that of `fact`.
    ///
    /// Renewal information that Apple signed after the start of the period is about this period or a later one. If
    /// Apple charges the renewal up to a day early, it may sign the renewal information at the time of the charge.
    private func renewal(after fact: TransactionFact) -> RenewalFact? {
        guard let renewal else { return nil }
        if renewal.signedDate >= fact.purchaseDate { return renewal }
        let isOfEarlyCharge =
            renewal.signedDate >= fact.purchaseDate.advanced(bySeconds: -86_400)
            && !renewal.isInBillingRetry && renewal.autoRenewProductID == fact.productID
        return isOfEarlyCharge ? renewal : nil
    }

    private func entitlement(
        of fact: TransactionFact, _ status: Entitlement.Status, until accessEnds: Moment?
    ) -> Entitlement {
        var entitlement = Entitlement(fact, kind: .autoRenewable, status: status, accessEnds: accessEnds)
        // An expired, revoked or refunded subscription does not renew.
        if [.active, .grace, .billingRetry].contains(status), let renewal = renewal(after: fact) {
            entitlement.autoRenews = renewal.autoRenews
            if renewal.autoRenews, renewal.autoRenewProductID != fact.productID {
                entitlement.renewsToProductID = renewal.autoRenewProductID
            }
        }
        return entitlement
    }
}

extension TransactionFact {
    /// Orders transactions by purchase date, expiry date and id. The id makes the order total.
    fileprivate func isBefore(_ other: TransactionFact) -> Bool {
        if purchaseDate != other.purchaseDate { return purchaseDate < other.purchaseDate }
        let (mine, others) = (expiresDate ?? purchaseDate, other.expiresDate ?? other.purchaseDate)
        return mine != others ? mine < others : transactionID < other.transactionID
    }

    /// Returns whether the period has started at `now`, or had started at `signedDate`. The second condition is needed
    /// because this server's clock may be a little behind Apple's.
    fileprivate func hasBegun(at now: Moment) -> Bool { purchaseDate <= max(now, signedDate) }

    /// Returns the revocation; nil if there is none, or if its date is after both `now` and `signedDate`.
    fileprivate func revocation(at now: Moment) -> Revocation? {
        revocation.flatMap { $0.date <= max(now, signedDate) ? $0 : nil }
    }
}

extension TransactionFact.Revocation {
    fileprivate var status: Entitlement.Status { kind == .refund ? .refunded : .revoked }
}

extension Entitlement {
    fileprivate init(_ fact: TransactionFact, kind: TransactionFact.Kind, status: Status, accessEnds: Moment?) {
        self.init(
            environment: fact.environment, bundleID: fact.bundleID, subscriptionGroupID: fact.subscriptionGroupID,
            productID: fact.productID, kind: kind, status: status, accessEnds: accessEnds,
            purchaseDate: fact.purchaseDate, autoRenews: nil, renewsToProductID: nil, ownership: fact.ownership,
            offer: fact.offer, quantity: 1, transactionID: fact.transactionID,
            originalTransactionID: fact.originalTransactionID)
    }

    /// Returns whether this entitlement is better for the driver than `other`. The order is total, so that several
    /// comparisons always find the same best entitlement.
    fileprivate func isBetter(than other: Entitlement) -> Bool {
        if status.rank != other.status.rank { return status.rank < other.status.rank }
        let (mine, others) = (
            accessEnds?.millisecondsSinceEpoch ?? .max, other.accessEnds?.millisecondsSinceEpoch ?? .max
        )
        return mine != others ? mine > others : originalTransactionID < other.originalTransactionID
    }
}

private struct ProductKey: Hashable {
    var environment: AppStoreEnvironment
    var bundleID: String
    var productID: String
}

private struct EntitlementKey: Hashable, Comparable {
    private let parts: [String]

    init(_ entitlement: Entitlement) {
        parts = [
            entitlement.environment.rawValue, entitlement.bundleID, entitlement.subscriptionGroupID ?? "",
            entitlement.productID,
        ]
    }

    static func < (one: Self, other: Self) -> Bool { one.parts.lexicographicallyPrecedes(other.parts) }
}

extension Int64 {
    /// Returns the sum. A sum that does not fit becomes `Int64.max`.
    fileprivate func addingWithoutOverflow(_ other: Int64) -> Int64 {
        let (sum, overflow) = addingReportingOverflow(other)
        return overflow ? .max : sum
    }
}
