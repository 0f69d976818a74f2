// Deletes a driver in one transaction: the account and everything that identifies or reaches it are removed, and
// events remain without a link to a person. Everything that keeps a journey consistent is kept: times, states,
// verdicts, and the order of keys.

import GRDB
import Identity
import JourneyModel

struct Erasing: Sendable {
    var receipt: ErasureReceipt
    /// Replaces the driver's id and prefixes the names that replace those of its sessions and events. Random: no
    /// two erasures share it, and no client has used it.
    var pseudonym: String
    var digests: KeyedHashes
    /// `dwell driver erase`, which gets its own audit entry.
    var isByOperator = false

    /// Also for a driver without stored data: its tokens are rejected nevertheless.
    func erase(_ driver: DriverID, _ db: Database) throws {
        let row = try DriverRows.row(of: driver, db)
        if let row {
            try endSignIns(row, db)
            try eraseIdentities(row, db)
            try PurchaseRows.erase(row, db)
            try eraseAudit(row, db)
            try renameJourney(row, db)
            try eraseTexts(row, db)
        }
        try Self.bury(digests.driver(driver), at: receipt.deletedAt, db)
        try RevocationRows.add(sid: nil, at: receipt.deletedAt, db)
        try recordErasure(of: row, db)
    }

    private func endSignIns(_ driver: Int64, _ db: Database) throws {
        // The feed announces the driver, not these sessions: otherwise their ids would stay in it for a while.
        for session in try SignInSessionRows.all(of: driver, db) { try SignInSessionRows.remove(session, db) }
        try db.execute(
            sql: "DELETE FROM revocation WHERE sid IN (SELECT sid FROM audit WHERE driver = ?)", arguments: [driver])
        try db.execute(sql: "DELETE FROM device WHERE driver = ?", arguments: [driver])
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

    /// The sends still count for their address and in total, without the number.
    private func eraseCodes(of number: PhoneNumber, _ db: Database) throws {
        let digest = digests.phone(number).data
        try db.execute(sql: "DELETE FROM one_time_code WHERE phone_digest = ?", arguments: [digest])
        try db.execute(sql: "DELETE FROM asked_code WHERE phone_digest = ?", arguments: [digest])
        try db.execute(sql: "DELETE FROM one_time_code_guess WHERE phone_digest = ?", arguments: [digest])
        try db.execute(
            sql: "UPDATE one_time_code_send SET phone_digest = randomblob(32) WHERE phone_digest = ?",
            arguments: [digest])
        // The first code was requested when the number was not known yet.
        try db.execute(
            sql: """
                UPDATE audit SET sid = NULL, address = NULL, request_id = NULL, phone_digest = NULL
                WHERE phone_digest = ?
                """,
            arguments: [digest])
    }

    private func eraseAudit(_ driver: Int64, _ db: Database) throws {
        try db.execute(
            sql: "UPDATE audit SET sid = NULL, address = NULL, request_id = NULL WHERE driver = ?",
            arguments: [driver])
    }

    private func renameJourney(_ driver: Int64, _ db: Database) throws {
        try db.execute(
            sql: "UPDATE driver SET driver_id = ?1, last_correction_ms = NULL, clock_memory = NULL WHERE id = ?2",
            arguments: [pseudonym, driver])
        try db.execute(
            sql: """
                UPDATE session SET session_id = ?1 || '-' || id, registered_charger = NULL, registered_merchant = NULL
                WHERE driver = ?2
                """, arguments: [pseudonym, driver])
        // The order compares event_id and then the key, as bytes, after everything that is kept. Numbers in that
        // order, of one length, preserve it; event_id NULL means that it equals the key. A sequence can contain
        // anything, like a text, and so can the digits and the offset of a time as sent: only which comes first,
        // the moment, and whether it had a fraction are kept.
        try db.execute(
            sql: """
                UPDATE event SET idempotency_key = ?1 || '-' || printf('%012d', place), event_id = NULL,
                    digest = zeroblob(32), metadata = NULL, sequence = iif(sequence IS NULL, NULL, sequence_place),
                    occurred_at = strftime(
                        iif(instr(occurred_at, '.'), '%Y-%m-%dT%H:%M:%fZ', '%Y-%m-%dT%H:%M:%SZ'),
                        occurred_at_ms / 1000.0, 'unixepoch')
                FROM (
                    SELECT id AS numbered, row_number() OVER (
                        ORDER BY corrected_at_ms, coalesce(event_id, idempotency_key), idempotency_key) AS place,
                        dense_rank() OVER (ORDER BY sequence) AS sequence_place
                    FROM event WHERE driver = ?2)
                WHERE event.id = numbered
                """,
            arguments: [pseudonym, driver])
    }

    /// Deletes the texts that only this driver used; texts that others use too identify no one. Since uses are
    /// deleted as well, the last user who is deleted removes the text.
    private func eraseTexts(_ driver: Int64, _ db: Database) throws {
        func onlyUsed(_ table: String, _ column: String) -> String {
            """
            SELECT \(column) FROM \(table) WHERE driver = ?2 AND NOT EXISTS (
                SELECT 1 FROM \(table) AS other WHERE other.\(column) = \(table).\(column) AND other.driver <> ?2)
            """
        }
        try db.execute(
            sql: "UPDATE place SET place_id = ?1 || '-' || id WHERE id IN (\(onlyUsed("place_use", "place")))",
            arguments: [pseudonym, driver])
        // A separate source for each, so that no two kinds become equal.
        try db.execute(
            sql: """
                UPDATE event_kind SET source = ?1 || '-' || id, schema_version = '1.0',
                    name = iif(lifecycle_rank = ?3, 'erased_diagnostic', name),
                    spelling = iif(lifecycle_rank = ?3, 'erased_diagnostic', spelling)
                WHERE id IN (\(onlyUsed("event_kind_use", "kind")))
                """,
            arguments: [pseudonym, driver, EventName.diagnostic("d").lifecycleRank])
        for table in ["place_use", "event_kind_use"] {
            try db.execute(sql: "DELETE FROM \(table) WHERE driver = ?", arguments: [driver])
        }
    }

    /// From here on, tokens of this driver from before that time are rejected.
    static func bury(_ digest: [UInt8], at moment: Moment, _ db: Database) throws {
        try db.execute(
            sql: """
                INSERT INTO erased_driver (driver_digest, erased_at_ms) VALUES (?, ?)
                ON CONFLICT (driver_digest) DO UPDATE SET erased_at_ms = max(erased_at_ms, excluded.erased_at_ms)
                """,
            arguments: [digest.data, moment.millisecondsSinceEpoch])
    }

    /// Without the origin of the request. The receipt leads to the rest of the driver's rows, and those lead to no
    /// person.
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
