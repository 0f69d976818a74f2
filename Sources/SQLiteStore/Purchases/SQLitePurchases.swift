// The port of purchases on SQLite: every change is one piece of the one writer's work. What happens in a transaction is in
// PurchaseRows.

import Engine
import GRDB
package import Identity
package import JourneyModel
package import Purchases

package struct SQLitePurchases: PurchaseStore {
    private let accounts: SQLiteAccounts

    package init(accounts: SQLiteAccounts) {
        self.accounts = accounts
    }

    package func appAccountToken(
        of caller: Caller, new: String, at now: Moment
    ) async throws(AccountFailure) -> String {
        let known = try await accounts.read { db in
            try DriverRows.row(of: caller.driver, db).flatMap { try PurchaseRows.token(of: $0, db) }
        }
        if let known { return known }
        return try await accounts.change { [digests = accounts.digests] db in
            let driver = try DriverRows.rowOrNew(of: caller, at: now, digests, db)
            try db.execute(
                sql: "INSERT INTO app_account_token (driver, token) VALUES (?, ?) ON CONFLICT (driver) DO NOTHING",
                arguments: [driver, new])
            guard let token = try PurchaseRows.token(of: driver, db) else {
                throw SQLiteError.unreadable("app_account_token.token")
            }
            return token
        }
    }

    package func add(
        _ purchase: ShownPurchase, of caller: Caller, at now: Moment
    ) async throws(AccountFailure) -> PurchaseOutcome {
        try await accounts.change { [digests = accounts.digests] db in
            let driver = try DriverRows.rowOrNew(of: caller, at: now, digests, db)
            let row = try PurchaseRows.put(purchase.transaction, purchase.renewal, db)
            guard try PurchaseRows.owner(of: row, firstShownBy: driver, db) == driver else { return .ownedByAnother }
            return .stored(try PurchaseRows.facts(of: driver, db))
        }
    }

    package func take(
        _ notification: StoreNotification, at now: Moment
    ) async throws(AccountFailure) -> NotificationOutcome {
        try await accounts.change { db in try StoreNotificationRows.take(notification, at: now, db) }
    }

    package func facts(of driver: DriverID) async throws(AccountFailure) -> PurchaseFacts {
        try await accounts.read { db in
            try DriverRows.row(of: driver, db).map { try PurchaseRows.facts(of: $0, db) } ?? PurchaseFacts()
        }
    }
}
