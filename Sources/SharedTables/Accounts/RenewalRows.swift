// Renews refresh tokens, and the single tokens that shipped clients have instead of a token pair. One transaction
// judges a refresh token and marks it as spent. If two requests present the same token at once, one of them therefore
// finds it spent.

import Identity
import JourneyModel

enum RenewalRows {
    static func add(_ token: NewRefreshToken, of session: Int64, at now: Moment, _ db: any SQLTransaction) throws {
        try db.execute(
            sql: "INSERT INTO refresh_token (digest, session, issued_at_ms, expires_at_ms) VALUES (?, ?, ?, ?)",
            arguments: [
                token.digest, session, now.millisecondsSinceEpoch, token.expiresAt.millisecondsSinceEpoch,
            ])
    }

    static func rotate(
        _ digest: [UInt8], to new: NewRefreshToken, from origin: RequestOrigin, _ db: any SQLTransaction
    ) throws -> RenewalOutcome {
        guard let (token, session) = try presented(digest, db) else {
            try AuditRows.add(.refresh, .refused, reason: "unknown", from: origin, db)
            return .refused
        }
        let rule = RefreshRule.judge(token, successor: try Self.token(new.digest, of: session.id, db), at: origin.at)
        switch rule {
        case .expired, .unrepeatable:
            try AuditRows.add(
                .refresh, .refused, reason: rule == .expired ? "expired" : "unrepeatable", driver: session.driver,
                sid: session.sid, from: origin, db)
            return .refused
        case .reuse:
            try SignInSessionRows.end([session], at: origin.at, db)
            try AuditRows.add(
                .refreshReuse, .refused, reason: "session_ended", driver: session.driver, sid: session.sid,
                from: origin, db)
            return .ended
        case .rotate:
            try db.execute(
                sql: "UPDATE refresh_token SET spent_at_ms = ? WHERE digest = ?",
                arguments: [origin.at.millisecondsSinceEpoch, digest])
            try add(new, of: session.id, at: origin.at, db)
            try forgetOld(of: session.id, at: origin.at, db)
            return try renewed(session, until: new.expiresAt, reason: nil, from: origin, db)
        case .repeat:
            // A repeat gets the same result as the first request. It does not extend the session.
            return try renewed(session, until: origin.at, reason: "repeat", from: origin, db)
        }
    }

    static func renew(
        _ sid: String, of driver: DriverID, until expiresAt: Moment, from origin: RequestOrigin,
        _ db: any SQLTransaction
    ) throws -> RenewalOutcome {
        // Only a single token may be renewed here. An access token of a pair is valid for an hour. If it were renewed
        // as a single token, it would give access for a month.
        let session = try SignInSessionRows.row(of: sid, driver: driver, db)
        guard let session, session.kind == .legacy else {
            try AuditRows.add(
                .refresh, .refused, reason: session == nil ? "unknown" : "not_a_single_token",
                driver: session?.driver, sid: session?.sid, from: origin, db)
            return .refused
        }
        return try renewed(session, until: expiresAt, reason: nil, from: origin, db)
    }

    /// Returns the token with that digest, if it belongs to `session`.
    static func token(_ digest: [UInt8], of session: Int64, _ db: any SQLTransaction) throws -> StoredRefreshToken? {
        try SQLRow.fetchOne(
            db, sql: "SELECT expires_at_ms, spent_at_ms FROM refresh_token WHERE digest = ? AND session = ?",
            arguments: [digest, session]
        ).map { try StoredRefreshToken(expiresAt: $0[0], spentAt: $0[1]) }
    }

    private static func presented(
        _ digest: [UInt8], _ db: any SQLTransaction
    ) throws -> (StoredRefreshToken, SignInSessionRow)? {
        let row = try SQLRow.fetchOne(
            db,
            sql: """
                SELECT refresh_token.expires_at_ms, spent_at_ms, sign_in_session.id, sid, driver
                FROM refresh_token JOIN sign_in_session ON sign_in_session.id = refresh_token.session WHERE digest = ?
                """,
            arguments: [digest])
        guard let row else { return nil }
        return (
            try StoredRefreshToken(expiresAt: row[0], spentAt: row[1]),
            try SignInSessionRow(id: row[2], sid: row[3], driver: row[4], kind: .pair)
        )
    }

    /// Sets the session's expiry to `expiresAt` and its last use to the time of this request, but keeps stored times
    /// that are later. A stored last use in the future is replaced all the same, because it was stored before the clock
    /// was set back.
    private static func renewed(
        _ session: SignInSessionRow, until expiresAt: Moment, reason: String?, from origin: RequestOrigin,
        _ db: any SQLTransaction
    ) throws -> RenewalOutcome {
        try db.execute(
            sql: """
                UPDATE sign_in_session SET
                    last_used_at_ms = CASE WHEN last_used_at_ms < ?1 OR last_used_at_ms > ?4 THEN ?1
                        ELSE last_used_at_ms END,
                    expires_at_ms = CASE WHEN expires_at_ms < ?2 THEN ?2 ELSE expires_at_ms END
                WHERE id = ?3
                """,
            arguments: [origin.at, expiresAt, session.id, ServerClocks.latest(at: origin.at)])
        try AuditRows.add(
            .refresh, .done, reason: reason, driver: session.driver, sid: session.sid, from: origin, db)
        guard let user = try DriverRows.user(session.driver, db) else {
            throw UnreadableColumn(name: "account.driver")
        }
        return .renewed(user, sid: session.sid)
    }

    /// Deletes the session's expired tokens. If more than `refreshTokensPerSessionMax` tokens remain, deletes up to
    /// four of the surplus tokens.
    ///
    /// Unspent tokens are kept first, then the spent tokens that were issued last. An unspent token is therefore kept
    /// even if the clock was set back. The spent tokens are not ordered by `expires_at_ms`: if the lifetime of tokens
    /// was shortened, a new token expires before older ones.
    private static func forgetOld(of session: Int64, at now: Moment, _ db: any SQLTransaction) throws {
        try db.execute(
            sql: "DELETE FROM refresh_token WHERE session = ? AND expires_at_ms <= ?",
            arguments: [session, now.millisecondsSinceEpoch])
        try db.execute(
            sql: """
                DELETE FROM refresh_token WHERE digest IN (
                    SELECT digest FROM refresh_token WHERE session = ?
                    ORDER BY (spent_at_ms IS NULL) DESC, issued_at_ms DESC LIMIT 4 OFFSET ?)
                """,
            arguments: [session, AccountRules.refreshTokensPerSessionMax])
    }
}
