// The verification codes of sessions. A session has at most one code. SessionCodeRule decides about an entered code.

import Engine
import GRDB
package import Identity
package import JourneyModel

import struct Foundation.Data

extension SQLiteAccounts: SessionCodeStore {
    package func issue(
        codeWithDigest digest: [UInt8], ofSession sessionID: String, at now: Moment
    ) async throws(AccountFailure) -> SessionCodeIssue {
        try await change(keepsDriverCache: true) { db in
            try SessionCodeRows.issue(digest, ofSession: sessionID, at: now, db)
        }
    }

    package func judge(
        guess: [UInt8], ofSession sessionID: String, of driver: DriverID, from origin: RequestOrigin
    ) async throws(AccountFailure) -> SessionCodeRule? {
        try await change(keepsDriverCache: true) { db in
            try SessionCodeRows.judge(guess, ofSession: sessionID, of: driver, from: origin, db)
        }
    }
}

enum SessionCodeRows {
    /// How long a row is kept after its code has expired. Within this time, a repeat of an accepted code gets its
    /// response again.
    static let keptMilliseconds: Int64 = 86_400_000

    private struct Session {
        var id: Int64
        var driver: Int64
        /// The hard deadline of the session if it is in progress; otherwise nil.
        var endsAt: Moment?
    }

    static func issue(
        _ digest: [UInt8], ofSession sessionID: String, at now: Moment, _ db: Database
    ) throws -> SessionCodeIssue {
        try prune(at: now, db)
        guard let session = try session(sessionID, of: nil, at: now, db) else { return .sessionNotFound }
        guard let endsAt = session.endsAt, try code(of: session.id, db)?.acceptedAt == nil else {
            return .sessionNotActive
        }
        try db.execute(
            sql: """
                INSERT OR REPLACE INTO session_code (session, driver, code_digest, issued_at_ms, expires_at_ms)
                VALUES (?, ?, ?, ?, ?)
                """,
            arguments: [
                session.id, session.driver, digest.data, now.millisecondsSinceEpoch, endsAt.millisecondsSinceEpoch,
            ])
        try AuditRows.add(.sessionCode, .done, reason: "by_service", ofAnother: session.driver, at: now, db)
        return .issued(expiresAt: endsAt)
    }

    static func judge(
        _ guess: [UInt8], ofSession sessionID: String, of driver: DriverID, from origin: RequestOrigin, _ db: Database
    ) throws -> SessionCodeRule? {
        guard let session = try session(sessionID, of: driver, at: origin.at, db) else { return nil }
        guard let code = try code(of: session.id, db) else { return .unavailable }
        let verdict = SessionCodeRule.judge(
            code, guess: guess, isInProgress: session.endsAt != nil, at: origin.at)
        switch verdict {
        case .right(let acceptedAt) where code.acceptedAt == nil:
            try db.execute(
                sql: "UPDATE session_code SET accepted_at_ms = ? WHERE session = ?",
                arguments: [acceptedAt.millisecondsSinceEpoch, session.id])
            try AuditRows.add(.sessionVerified, .done, driver: session.driver, from: origin, db)
        case .wrong:
            try db.execute(
                sql: "UPDATE session_code SET wrong_count = wrong_count + 1 WHERE session = ?",
                arguments: [session.id])
            try AuditRows.add(
                .sessionVerified, .refused, reason: "wrong_code", driver: session.driver, from: origin, db)
        case .right, .unavailable: break
        }
        return verdict
    }

    private static func code(of session: Int64, _ db: Database) throws -> StoredSessionCode? {
        try Row.fetchOne(
            db,
            sql: "SELECT code_digest, expires_at_ms, wrong_count, accepted_at_ms FROM session_code WHERE session = ?",
            arguments: [session]
        ).map {
            StoredSessionCode(
                digest: Array($0[0] as Data), expiresAt: Moment(millisecondsSinceEpoch: $0[1]), wrongCount: $0[2],
                acceptedAt: StoredEvents.moment($0[3]))
        }
    }

    /// Returns the session with this id; nil if there is none, or if it belongs to another driver than `driver`.
    private static func session(
        _ sessionID: String, of driver: DriverID?, at now: Moment, _ db: Database
    ) throws -> Session? {
        let row = try Row.fetchOne(
            db,
            sql: """
                SELECT session.id, driver.id, driver_id, state,
                    (SELECT current.session_id FROM session AS current WHERE current.id = driver.session),
                    NULL, NULL, grace_deadline_ms, hard_deadline_ms, ended_by, NULL
                FROM session JOIN driver ON driver.id = session.driver WHERE session_id = ?
                """,
            arguments: [sessionID])
        guard let row else { return nil }
        let owner = DriverID(row[2])
        guard !owner.isPseudonym, driver.map({ haveSameBytes($0.rawValue, owner.rawValue) }) ?? true else { return nil }
        let journey = try StoredEvents.journey(row, 3).advanced(to: now)
        let isInProgress =
            journey.state.hasSessionInProgress && journey.sessionID.map { haveSameBytes($0, sessionID) } == true
        return Session(id: row[0], driver: row[1], endsAt: isInProgress ? journey.hardDeadline : nil)
    }

    private static func prune(at now: Moment, _ db: Database) throws {
        try db.execute(
            sql: """
                DELETE FROM session_code WHERE session IN (
                    SELECT session FROM session_code WHERE expires_at_ms <= ? ORDER BY expires_at_ms LIMIT ?)
                """,
            arguments: [
                now.advanced(byMilliseconds: -keptMilliseconds).millisecondsSinceEpoch, CodeRows.prunedMax,
            ])
    }
}
