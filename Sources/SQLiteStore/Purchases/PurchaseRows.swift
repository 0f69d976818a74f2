// Purchases and the facts that Apple signed about them. The newest fact about each transaction and about each renewal
// is kept, in whatever order the facts arrive. A purchase has at most one owner.

import Foundation
import GRDB
import Identity
import JourneyModel
import Purchases

enum PurchaseRows {
    /// SQL condition that is true for a fact, joined with its signer, if the signer's certificates are not revoked. For
    /// a revoked signer, `revoked_at_ms` is 0 (`SQLitePurchases.record`), which is before any signing date. A fact
    /// without a signer is also believed: it was believed until its driver was deleted, and the deletion removed its
    /// signature.
    static let isBelieved = "(revoked_at_ms IS NULL OR signed_at_ms < revoked_at_ms)"

    static func token(of driver: Int64, _ db: Database) throws -> String? {
        try String.fetchOne(db, sql: "SELECT token FROM app_account_token WHERE driver = ?", arguments: [driver])
    }

    /// Stores each fact that is newer than the stored one. Returns the purchase's row number. There may be thousands of
    /// notifications a second, and preparing a statement takes longer than running it. The statements in this function
    /// and in `owner` are therefore prepared only once.
    static func put(_ transaction: TransactionFact, _ renewal: RenewalFact?, _ db: Database) throws -> Int64 {
        let purchase = try row(of: transaction.subscription, db)
        try put(transaction, in: purchase, db)
        if let renewal { try put(renewal, in: purchase, db) }
        return purchase
    }

    /// Determines, stores and returns the owner of a purchase. If an operator moved the purchase, the owner does not
    /// change. Otherwise the owner is the driver whose account token is in a transaction signed by Apple. If several
    /// transactions have the tokens of different drivers, the newest transaction decides. If no transaction has a
    /// driver's token, the owner does not change. If there is no owner yet, `driver`, who sent the purchase, becomes
    /// the owner.
    static func owner(of purchase: Int64, firstShownBy driver: Int64?, _ db: Database) throws -> Int64? {
        let known = try Row.fetchOne(
            db.cachedStatement(sql: "SELECT driver, moved_at_ms FROM purchase WHERE id = ?"), arguments: [purchase])
        let stored = known?["driver"] as Int64?
        if let stored, (known?["moved_at_ms"] as Int64?) != nil { return stored }
        let named = try Int64.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT app_account_token.driver FROM purchase_transaction
                    JOIN app_account_token ON token = account_token
                    LEFT JOIN purchase_signer ON purchase_signer.id = signer
                    WHERE purchase = ? AND account_token IS NOT NULL AND \(isBelieved)
                    ORDER BY signed_at_ms DESC, transaction_id DESC LIMIT 1
                    """),
            arguments: [purchase])
        let owner = named ?? stored ?? driver
        if owner != stored {
            try db.execute(sql: "UPDATE purchase SET driver = ? WHERE id = ?", arguments: [owner, purchase])
        }
        return owner
    }

    static func facts(of driver: Int64, _ db: Database) throws -> PurchaseFacts {
        var facts = PurchaseFacts()
        let purchases = "SELECT id FROM purchase WHERE driver = ?"
        let transactions = try Row.fetchCursor(
            db,
            sql: """
                \(believed("purchase_transaction"))
                AND purchase IN (\(purchases))
                """,
            arguments: [driver])
        while let row = try transactions.next() { facts.add(try transaction(row)) }
        let renewals = try Row.fetchCursor(
            db,
            sql: """
                \(believed("purchase_renewal"))
                AND purchase IN (\(purchases))
                """,
            arguments: [driver])
        while let row = try renewals.next() { facts.add(try renewal(row)) }
        return facts
    }

    // MARK: Rows

    /// Returns the query for the believed facts in `table`, each with its signature. The caller appends further
    /// conditions.
    private static func believed(_ table: String) -> String {
        """
        SELECT signed_at_ms, payload, header, signature FROM \(table)
        LEFT JOIN purchase_signer ON purchase_signer.id = signer WHERE \(isBelieved)
        """
    }

    private static func row(of key: SubscriptionKey, _ db: Database) throws -> Int64 {
        let arguments: StatementArguments = [key.environment.rawValue, key.originalTransactionID]
        let find = try db.cachedStatement(
            sql: "SELECT id FROM purchase WHERE environment = ? AND original_transaction_id = ?")
        if let row = try Int64.fetchOne(find, arguments: arguments) { return row }
        try db.cachedStatement(sql: "INSERT INTO purchase (environment, original_transaction_id) VALUES (?, ?)")
            .execute(arguments: arguments)
        return db.lastInsertedRowID
    }

    private static func put(_ fact: TransactionFact, in purchase: Int64, _ db: Database) throws {
        let find = try db.cachedStatement(
            sql: """
                \(believed("purchase_transaction"))
                AND environment = ? AND transaction_id = ?
                """)
        let isNewer = try isNewer(fact.signedDate, find, [fact.environment.rawValue, fact.transactionID]) { known in
            try fact.isNewer(than: transaction(known))
        }
        guard isNewer else { return }
        let signer = try signer(fact.proof, db)
        let put = try db.cachedStatement(
            sql: """
                INSERT INTO purchase_transaction
                    (purchase, environment, transaction_id, account_token, signed_at_ms, payload, signer, signature)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?)
                ON CONFLICT (environment, transaction_id) DO UPDATE SET purchase = excluded.purchase,
                    account_token = excluded.account_token, signed_at_ms = excluded.signed_at_ms,
                    payload = excluded.payload, signer = excluded.signer, signature = excluded.signature
                """)
        try put.execute(arguments: [
            purchase, fact.environment.rawValue, fact.transactionID, fact.appAccountToken,
            fact.signedDate.millisecondsSinceEpoch, fact.payload.data, signer, fact.proof?.signature.data,
        ])
    }

    private static func put(_ fact: RenewalFact, in purchase: Int64, _ db: Database) throws {
        let find = try db.cachedStatement(
            sql: """
                \(believed("purchase_renewal"))
                AND purchase = ?
                """)
        guard
            try isNewer(fact.signedDate, find, [purchase], { known in try fact.isNewer(than: renewal(known)) })
        else { return }
        let signer = try signer(fact.proof, db)
        let put = try db.cachedStatement(
            sql: """
                INSERT INTO purchase_renewal (purchase, signed_at_ms, payload, signer, signature)
                VALUES (?, ?, ?, ?, ?)
                ON CONFLICT (purchase) DO UPDATE SET signed_at_ms = excluded.signed_at_ms,
                    payload = excluded.payload, signer = excluded.signer, signature = excluded.signature
                """)
        try put.execute(arguments: [
            purchase, fact.signedDate.millisecondsSinceEpoch, fact.payload.data, signer, fact.proof?.signature.data,
        ])
    }

    /// Returns whether a fact is newer than the stored one, which `find` selects. Returns true if no fact is stored.
    /// Compares `signedDate` first, as `PurchaseFacts` does. The other columns are most of the row, so `decide` reads
    /// and compares them only if the dates are equal.
    private static func isNewer(
        _ signed: Moment, _ find: Statement, _ arguments: StatementArguments, _ decide: (Row) throws -> Bool
    ) throws -> Bool {
        let rows = try Row.fetchCursor(find, arguments: arguments)
        guard let known = try rows.next() else { return true }
        let stored: Int64 = known[0]
        if signed.millisecondsSinceEpoch != stored { return signed.millisecondsSinceEpoch > stored }
        return try decide(known)
    }

    private static func signer(_ proof: SignatureProof?, _ db: Database) throws -> Int64? {
        guard let proof else { return nil }
        let find = try db.cachedStatement(sql: "SELECT id FROM purchase_signer WHERE header = ?")
        if let signer = try Int64.fetchOne(find, arguments: [proof.header]) { return signer }
        try db.execute(sql: "INSERT INTO purchase_signer (header) VALUES (?)", arguments: [proof.header])
        return db.lastInsertedRowID
    }

    static func transaction(_ row: Row) throws -> TransactionFact {
        do throws(PurchaseRefusal) {
            return try TransactionFact(payload: bytes(row), proof: proof(row))
        } catch { throw SQLiteError.unreadable("purchase_transaction.payload") }
    }

    static func renewal(_ row: Row) throws -> RenewalFact {
        do throws(PurchaseRefusal) {
            return try RenewalFact(payload: bytes(row), proof: proof(row))
        } catch { throw SQLiteError.unreadable("purchase_renewal.payload") }
    }

    private static func bytes(_ row: Row) -> [UInt8] { Array(row["payload"] as Data) }

    private static func proof(_ row: Row) -> SignatureProof? {
        guard let header = row["header"] as String?, let signature = row["signature"] as Data? else { return nil }
        return SignatureProof(header: header, signature: Array(signature))
    }
}
