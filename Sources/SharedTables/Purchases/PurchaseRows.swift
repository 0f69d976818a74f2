// Purchases and the facts that Apple signed about them. The newest fact about each transaction and about each renewal
// is kept, in whatever order the facts arrive. A purchase has at most one owner.

import Identity
import JourneyModel
import Purchases

package enum PurchaseRows {
    /// SQL condition that is true for a fact, joined with its signer, if the signer's certificates are not revoked. For
    /// a revoked signer, `revoked_at_ms` is 0 (`StoredPurchases.record`), which is before any signing date. A fact
    /// without a signer is also believed: it was believed until its driver was deleted, and the deletion removed its
    /// signature.
    static let isBelieved = "(revoked_at_ms IS NULL OR signed_at_ms < revoked_at_ms)"

    static func token(of driver: Int64, _ db: any SQLTransaction) throws -> String? {
        try String.fetchOne(db, sql: "SELECT token FROM app_account_token WHERE driver = ?", arguments: [driver])
    }

    /// Stores each fact that is newer than the stored one. Returns the purchase's row number.
    static func put(_ transaction: TransactionFact, _ renewal: RenewalFact?, _ db: any SQLTransaction) throws -> Int64 {
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
    static func owner(of purchase: Int64, firstShownBy driver: Int64?, _ db: any SQLTransaction) throws -> Int64? {
        let known = try SQLRow.fetchOne(
            db, sql: "SELECT driver, moved_at_ms FROM purchase WHERE id = ?", arguments: [purchase])
        let stored: Int64? = try known?[0]
        let movedAt: Int64? = try known?[1]
        if let stored, movedAt != nil { return stored }
        let named = try Int64.fetchOne(
            db,
            sql: """
                SELECT app_account_token.driver FROM purchase_transaction
                JOIN app_account_token ON token = account_token
                LEFT JOIN purchase_signer ON purchase_signer.id = signer
                WHERE purchase = ? AND account_token IS NOT NULL AND \(isBelieved)
                ORDER BY signed_at_ms DESC, transaction_id DESC LIMIT 1
                """,
            arguments: [purchase])
        let owner = named ?? stored ?? driver
        if owner != stored {
            try db.execute(sql: "UPDATE purchase SET driver = ? WHERE id = ?", arguments: [owner, purchase])
        }
        return owner
    }

    static func facts(of driver: Int64, _ db: any SQLTransaction) throws -> PurchaseFacts {
        var facts = PurchaseFacts()
        for row in try fetch("purchase_transaction", ofDriver: driver, db) { facts.add(try transaction(row)) }
        for row in try fetch("purchase_renewal", ofDriver: driver, db) { facts.add(try renewal(row)) }
        return facts
    }

    private static func fetch(_ table: String, ofDriver driver: Int64, _ db: any SQLTransaction) throws -> [SQLRow] {
        try SQLRow.fetchAll(
            db,
            sql: """
                SELECT \(factColumns) \(believed(table))
                AND purchase IN (SELECT id FROM purchase WHERE driver = ?)
                """,
            arguments: [driver])
    }

    // MARK: Rows

    /// The columns that `transaction` and `renewal` read.
    private static let factColumns = "payload, header, signature"

    /// Returns the end of a query for the believed facts in `table`, each with its signer. The caller appends further
    /// conditions.
    private static func believed(_ table: String) -> String {
        """
        FROM \(table)
        LEFT JOIN purchase_signer ON purchase_signer.id = signer WHERE \(isBelieved)
        """
    }

    private static func row(of key: SubscriptionKey, _ db: any SQLTransaction) throws -> Int64 {
        let arguments: SQLArguments = [key.environment.rawValue, key.originalTransactionID]
        let stored = try Int64.fetchOne(
            db, sql: "SELECT id FROM purchase WHERE environment = ? AND original_transaction_id = ?",
            arguments: arguments)
        if let stored { return stored }
        return try inserted(
            db, sql: "INSERT INTO purchase (environment, original_transaction_id) VALUES (?, ?) RETURNING id",
            arguments: arguments)
    }

    private static func put(_ fact: TransactionFact, in purchase: Int64, _ db: any SQLTransaction) throws {
        let stored = "\(believed("purchase_transaction")) AND environment = ? AND transaction_id = ?"
        let key: SQLArguments = [fact.environment.rawValue, fact.transactionID]
        guard
            try isNewer(fact.signedDate, stored, key, db, { known in try fact.isNewer(than: transaction(known)) })
        else { return }
        let signer = try signer(fact.proof, db)
        try db.execute(
            sql: """
                INSERT INTO purchase_transaction
                    (purchase, environment, transaction_id, account_token, signed_at_ms, payload, signer, signature)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?)
                ON CONFLICT (environment, transaction_id) DO UPDATE SET purchase = excluded.purchase,
                    account_token = excluded.account_token, signed_at_ms = excluded.signed_at_ms,
                    payload = excluded.payload, signer = excluded.signer, signature = excluded.signature
                """,
            arguments: [
                purchase, fact.environment.rawValue, fact.transactionID, fact.appAccountToken, fact.signedDate,
                fact.payload, signer, fact.proof?.signature,
            ])
    }

    private static func put(_ fact: RenewalFact, in purchase: Int64, _ db: any SQLTransaction) throws {
        let stored = "\(believed("purchase_renewal")) AND purchase = ?"
        guard
            try isNewer(fact.signedDate, stored, [purchase], db, { known in try fact.isNewer(than: renewal(known)) })
        else { return }
        let signer = try signer(fact.proof, db)
        try db.execute(
            sql: """
                INSERT INTO purchase_renewal (purchase, signed_at_ms, payload, signer, signature)
                VALUES (?, ?, ?, ?, ?)
                ON CONFLICT (purchase) DO UPDATE SET signed_at_ms = excluded.signed_at_ms,
                    payload = excluded.payload, signer = excluded.signer, signature = excluded.signature
                """,
            arguments: [purchase, fact.signedDate, fact.payload, signer, fact.proof?.signature])
    }

    /// Returns whether a fact is newer than the stored one. Returns true if no fact is stored. Compares `signedDate`
    /// first, as `PurchaseFacts` does. The other columns are most of the row, so they are read only if the dates are
    /// equal.
    ///
    /// - Parameter stored: the end of the query for the stored fact.
    private static func isNewer(
        _ signed: Moment, _ stored: String, _ arguments: SQLArguments, _ db: any SQLTransaction,
        _ decide: (SQLRow) throws -> Bool
    ) throws -> Bool {
        let date = try Moment.fetchOne(db, sql: "SELECT signed_at_ms \(stored)", arguments: arguments)
        guard let date else { return true }
        if signed != date { return signed > date }
        let known = try SQLRow.fetchOne(db, sql: "SELECT \(factColumns) \(stored)", arguments: arguments)
        return try known.map(decide) ?? true
    }

    private static func signer(_ proof: SignatureProof?, _ db: any SQLTransaction) throws -> Int64? {
        guard let proof else { return nil }
        let stored = try Int64.fetchOne(
            db, sql: "SELECT id FROM purchase_signer WHERE header = ?", arguments: [proof.header])
        if let stored { return stored }
        return try inserted(
            db, sql: "INSERT INTO purchase_signer (header) VALUES (?) RETURNING id", arguments: [proof.header])
    }

    private static func inserted(_ db: any SQLTransaction, sql: String, arguments: SQLArguments) throws -> Int64 {
        guard let row = try Int64.fetchOne(db, sql: sql, arguments: arguments) else {
            throw UnreadableColumn(name: "id of an inserted row")
        }
        return row
    }

    static func transaction(_ row: SQLRow) throws -> TransactionFact {
        let (payload, proof): ([UInt8], _) = (try row[0], try proof(row))
        do throws(PurchaseRefusal) {
            return try TransactionFact(payload: payload, proof: proof)
        } catch { throw UnreadableColumn(name: "purchase_transaction.payload") }
    }

    static func renewal(_ row: SQLRow) throws -> RenewalFact {
        let (payload, proof): ([UInt8], _) = (try row[0], try proof(row))
        do throws(PurchaseRefusal) {
            return try RenewalFact(payload: payload, proof: proof)
        } catch { throw UnreadableColumn(name: "purchase_renewal.payload") }
    }

    private static func proof(_ row: SQLRow) throws -> SignatureProof? {
        guard let header: String = try row[1], let signature: [UInt8] = try row[2] else { return nil }
        return SignatureProof(header: header, signature: signature)
    }
}
