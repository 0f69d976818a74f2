// Rows for the exchange with Apple's server: encrypted refresh tokens, the queue of tokens to revoke, and Apple's
// notifications.

import Identity
import JourneyModel

enum AppleRows {
    // MARK: Refresh tokens

    static func keep(
        _ outcome: AppleCodeExchangeOutcome, of identity: AppleIdentity, driver: DriverID,
        from origin: RequestOrigin, _ db: any SQLTransaction
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
                try revoke(token, subject: identity.subject, clientID: identity.clientID, at: origin.at, db)
            }
            try AuditRows.add(.appleCodeExchange, .done, driver: row, from: origin, db)
        }
    }

    private static func keep(_ token: [UInt8], clientID: String, of driver: Int64, _ db: any SQLTransaction) throws {
        try db.execute(
            sql: """
                INSERT INTO apple_refresh_token (driver, client_id, sealed_refresh_token) VALUES (?, ?, ?)
                ON CONFLICT (driver, client_id) DO UPDATE SET sealed_refresh_token = excluded.sealed_refresh_token
                """,
            arguments: [driver, clientID, token])
    }

    /// Moves the driver's refresh tokens of all apps into the queue of tokens to revoke.
    static func revokeTokens(of driver: Int64, at now: Moment, _ db: any SQLTransaction) throws {
        let rows = try SQLRow.fetchAll(
            db,
            sql: """
                SELECT sealed_refresh_token, subject, apple_refresh_token.client_id FROM apple_refresh_token
                JOIN apple_identity ON apple_identity.driver = apple_refresh_token.driver
                WHERE apple_refresh_token.driver = ?
                """,
            arguments: [driver])
        for row in rows { try revoke(try row[0], subject: try row[1], clientID: try row[2], at: now, db) }
        try forgetTokens(of: driver, db)
    }

    private static func forgetTokens(of driver: Int64, _ db: any SQLTransaction) throws {
        try db.execute(sql: "DELETE FROM apple_refresh_token WHERE driver = ?", arguments: [driver])
    }

    private static func revoke(
        _ sealedToken: [UInt8], subject: String, clientID: String, at now: Moment, _ db: any SQLTransaction
    ) throws {
        try db.execute(
            sql: """
                INSERT INTO apple_revocation
                (client_id, sealed_refresh_token, subject_digest, next_attempt_at_ms, created_at_ms)
                VALUES (?, ?, ?, ?, ?)
                """,
            arguments: [
                clientID, sealedToken, plainDigest(subject), now.millisecondsSinceEpoch,
                now.millisecondsSinceEpoch,
            ])
    }

    static func nextRevocation(at now: Moment, _ db: any SQLTransaction) throws -> AppleRevocation? {
        let latest = ServerClocks.latest(at: now).advanced(bySeconds: AppleRevocation.retrySecondsMax)
        return try revocation("next_attempt_at_ms <= ?", now, db) ?? revocation("next_attempt_at_ms > ?", latest, db)
    }

    private static func revocation(
        _ condition: String, _ moment: Moment, _ db: any SQLTransaction
    ) throws -> AppleRevocation? {
        let row = try SQLRow.fetchOne(
            db,
            sql: """
                SELECT id, client_id, sealed_refresh_token, subject_digest, attempt_count FROM apple_revocation
                WHERE \(condition) ORDER BY next_attempt_at_ms, id LIMIT 1
                """,
            arguments: [moment])
        return try row.map { row in
            try AppleRevocation(
                id: row[0], clientID: row[1], sealedRefreshToken: row[2], subjectDigest: row[3], attemptCount: row[4])
        }
    }

    // MARK: Notices

    /// Applies a notification, unless it was applied before. If the notification deletes a driver, returns the driver,
    /// and the effects on SQLite's WAL and on the writer's cache of drivers. Returns nil if no driver is deleted.
    static func take(
        _ notice: AppleServerNotification, _ erasing: Erasing, from origin: RequestOrigin, _ db: any SQLTransaction
    ) throws -> (driver: DriverID, effects: ChangeEffects)? {
        let added = try db.execute(
            sql: "INSERT INTO apple_notice (jti_digest, taken_at_ms) VALUES (?, ?) ON CONFLICT DO NOTHING",
            arguments: [plainDigest(notice.jti), origin.at.millisecondsSinceEpoch])
        guard added == 1 else { return nil }
        let row = try SQLRow.fetchOne(
            db,
            sql: """
                SELECT id, driver_id FROM driver WHERE id = (SELECT driver FROM apple_identity WHERE subject = ?)
                """,
            arguments: [notice.subject])
        guard let row else {
            try AuditRows.add(.appleNotice, .done, reason: "unknown_subject", from: origin, db)
            return nil
        }
        let driver: Int64 = try row[0]
        try AuditRows.add(.appleNotice, .done, reason: notice.kind.word, driver: driver, from: origin, db)
        switch notice.kind {
        case .accountDeleted:
            let id = DriverID(try row[1])
            return (id, try erasing.erase(id, db))
        case .consentRevoked:
            try forgetConsent(of: driver, revokedAtSeconds: notice.happenedAtSeconds, at: origin.at, db)
        case .emailEnabled, .emailDisabled:
            try db.execute(
                sql: "UPDATE apple_identity SET forwards_email = ? WHERE driver = ?",
                arguments: [notice.kind == .emailEnabled, driver])
        case .other: break
        }
        return nil
    }

    /// The maximum difference in seconds between Apple's clock and this server's.
    private static let clockDifferenceSecondsMax: Int64 = 300

    /// Ends the driver's sessions with Apple that were created before the consent was revoked. A later sign-in is a new
    /// consent, so its session continues. If `revokedAtSeconds` is nil, ends all sessions with Apple.
    ///
    /// Two kinds of later sign-ins also count as earlier than the revocation. The first are sign-ins up to
    /// `clockDifferenceSecondsMax` after it, because the clocks may differ. The second are sign-ins whose stored time
    /// is in the future, because that time was stored before the clock was set back.
    ///
    /// Also deletes Apple's refresh tokens of the driver, unless one of them may be newer than the revocation. Does not
    /// queue them for revocation, because Apple has already revoked them.
    ///
    /// A token may be newer if a session with Apple remains, or if the audit records an exchange of an authorization
    /// code after the revocation.
    private static func forgetConsent(
        of driver: Int64, revokedAtSeconds: Int64?, at now: Moment, _ db: any SQLTransaction
    ) throws {
        let last = revokedAtSeconds.map { ($0 + clockDifferenceSecondsMax) * 1000 } ?? .max
        let sids = try Set(
            String.fetchAll(
                db,
                sql: """
                    SELECT sid FROM sign_in_session
                    WHERE driver = ? AND method = 'apple' AND (created_at_ms <= ? OR created_at_ms > ?)
                    """,
                arguments: [driver, last, ServerClocks.latest(at: now)]))
        let sessions = try SignInSessionRows.all(of: driver, db).filter { sids.contains($0.sid) }
        try SignInSessionRows.end(sessions, at: now, db)
        let mayHaveNewToken = try Bool.fetchOne(
            db,
            sql: """
                SELECT EXISTS (SELECT 1 FROM sign_in_session WHERE driver = ?1 AND method = 'apple')
                    OR EXISTS (
                        SELECT 1 FROM audit WHERE driver = ?1 AND action = ?2 AND outcome = ?3 AND at_ms > ?4)
                """,
            arguments: [driver, AuditAction.appleCodeExchange.rawValue, AuditOutcome.done.rawValue, last])
        if mayHaveNewToken != true { try forgetTokens(of: driver, db) }
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
