// Begins the deletion of a driver. One transaction does three things. It removes the account and everything that
// identifies the driver or can be used to reach the driver. It renames the driver. And it records the deletion. From
// then on, no request finds the driver. Events remain, without a link to a person. Later transactions rewrite the
// events and other tables that may have many rows (ErasureProgress.swift).

import GRDB
import Identity
import JourneyModel

struct Erasing: Sendable {
    var receipt: ErasureReceipt
    /// The name that replaces the driver's id. The new ids of the driver's sessions and events also begin with this
    /// name. The name is random, so no other erasure has the same one, and no client has ever used it.
    var pseudonym: String
    var digests: KeyedHashes
    /// Whether the deletion was requested by the command `dwell driver erase`. Such a deletion gets an additional
    /// audit entry.
    var isByOperator = false

    /// Begins the deletion, and also completes it if no more than `rowsMax` rows must be rewritten. A deletion is
    /// recorded even for a driver without stored data, so that the driver's tokens are rejected.
    func erase(_ driver: DriverID, rowsMax: Int, _ db: Database) throws -> ErasurePiece {
        let digest = digests.driver(driver)
        let row = try DriverRows.row(of: driver, db)
        if let row {
            try ErasureProgress.begin(row, digest, db)
            try endSignIns(row, db)
            try eraseIdentities(row, db)
            try PurchaseRows.erase(row, db)
            try rename(row, db)
        }
        try Self.addTombstone(digest, at: receipt.deletedAt, db)
        try RevocationRows.add(sid: nil, at: receipt.deletedAt, db)
        // If the deletion is requested again before it is complete, this new receipt refers to the same rows as the
        // first receipt.
        let unfinished = try row ?? ErasureProgress.unfinished(digest, db).last
        try recordErasure(of: unfinished, db)
        guard let row, var progress = try ErasureProgress(of: row, db) else { return ErasurePiece() }
        var piece = try progress.advance(rowsMax: rowsMax, mayComplete: true, db)
        piece.changesDrivers()
        return piece
    }

    private func endSignIns(_ driver: Int64, _ db: Database) throws {
        // The feed of revocations gets one row for the deleted driver. It gets no rows for the ended sessions, because
        // such rows would keep the sessions' ids in the feed for a while.
        for session in try SignInSessionRows.all(of: driver, db) { try SignInSessionRows.remove(session, db) }
        for table in ["device", "session_code"] {
            try db.execute(sql: "DELETE FROM \(table) WHERE driver = ?", arguments: [driver])
        }
    }

    private func eraseIdentities(_ driver: Int64, _ db: Database) throws {
        try AppleRows.revokeTokens(of: driver, at: receipt.deletedAt, db)
        let phone = try String.fetchOne(
            db, sql: "SELECT phone FROM phone_identity WHERE driver = ?", arguments: [driver])
        if let number = phone.flatMap(PhoneNumber.init) { try eraseCodes(of: number, db) }
        for table in ["apple_identity", "phone_identity", "account"] {
            try db.execute(sql: "DELETE FROM \(table) WHERE driver = ?", arguments: [driver])
        }
    }

    /// Deletes the codes of a phone number. The records of sent codes lose the number, but still count toward the limit
    /// per address and the total limit.
    private func eraseCodes(of number: PhoneNumber, _ db: Database) throws {
        let digest = digests.phone(number).data
        try db.execute(sql: "DELETE FROM one_time_code WHERE phone_digest = ?", arguments: [digest])
        try db.execute(sql: "DELETE FROM asked_code WHERE phone_digest = ?", arguments: [digest])
        try db.execute(sql: "DELETE FROM one_time_code_guess WHERE phone_digest = ?", arguments: [digest])
        try db.execute(
            sql: "UPDATE one_time_code_send SET phone_digest = randomblob(32) WHERE phone_digest = ?",
            arguments: [digest])
        // When the first code for the number was requested, the number had no account yet. The audit entry of that
        // request therefore names no driver, and is found by the digest of the number.
        try db.execute(
            sql: """
                UPDATE audit SET sid = NULL, address = NULL, request_id = NULL, phone_digest = NULL
                WHERE phone_digest = ?
                """,
            arguments: [digest])
    }

    private func rename(_ driver: Int64, _ db: Database) throws {
        try db.execute(
            sql: "UPDATE driver SET driver_id = ?1, last_correction_ms = NULL, clock_memory = NULL WHERE id = ?2",
            arguments: [pseudonym, driver])
    }

    /// Stores the tombstone, so that from now on the driver's tokens issued before `moment` are rejected.
    static func addTombstone(_ digest: [UInt8], at moment: Moment, _ db: Database) throws {
        try db.execute(
            sql: """
                INSERT INTO erased_driver (driver_digest, erased_at_ms) VALUES (?, ?)
                ON CONFLICT (driver_digest) DO UPDATE SET erased_at_ms = max(erased_at_ms, excluded.erased_at_ms)
                """,
            arguments: [digest.data, moment.millisecondsSinceEpoch])
    }

    /// Adds the receipt to the audit, without the origin of the request. The receipt refers to the driver's remaining
    /// rows. These rows identify no one.
    private func recordErasure(of driver: Int64?, _ db: Database) throws {
        for action in isByOperator ? [AuditAction.operatorErasure, .erased] : [.erased] {
            try db.execute(
                literal: """
                    INSERT INTO audit (at_ms, action, outcome, reason, driver)
                    VALUES (\(receipt.deletedAt.millisecondsSinceEpoch), \(action.rawValue),
                        \(AuditOutcome.done.rawValue), \(receipt.id), \(driver))
                    """)
        }
    }
}
