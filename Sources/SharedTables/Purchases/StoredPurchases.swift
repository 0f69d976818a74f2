// Implements the protocols for purchases. Every change is one transaction. PurchaseRows contains most of the
// statements.

import Engine
package import Identity
package import JourneyModel
package import Purchases

package struct StoredPurchases: PurchaseStore, AccountTransactions {
    package let database: any SQLDatabase
    private let digests: KeyedHashes

    /// `digests` must be the keyed hashes with which the store was opened.
    package init(store: any SQLDatabase, digests: KeyedHashes) {
        database = store
        self.digests = digests
    }

    package init(accounts: StoredAccounts) {
        self.init(store: accounts.store, digests: accounts.digests)
    }

    package func appAccountToken(
        of caller: Caller, new: String, at now: Moment
    ) async throws(AccountFailure) -> String {
        let known = try await read { db in
            try DriverRows.row(of: caller.driver, db).flatMap { try PurchaseRows.token(of: $0, db) }
        }
        if let known { return known }
        return try await change { [digests] db in
            let driver = try DriverRows.rowOrNew(of: caller, at: now, digests, db)
            try db.execute(
                sql: "INSERT INTO app_account_token (driver, token) VALUES (?, ?) ON CONFLICT (driver) DO NOTHING",
                arguments: [driver, new])
            guard let token = try PurchaseRows.token(of: driver, db) else {
                throw UnreadableColumn(name: "app_account_token.token")
            }
            return token
        }
    }

    package func add(
        _ purchase: ShownPurchase, of caller: Caller, at now: Moment
    ) async throws(AccountFailure) -> PurchaseOutcome {
        try await change { [digests] db in
            let driver = try DriverRows.rowOrNew(of: caller, at: now, digests, db)
            let row = try PurchaseRows.put(purchase.transaction, purchase.renewal, isShown: true, db).purchase
            let owner = try PurchaseRows.owner(of: row, firstShownBy: driver, db)
            guard owner == driver else { return .ownedByAnother(owner: try PurchaseRows.driverID(ofOwner: owner, db)) }
            return .stored(try PurchaseRows.facts(of: driver, db))
        }
    }

    package func take(
        _ notification: StoreNotification, at now: Moment
    ) async throws(AccountFailure) -> NotificationOutcome {
        try await change { db in
            try StoreNotificationRows.take(notification, at: now, db)
        }
    }

    package func setConsumptionConsent(
        _ isGiven: Bool, of caller: Caller, at now: Moment
    ) async throws(AccountFailure) -> ConsumptionConsent {
        try await change { [digests] db in
            let driver = try DriverRows.rowOrNew(of: caller, at: now, digests, db)
            return try ConsumptionRows.setConsent(isGiven, of: driver, at: now, db)
        }
    }

    package func facts(of driver: DriverID) async throws(AccountFailure) -> PurchaseFacts {
        try await read { db in
            try DriverRows.row(of: driver, db).map { try PurchaseRows.facts(of: $0, db) } ?? PurchaseFacts()
        }
    }

    /// Assigns a purchase to a driver, even if a transaction contains another driver's account token. Adds an audit
    /// entry for the driver. If the purchase had another owner, adds an entry for that driver too.
    ///
    /// Returns false and changes nothing if the purchase or the driver is unknown.
    package func move(
        _ key: SubscriptionKey, to driver: DriverID, at now: Moment
    ) async throws(AccountFailure) -> Bool {
        try await change { db in
            guard let row = try DriverRows.row(of: driver, db) else { return false }
            let purchase = try SQLRow.fetchOne(
                db,
                sql: """
                    SELECT id, driver FROM purchase WHERE environment = ? AND original_transaction_id = ?
                    """,
                arguments: [key.environment.rawValue, key.originalTransactionID])
            guard let purchase else { return false }
            try db.execute(
                sql: "UPDATE purchase SET driver = ?, moved_at_ms = ? WHERE id = ?",
                arguments: [row, now, try purchase[0] as Int64])
            for driver in Set([try purchase[1] as Int64?, row].compactMap { $0 }).sorted() {
                try AuditRows.add(.operatorPurchaseMove, .done, ofOperatorTo: driver, at: now, db)
            }
            return true
        }
    }

    // MARK: Counting

    /// Returns the facts of at most 64 drivers with purchases, in the order of their row numbers. Begins after the row
    /// number `driver`. Used by `PurchaseCounts`.
    @Sendable package func page(after driver: Int64) async throws -> PurchasePage {
        let limit = 64
        return try await read { db in
            let drivers = try Int64.fetchAll(
                db, sql: "SELECT DISTINCT driver FROM purchase WHERE driver > ? ORDER BY driver LIMIT ?",
                arguments: [driver, limit])
            return PurchasePage(
                facts: try drivers.map { try PurchaseRows.facts(of: $0, db) },
                next: drivers.count == limit ? drivers.last : nil)
        }
    }

    // MARK: Certificates

    /// Returns every certificate chain that signed a stored fact.
    @Sendable package func signers() async throws -> [PurchaseSigner] {
        try await read { db in
            try SQLRow.fetchAll(
                db, sql: "SELECT id, header, checked_at_ms, revoked_at_ms IS NOT NULL FROM purchase_signer ORDER BY id"
            ).map { row in
                try PurchaseSigner(id: row[0], header: row[1], checkedAt: row[2], isRevoked: row[3])
            }
        }
    }

    /// Records whether Apple has revoked a signer's certificates. If so, none of the signer's facts is believed,
    /// whatever its signing date: someone who stole the signer's key could choose any date.
    ///
    /// A recorded revocation stays, even if another process reports good certificates later. That report may rest on an
    /// older response of Apple. The issuer can end a revocation only if its reason is `certificateHold` (RFC 6960,
    /// section 2.2).
    @Sendable package func record(_ signer: Int64, isRevoked: Bool, at now: Moment) async throws {
        try await change { db in
            _ = try db.execute(
                sql: """
                    UPDATE purchase_signer SET checked_at_ms = ?, revoked_at_ms = coalesce(revoked_at_ms, ?)
                    WHERE id = ?
                    """,
                arguments: [now, isRevoked ? 0 : nil, signer])
        }
    }

    // MARK: An operator's view

    /// Returns the driver's purchases; nil for an unknown driver.
    package func purchases(of driver: DriverID) async throws(AccountFailure) -> DriverPurchases? {
        try await read { db in try PurchaseRecordRows.purchases(of: driver, db) }
    }

    /// Returns the purchases with this original transaction id, at most one per environment.
    package func purchases(original id: String) async throws(AccountFailure) -> [PurchaseRecord] {
        try await read { db in try PurchaseRecordRows.purchases(original: id, db) }
    }
}
