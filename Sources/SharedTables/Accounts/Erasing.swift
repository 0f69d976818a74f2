// Begins the deletion of a driver. One transaction removes everything that identifies the driver, and the driver's
// sign-in sessions and devices. It also renames the driver and records the deletion. After that, no request finds the
// driver.
//
// Events remain, without a link to a person. Later transactions rewrite the events, and the other tables that may have
// many of the driver's rows (EventErasure.swift).

import Identity
import JourneyModel

struct Erasing: Sendable {
    var receipt: ErasureReceipt
    /// The random name that replaces the driver's id. The new ids of the driver's sessions and events begin with it. No
    /// other deletion has the same name, and no client has ever used it.
    var pseudonym: String
    var digests: KeyedHashes
    var events: any EventErasure
    /// Whether the command `dwell driver erase` requested the deletion. Such a deletion gets an additional audit entry.
    var isByOperator = false

    /// Begins the deletion, and completes it if only a few rows must be rewritten. If nothing is stored about the
    /// driver, still records the deletion, so that the driver's tokens are rejected. Returns the effects on SQLite's
    /// WAL and on the writer's cache of drivers.
    func erase(_ driver: DriverID, _ db: any SQLTransaction) throws -> ChangeEffects {
        let digest = digests.driver(driver)
        let row = try DriverRows.row(of: driver, db)
        if let row {
            try events.beginErasure(of: row, digest: digest, pseudonym: pseudonym, db)
            try PurchaseRows.erase(row, db)
            try endSignIns(row, db)
            try eraseIdentities(row, db)
        } else {
            try events.collideWithAdding(driver, at: receipt.deletedAt, db)
        }
        try Self.addTombstone(digest, at: receipt.deletedAt, db)
        try RevocationRows.add(sid: nil, at: receipt.deletedAt, db)
        // If an earlier request began this deletion but did not complete it, the driver already has another id, and
        // `row` is nil. The new receipt gets the driver's row number from the unfinished deletion.
        let unfinished = try row ?? events.unfinishedErasures(digest, db).last
        try recordErasure(of: unfinished, db)
        guard let row else { return ChangeEffects() }
        return try events.eraseFirstRows(of: row, db)
    }

    private func endSignIns(_ driver: Int64, _ db: any SQLTransaction) throws {
        // Ends the sessions without adding their ids to the feed of revocations, where the ids would stay for a while.
        // `erase` adds one row for the deleted driver instead.
        for session in try SignInSessionRows.all(of: driver, db) { try SignInSessionRows.remove(session, db) }
        for table in ["device", "session_code"] {
            try db.execute(sql: "DELETE FROM \(table) WHERE driver = ?", arguments: [driver])
        }
    }

    private func eraseIdentities(_ driver: Int64, _ db: any SQLTransaction) throws {
        try AppleRows.revokeTokens(of: driver, at: receipt.deletedAt, db)
        let phone = try String.fetchOne(
            db, sql: "SELECT phone FROM phone_identity WHERE driver = ?", arguments: [driver])
        if let number = phone.flatMap(PhoneNumber.init) { try eraseCodes(of: number, db) }
        for table in ["apple_identity", "phone_identity", "account"] {
            try db.execute(sql: "DELETE FROM \(table) WHERE driver = ?", arguments: [driver])
        }
    }

    /// Deletes the codes of a phone number. The records of sent codes lose the number, but still count toward all
    /// limits except the limit per number.
    private func eraseCodes(of number: PhoneNumber, _ db: any SQLTransaction) throws {
        let digest = digests.phone(number)
        try events.eraseOlderCodes(ofPhone: digest, db)
        try db.execute(sql: "DELETE FROM asked_code WHERE phone_digest = ?", arguments: [digest])
        try db.execute(sql: "DELETE FROM one_time_code_guess WHERE phone_digest = ?", arguments: [digest])
        // Each record gets different random bytes, so nobody can tell which records belong to the same number.
        let sends = try Int64.fetchAll(
            db, sql: "SELECT id FROM one_time_code_send WHERE phone_digest = ?", arguments: [digest])
        for send in sends {
            try db.execute(
                sql: "UPDATE one_time_code_send SET phone_digest = ? WHERE id = ?",
                arguments: [(0..<32).map { _ in UInt8.random(in: 0...255) }, send])
        }
        // The number had no account yet when its first code was requested. The audit entry of that request therefore
        // names no driver, and is found by the digest of the number.
        try db.execute(
            sql: """
                UPDATE audit SET sid = NULL, address = NULL, request_id = NULL, phone_digest = NULL
                WHERE phone_digest = ?
                """,
            arguments: [digest])
    }

    /// Stores the tombstone. After that, tokens of the driver that were issued before `moment` are rejected.
    static func addTombstone(_ digest: [UInt8], at moment: Moment, _ db: any SQLTransaction) throws {
        try db.execute(
            sql: """
                INSERT INTO erased_driver (driver_digest, erased_at_ms) VALUES (?, ?)
                ON CONFLICT (driver_digest) DO UPDATE SET erased_at_ms =
                    CASE WHEN erased_driver.erased_at_ms < excluded.erased_at_ms THEN excluded.erased_at_ms
                    ELSE erased_driver.erased_at_ms END
                """,
            arguments: [digest, moment.millisecondsSinceEpoch])
    }

    /// Adds the receipt to the audit, without the origin of the request. The receipt contains the driver's row number.
    /// Other rows may contain this number too, but none of them identifies a person.
    private func recordErasure(of driver: Int64?, _ db: any SQLTransaction) throws {
        for action in isByOperator ? [AuditAction.operatorErasure, .erased] : [.erased] {
            try db.execute(
                sql: "INSERT INTO audit (at_ms, action, outcome, reason, driver) VALUES (?, ?, ?, ?, ?)",
                arguments: [receipt.deletedAt, action.rawValue, AuditOutcome.done.rawValue, receipt.id, driver])
        }
    }
}
