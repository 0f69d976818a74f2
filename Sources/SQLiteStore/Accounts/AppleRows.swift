// Rows about the exchange with Apple's server: encrypted refresh tokens, the queue of tokens to be revoked, and Apple's
// notifications.

import GRDB
import Identity
import JourneyModel

import struct Foundation.Data

enum AppleRows {
    // MARK: Refresh tokens

    static func keep(
        _ outcome: AppleCodeExchangeOutcome, of identity: AppleIdentity, driver: DriverID,
        from origin: RequestOrigin, _ db: Database
    ) throws {
        let row = try DriverRows.row(of: driver, db)
        switch outcome {
        case .failed(let reason):
            try AuditRows.add(.appleCodeExchange, .failed, reason: reason, driver: row, from: origin, db)
        case .sealed(let token):
            let isLinked = try Bool.fetchOne(
                db, sql: "SELECT EXISTS (SELECT 1 FROM apple_identity WHERE subject = ? AND driver = ?)",
                arguments: [identity.subject, row])
            if isLinked == true, let row {
                try keep(token, clientID: identity.clientID, of: row, db)
            } else {
                // The account was deleted during the call to Apple, so the new token is revoked.
                try revoke(
                    token.data, subject: identity.subject, clientID: identity.clientID, at: origin.at, db)
            }
            try AuditRows.add(.appleCodeExchange, .done, driver: row, from: origin, db)
        }
    }

    private static func keep(_ token: [UInt8], clientID: String, of driver: Int64, _ db: Database) throws {
        try db.execute(
            sql: """
                INSERT INTO apple_refresh_token (driver, client_id, sealed_refresh_token) VALUES (?, ?, ?)
                ON CONFLICT (driver, client_id) DO UPDATE SET sealed_refresh_token = excluded.sealed_refresh_token
                """,
            arguments: [driver, clientID, token.data])
    }

    /// Moves the driver's refresh tokens of all apps, if any, into the queue of tokens to be revoked.
    static func revokeTokens(of driver: Int64, at now: Moment, _ db: Database) throws {
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT sealed_refresh_token, subject, apple_refresh_token.client_id FROM apple_refresh_token
                JOIN apple_identity ON apple_identity.driver = apple_refresh_token.driver
                WHERE apple_refresh_token.driver = ?
                """,
            arguments: [driver])
        for row in rows { try revoke(row[0], subject: row[1], clientID: row[2], at: now, db) }
        try forgetTokens(of: driver, db)
    }

    private static func forgetTokens(of driver: Int64, _ db: Database) throws {
        try db.execute(sql: "DELETE FROM apple_refresh_token WHERE driver = ?", arguments: [driver])
    }

    private static func revoke(
        _ sealedToken: Data, subject: String, clientID: String, at now: Moment, _ db: Database
    ) throws {
        try db.execute(
            sql: """
                INSERT INTO apple_revocation
                (client_id, sealed_refresh_token, subject_digest, next_attempt_at_ms, created_at_ms)
                VALUES (?, ?, ?, ?, ?)
                """,
            arguments: [
                clientID, sealedToken, plainDigest(subject).data, now.millisecondsSinceEpoch,
                now.millisecondsSinceEpoch,
            ])
    }

    static func nextRevocation(at now: Moment, _ db: Database) throws -> AppleRevocation? {
        let row = try Row.fetchOne(
            db,
            sql: """
                SELECT id, client_id, sealed_refresh_token, subject_digest, attempt_count FROM apple_revocation
                WHERE next_attempt_at_ms <= ? ORDER BY next_attempt_at_ms, id LIMIT 1
                """,
            arguments: [now.millisecondsSinceEpoch])
        return row.map { row in
            AppleRevocation(
                id: row[0], clientID: row[1], sealedRefreshToken: Array(row[2] as Data),
                subjectDigest: Array(row[3] as Data), attemptCount: row[4])
        }
    }

    // MARK: Notices

    /// Applies a notification, unless it was applied before. Returns the driver whom it deleted, if any.
    static func take(
        _ notice: AppleServerNotification, _ erasing: Erasing, rowsMax: Int, from origin: RequestOrigin, _ db: Database
    ) throws -> (driver: DriverID, piece: ErasurePiece)? {
        try db.execute(
            sql: "INSERT INTO apple_notice (jti_digest, taken_at_ms) VALUES (?, ?) ON CONFLICT DO NOTHING",
            arguments: [plainDigest(notice.jti).data, origin.at.millisecondsSinceEpoch])
        guard db.changesCount == 1 else { return nil }
        let row = try Row.fetchOne(
            db,
            sql: """
                SELECT driver.id, driver_id FROM apple_identity JOIN driver ON driver.id = driver WHERE subject = ?
                """,
            arguments: [notice.subject])
        guard let row else {
            try AuditRows.add(.appleNotice, .done, reason: "unknown_subject", from: origin, db)
            return nil
        }
        let driver: Int64 = row[0]
        try AuditRows.add(.appleNotice, .done, reason: notice.kind.word, driver: driver, from: origin, db)
        switch notice.kind {
        case .accountDeleted:
            return (DriverID(row[1]), try erasing.erase(DriverID(row[1]), rowsMax: rowsMax, db))
        case .consentRevoked: try forgetConsent(of: driver, at: origin.at, db)
        case .emailEnabled, .emailDisabled:
            try db.execute(
                sql: "UPDATE apple_identity SET forwards_email = ? WHERE driver = ?",
                arguments: [notice.kind == .emailEnabled, driver])
        case .other: break
        }
        return nil
    }

    /// Ends the driver's sessions that were created by signing in with Apple. Deletes Apple's refresh tokens without
    /// queueing them, because Apple has already revoked them.
    private static func forgetConsent(of driver: Int64, at now: Moment, _ db: Database) throws {
        let sids = try Set(
            String.fetchAll(
                db, sql: "SELECT sid FROM sign_in_session WHERE driver = ? AND method = 'apple'", arguments: [driver]))
        let sessions = try SignInSessionRows.all(of: driver, db).filter { sids.contains($0.sid) }
        try SignInSessionRows.end(sessions, at: now, db)
        try forgetTokens(of: driver, db)
    }
}

extension AppleServerNotification.Kind {
    fileprivate var word: String {
        switch self {
        case .consentRevoked: "consent_revoked"
        case .accountDeleted: "account_deleted"
        case .emailEnabled: "email_enabled"
        case .emailDisabled: "email_disabled"
        case .other: "other"
        }
    }
}
