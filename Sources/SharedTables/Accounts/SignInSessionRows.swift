// Creates, finds, lists and ends sign-in sessions. Ending a session deletes the rows that depend on it, and adds a row
// to the feed of revocations.

import Identity
import JourneyModel

struct SignInSessionRow {
    var id: Int64
    var sid: String
    /// Row number in `driver`.
    var driver: Int64
    var kind: SignInKind
}

enum SignInSessionRows {
    private static let select = "SELECT sign_in_session.id, sid, driver, kind FROM sign_in_session"

    static func row(of sid: String, driver: DriverID, _ db: any SQLTransaction) throws -> SignInSessionRow? {
        try SQLRow.fetchOne(
            db, sql: "\(select) WHERE sid = ? AND driver = \(DriverRows.ofID)",
            arguments: [sid, driver.rawValue]
        ).map(session)
    }

    static func all(of driver: Int64, _ db: any SQLTransaction) throws -> [SignInSessionRow] {
        try SQLRow.fetchAll(db, sql: "\(select) WHERE driver = ? ORDER BY id", arguments: [driver]).map(session)
    }

    static func add(_ new: NewSignIn, of driver: Int64, _ db: any SQLTransaction) throws {
        let now = new.origin.at
        try endExpired(at: now, db)
        let session = try Int64.fetchOne(
            db,
            sql: """
                INSERT INTO sign_in_session
                    (sid, driver, kind, method, client_name, created_at_ms, last_used_at_ms, expires_at_ms)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id
                """,
            arguments: [
                new.sid, driver, new.kind.rawValue, new.method.rawValue, new.clientName, now, now, new.expiresAt,
            ])
        guard let session else { throw UnreadableColumn(name: "sign_in_session.id") }
        if let token = new.refreshToken { try RenewalRows.add(token, of: session, at: now, db) }
        let others = try others(than: session, of: driver, at: now, db)
        try end(Array(others.dropLast(AccountRules.sessionsPerDriverMax - 1)), at: now, db)
    }

    /// Returns the driver's other sessions, the least recently used first. Sessions with a last use in the future come
    /// before all others. Such a time was stored before the clock was set back.
    private static func others(
        than session: Int64, of driver: Int64, at now: Moment, _ db: any SQLTransaction
    ) throws -> [SignInSessionRow] {
        try SQLRow.fetchAll(
            db,
            sql: """
                \(select) WHERE driver = ? AND id <> ? ORDER BY last_used_at_ms > ? DESC, last_used_at_ms, id
                """,
            arguments: [driver, session, ServerClocks.latest(at: now)]
        ).map(Self.session)
    }

    /// Returns the driver's unexpired sessions. The session used last comes first.
    static func live(of driver: DriverID, at now: Moment, _ db: any SQLTransaction) throws -> [SignInSession] {
        let rows = try SQLRow.fetchAll(
            db,
            sql: """
                SELECT sid, method, client_name, sign_in_session.created_at_ms, last_used_at_ms FROM sign_in_session
                WHERE driver = \(DriverRows.ofID) AND expires_at_ms > ?
                ORDER BY last_used_at_ms DESC, sign_in_session.id DESC LIMIT ?
                """,
            arguments: [driver.rawValue, now.millisecondsSinceEpoch, AccountRules.sessionsPerDriverMax])
        return try rows.map { row in
            guard let method = SignInMethod(rawValue: try row[1]) else { throw UnreadableColumn(name: "method") }
            return try SignInSession(
                id: row[0], method: method, clientName: row[2], createdAt: row[3], lastUsedAt: row[4])
        }
    }

    static func end(_ sessions: [SignInSessionRow], at now: Moment, _ db: any SQLTransaction) throws {
        for session in sessions {
            try remove(session, db)
            try RevocationRows.add(sid: session.sid, at: now, db)
        }
    }

    /// Deletes a session and the rows that depend on it. Unlike `end`, adds no row to the feed of revocations.
    static func remove(_ session: SignInSessionRow, _ db: any SQLTransaction) throws {
        try db.execute(sql: "DELETE FROM device WHERE session = ?", arguments: [session.id])
        try db.execute(sql: "DELETE FROM refresh_token WHERE session = ?", arguments: [session.id])
        try db.execute(sql: "DELETE FROM sign_in_session WHERE id = ?", arguments: [session.id])
    }

    private static func endExpired(at now: Moment, _ db: any SQLTransaction) throws {
        let expired = try SQLRow.fetchAll(
            db, sql: "\(select) WHERE expires_at_ms <= ? ORDER BY expires_at_ms LIMIT 4",
            arguments: [now.millisecondsSinceEpoch]
        ).map(session)
        try end(expired, at: now, db)
    }

    private static func session(_ row: SQLRow) throws -> SignInSessionRow {
        guard let kind = SignInKind(rawValue: try row[3]) else { throw UnreadableColumn(name: "kind") }
        return try SignInSessionRow(id: row[0], sid: row[1], driver: row[2], kind: kind)
    }
}

/// The feed of revocations. The session status cache of every process reads it. The ids follow the order of the
/// commits.
enum RevocationRows {
    /// Maximum number of revocations that a cache reads at once. If more were added since the cache's previous read,
    /// the cache drops all its entries.
    private static let revocationsMax = 1000
    private static let keptMilliseconds: Int64 = 3_600_000

    /// Adds a revocation. `sid` is nil when a driver was deleted.
    static func add(sid: String?, at now: Moment, _ db: any SQLTransaction) throws {
        // A PostgreSQL sequence is not used: its ids have gaps and do not follow the order of commits. If two
        // transactions compute the same id, one of them fails and runs again.
        try db.execute(
            sql: """
                INSERT INTO revocation (id, sid, at_ms) SELECT coalesce(max(id), 0) + 1, CAST(? AS TEXT), CAST(? AS BIGINT)
                FROM revocation
                """,
            arguments: [sid, now])
        try db.execute(
            sql: """
                DELETE FROM revocation WHERE at_ms < ? AND id IN (SELECT id FROM revocation ORDER BY id LIMIT 4)
                """,
            arguments: [now.advanced(byMilliseconds: -keptMilliseconds).millisecondsSinceEpoch])
    }

    static func revocations(after id: Int64?, _ db: any SQLTransaction) throws -> RecentRevocations {
        // The row with the highest id is never deleted. `add` deletes only rows that are older than the new one. Before
        // a driver's rows are deleted, a row with a higher id is added.
        let last = try Int64.fetchOne(db, sql: "SELECT max(id) FROM revocation") ?? 0
        guard let id else { return RecentRevocations(last: last, sids: [], concernsAll: true) }
        guard last != id else { return RecentRevocations(last: last, sids: [], concernsAll: false) }
        let sids: [String?] = try SQLRow.fetchAll(
            db, sql: "SELECT sid FROM revocation WHERE id > ? ORDER BY id LIMIT ?", arguments: [id, revocationsMax]
        ).map { try $0[0] }
        // Each id from `id` + 1 to `last` once had a row. If fewer rows were read, some were deleted, or there are more
        // than `revocationsMax`. The cache must then drop all its entries (`concernsAll`).
        let concernsAll = Int64(sids.count) != last - id || sids.contains(nil)
        return RecentRevocations(last: last, sids: concernsAll ? [] : sids.compactMap { $0 }, concernsAll: concernsAll)
    }
}
