// The verification codes of sessions. A session has at most one code. SessionCodeRule judges the code that a driver
// enters.

import Engine
package import Identity
package import JourneyModel

extension StoredAccounts: SessionCodeStore {
    package func issue(
        codeWithDigest digest: [UInt8], ofSession sessionID: String, at now: Moment
    ) async throws(AccountFailure) -> SessionCodeIssue {
        try await change { db in
            try SessionCodeRows.issue(digest, ofSession: sessionID, at: now, db)
        }
    }

    package func judge(
        guess: [UInt8], ofSession sessionID: String, of driver: DriverID, from origin: RequestOrigin
    ) async throws(AccountFailure) -> SessionCodeRule? {
        try await change { db in
            try SessionCodeRows.judge(guess, ofSession: sessionID, of: driver, from: origin, db)
        }
    }
}

enum SessionCodeRows {
    /// How long a row is kept after its code has expired, in milliseconds. Until then, a driver who repeats an accepted
    /// code gets the same response.
    static let keptMilliseconds: Int64 = 86_400_000

    private struct Session {
        var reference: SessionReference
        var driver: Int64
        /// The hard deadline; nil if the session is not in progress.
        var endsAt: Moment?
        /// The time to record if a code is accepted now; nil if the session is not in progress.
        var verifiedAt: Moment?
    }

    static func issue(
        _ digest: [UInt8], ofSession sessionID: String, at now: Moment, _ db: any SQLTransaction
    ) throws -> SessionCodeIssue {
        try prune(at: now, db)
        guard let session = try session(sessionID, of: nil, at: now, db) else { return .sessionNotFound }
        guard let endsAt = session.endsAt, try code(of: session.reference, db)?.acceptedAt == nil else {
            return .sessionNotActive
        }
        try db.execute(
            sql: """
                INSERT INTO session_code (session, driver, code_digest, issued_at_ms, expires_at_ms)
                VALUES (?, ?, ?, ?, ?)
                ON CONFLICT (session) DO UPDATE SET driver = excluded.driver, code_digest = excluded.code_digest,
                    issued_at_ms = excluded.issued_at_ms, expires_at_ms = excluded.expires_at_ms, wrong_count = 0,
                    accepted_at_ms = NULL
                """,
            arguments: [session.reference, session.driver, digest, now, endsAt])
        try AuditRows.add(.sessionCode, .done, reason: "by_service", ofAnother: session.driver, at: now, db)
        return .issued(expiresAt: endsAt)
    }

    static func judge(
        _ guess: [UInt8], ofSession sessionID: String, of driver: DriverID, from origin: RequestOrigin,
        _ db: any SQLTransaction
    ) throws -> SessionCodeRule? {
        guard let session = try session(sessionID, of: driver, at: origin.at, db) else { return nil }
        guard let code = try code(of: session.reference, db) else { return .unavailable }
        let verdict = SessionCodeRule.judge(
            code, guess: guess, verifiedAt: session.verifiedAt, at: origin.at)
        switch verdict {
        case .right(let acceptedAt) where code.acceptedAt == nil:
            try db.execute(
                sql: "UPDATE session_code SET accepted_at_ms = ? WHERE session = ?",
                arguments: [acceptedAt.millisecondsSinceEpoch, session.reference])
            try AuditRows.add(.sessionVerified, .done, driver: session.driver, from: origin, db)
        case .wrong:
            try db.execute(
                sql: "UPDATE session_code SET wrong_count = wrong_count + 1 WHERE session = ?",
                arguments: [session.reference])
            try AuditRows.add(
                .sessionVerified, .refused, reason: "wrong_code", driver: session.driver, from: origin, db)
        case .right, .unavailable: break
        }
        return verdict
    }

    private static func code(of session: SessionReference, _ db: any SQLTransaction) throws -> StoredSessionCode? {
        try SQLRow.fetchOne(
            db,
            sql: "SELECT code_digest, expires_at_ms, wrong_count, accepted_at_ms FROM session_code WHERE session = ?",
            arguments: [session]
        ).map {
            try StoredSessionCode(digest: $0[0], expiresAt: $0[1], wrongCount: $0[2], acceptedAt: $0[3])
        }
    }

    /// Returns the session with this id; nil if it does not exist or its driver was deleted. If `driver` is given,
    /// returns nil for another driver's session.
    private static func session(
        _ sessionID: String, of driver: DriverID?, at now: Moment, _ db: any SQLTransaction
    ) throws -> Session? {
        guard let session = try db.session(sessionID) else { return nil }
        let owner = session.driverID
        guard !owner.isPseudonym, driver.map({ haveSameBytes($0.rawValue, owner.rawValue) }) ?? true else { return nil }
        let journey = session.journey.advanced(to: now)
        let isInProgress =
            journey.state.hasSessionInProgress && journey.sessionID.map { haveSameBytes($0, sessionID) } == true
        guard isInProgress else { return Session(reference: session.reference, driver: session.driver) }
        return Session(
            reference: session.reference, driver: session.driver, endsAt: journey.hardDeadline,
            verifiedAt: SessionCodeRule.verificationTime(of: journey, lastEventAt: session.lastEventAt, at: now))
    }

    private static func prune(at now: Moment, _ db: any SQLTransaction) throws {
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
