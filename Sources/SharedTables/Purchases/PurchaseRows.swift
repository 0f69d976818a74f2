// Purchases and the facts that Apple signed about them. For each transaction and each renewal, only the newest fact is
// kept, even if an older fact arrives later. A purchase has at most one owner.

import Identity
import JourneyModel
import Purchases

package enum PurchaseRows {
    /// The SQL condition that a fact is believed, for a query that joins facts and signers. For a revoked signer,
    /// `revoked_at_ms` is 0 (`StoredPurchases.record`). None of the signer's facts then meets the condition.
    ///
    /// A fact without a signer is believed, because the deletion of a driver removes signers only from believed facts.
    static let isBelieved = "(revoked_at_ms IS NULL OR signed_at_ms < revoked_at_ms)"

    static func token(of driver: Int64, _ db: any SQLTransaction) throws -> String? {
        try String.fetchOne(db, sql: "SELECT token FROM app_account_token WHERE driver = ?", arguments: [driver])
    }

    /// Stores each of the two facts if it is newer than the stored one. Returns the purchase's row number. The purchase
    /// is anonymous if its owner was deleted and it has no new owner.
    ///
    /// The facts of an anonymous purchase are stored without the members that identify a person. If the transaction
    /// contains a driver's account token, that driver owns the purchase. The facts are then stored whole.
    ///
    /// - Parameter isShown: whether a driver's app sent the facts. If so, `owner` gives an anonymous purchase an owner,
    ///   and the facts are stored whole.
    static func put(
        _ transaction: TransactionFact, _ renewal: RenewalFact?, isShown: Bool, _ db: any SQLTransaction
    ) throws -> (purchase: Int64, isAnonymous: Bool) {
        let (purchase, mayBeAnonymous) = try row(of: transaction.subscription, db)
        guard !isShown, mayBeAnonymous, try isAnonymous(purchase, db), try !isNamed(transaction, db) else {
            try put(transaction, in: purchase, db)
            if let renewal { try put(renewal, in: purchase, db) }
            return (purchase, false)
        }
        // Anonymous facts have no signer. A fact of a revoked signer would therefore be believed if it were stored
        // here.
        if try !isRevoked(transaction.proof, db) { try put(transaction.anonymous(), in: purchase, db) }
        if let renewal, try !isRevoked(renewal.proof, db) { try put(renewal.anonymous(), in: purchase, db) }
        return (purchase, true)
    }

    /// Returns whether a deletion has removed the owner of this purchase. Must be called only for a purchase without an
    /// owner.
    ///
    /// A deletion removes the signatures of the purchase's transactions, and deletes the transactions of revoked
    /// signers. The owner was therefore deleted if a transaction has no signature, or if no transaction is left because
    /// all signers are revoked.
    private static func isAnonymous(_ purchase: Int64, _ db: any SQLTransaction) throws -> Bool {
        let facts = "SELECT 1 FROM purchase_transaction WHERE purchase = ?"
        return try Bool.fetchOne(
            db, sql: "SELECT EXISTS (\(facts) AND signature IS NULL) OR NOT EXISTS (\(facts))",
            arguments: [purchase, purchase]) ?? false
    }

    /// Returns whether the transaction has the account token of a driver.
    private static func isNamed(_ transaction: TransactionFact, _ db: any SQLTransaction) throws -> Bool {
        guard let token = transaction.appAccountToken else { return false }
        return try Bool.fetchOne(
            db, sql: "SELECT EXISTS (SELECT 1 FROM app_account_token WHERE token = ?)", arguments: [token]) ?? false
    }

    /// Determines, stores and returns the owner of a purchase. The owner is the first of these drivers that exists:
    ///
    /// - the stored owner, if an operator moved the purchase
    /// - the driver whose account token is in one of the purchase's transactions (`named`)
    /// - the stored owner
    /// - `driver`, who sent the purchase
    static func owner(of purchase: Int64, firstShownBy driver: Int64?, _ db: any SQLTransaction) throws -> Int64? {
        let known = try SQLRow.fetchOne(
            db, sql: "SELECT driver, moved_at_ms FROM purchase WHERE id = ?", arguments: [purchase])
        let stored: Int64? = try known?[0]
        let movedAt: Int64? = try known?[1]
        if let stored, movedAt != nil { return stored }
        let owner = try named(in: purchase, db) ?? stored ?? driver
        if owner != stored {
            try db.execute(sql: "UPDATE purchase SET driver = ? WHERE id = ?", arguments: [owner, purchase])
        }
        return owner
    }

    /// Returns the driver whose account token is in a transaction of the purchase. If the transactions name several
    /// drivers, the transaction with the latest purchase date decides.
    private static func named(in purchase: Int64, _ db: any SQLTransaction) throws -> Int64? {
        let transactions = """
            FROM purchase_transaction JOIN app_account_token ON token = account_token
            LEFT JOIN purchase_signer ON purchase_signer.id = signer
            WHERE purchase = ? AND account_token IS NOT NULL AND \(isBelieved)
            """
        let drivers = try Int64.fetchAll(
            db, sql: "SELECT DISTINCT app_account_token.driver \(transactions)", arguments: [purchase])
        guard drivers.count > 1 else { return drivers.first }
        // The payloads contain the purchase dates. They are large, so they are read only if the transactions name
        // several drivers.
        let rows = try SQLRow.fetchAll(
            db, sql: "SELECT \(factColumns), app_account_token.driver \(transactions)", arguments: [purchase])
        let named = try rows.map { row in (fact: try transaction(row), driver: try row[3] as Int64) }
        // If two dates are equal, the higher transaction id decides. Ids are numbers without leading zeros, so a longer
        // id is higher than a shorter one.
        return named.max { one, other in
            (one.fact.purchaseDate, one.fact.transactionID.utf8.count, one.fact.transactionID)
                < (other.fact.purchaseDate, other.fact.transactionID.utf8.count, other.fact.transactionID)
        }?.driver
    }

    static func driverID(ofOwner owner: Int64?, _ db: any SQLTransaction) throws -> DriverID? {
        try owner.flatMap { driver in
            try String.fetchOne(db, sql: "SELECT driver_id FROM driver WHERE id = ?", arguments: [driver])
        }.map { DriverID($0) }
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

    private static func believed(_ table: String) -> String {
        """
        FROM \(table)
        LEFT JOIN purchase_signer ON purchase_signer.id = signer WHERE \(isBelieved)
        """
    }

    private static func row(
        of key: SubscriptionKey, _ db: any SQLTransaction
    ) throws -> (id: Int64, mayBeAnonymous: Bool) {
        let arguments: SQLArguments = [key.environment.rawValue, key.originalTransactionID]
        let stored = try SQLRow.fetchOne(
            db, sql: "SELECT id, driver IS NULL FROM purchase WHERE environment = ? AND original_transaction_id = ?",
            arguments: arguments)
        if let stored { return try (stored[0], stored[1]) }
        let row = try inserted(
            db, sql: "INSERT INTO purchase (environment, original_transaction_id) VALUES (?, ?) RETURNING id",
            arguments: arguments)
        return (row, false)
    }

    private static func put(_ fact: TransactionFact, in purchase: Int64, _ db: any SQLTransaction) throws {
        let stored = "\(believed("purchase_transaction")) AND environment = ? AND transaction_id = ?"
        let key: SQLArguments = [fact.environment.rawValue, fact.transactionID]
        guard
            try isNewer(
                fact.signedDate, fact.proof, stored, key, db,
                { known in try fact.isNewer(than: transaction(known)) })
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
            try isNewer(
                fact.signedDate, fact.proof, stored, [purchase], db,
                { known in try fact.isNewer(than: renewal(known)) })
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

    /// Returns true if no believed fact is stored, or if the new fact is newer than the stored believed one. A fact of
    /// a revoked signer never counts as newer than a believed fact.
    ///
    /// Like `PurchaseFacts`, compares the signing dates first. The other columns of the stored fact are large, so they
    /// are read only if the dates are equal.
    ///
    /// - Parameter stored: the part of the query from `FROM` on, for the stored believed fact.
    private static func isNewer(
        _ signed: Moment, _ proof: SignatureProof?, _ stored: String, _ arguments: SQLArguments,
        _ db: any SQLTransaction, _ decide: (SQLRow) throws -> Bool
    ) throws -> Bool {
        let date = try Moment.fetchOne(db, sql: "SELECT signed_at_ms \(stored)", arguments: arguments)
        guard let date else { return true }
        guard signed >= date, try !isRevoked(proof, db) else { return false }
        if signed != date { return true }
        let known = try SQLRow.fetchOne(db, sql: "SELECT \(factColumns) \(stored)", arguments: arguments)
        return try known.map(decide) ?? true
    }

    /// Returns whether the database records this proof's signer as revoked. The verifier that accepted the proof may
    /// not know of the revocation: another process may have recorded it, and the verifier of `dwell purchases replay`
    /// never reads these records.
    private static func isRevoked(_ proof: SignatureProof?, _ db: any SQLTransaction) throws -> Bool {
        guard let proof else { return false }
        return try Bool.fetchOne(
            db, sql: "SELECT EXISTS (SELECT 1 FROM purchase_signer WHERE header = ? AND revoked_at_ms IS NOT NULL)",
            arguments: [proof.header]) ?? false
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
