// The audit table. Each audited action adds one entry, in the same transaction as the action.

package import Identity
package import JourneyModel

package enum AuditRows {
    /// SQL conditions for very frequent entries, each with the number of days for which these entries are kept. The
    /// first selects all entries without a driver except receipts of deletions; most are refusals. The second selects
    /// the phones' hourly token renewals.
    private static let passing: [(condition: String, keptDays: Int64)] = [
        ("driver IS NULL AND action <> 'erased'", 30), ("action = 'refresh' AND outcome = 'done'", 90),
    ]

    /// An entry that meets a condition of `passing` is deleted once this many newer entries exist. Wrong guesses from
    /// many addresses therefore leave only about this many entries, of about 150 bytes each.
    static let passingMax: Int64 = 500_000

    /// A new entry whose number is a multiple of `forgettingInterval` causes the deletion of old `passing` entries. For
    /// each condition, at most `forgottenMax` entries are deleted. Old entries cannot pile up, because `forgottenMax`
    /// is larger than `forgettingInterval`.
    ///
    /// Other new entries delete no `passing` entries. If every new entry did, concurrent transactions would delete the
    /// same entries. On PostgreSQL, only one of these transactions would succeed, and the others would have to run
    /// again.
    static let forgettingInterval: Int64 = 64
    private static let forgottenMax: Int64 = 128

    /// SQL condition for entries of frequent requests. These are the driver's requests that add or remove a device,
    /// change the profile or export the account, refused code requests for the driver's number, and refused sign-ins
    /// with codes. Only the newest `requestsPerDriverMax` of each driver are kept.
    ///
    /// The index `audit_of_requests` must have the same condition, word for word, so that SQLite can use the index.
    private static let requests = """
        driver IS NOT NULL AND (action IN ('device_added', 'device_removed', 'profile_changed', 'exported')
            OR outcome = 'refused' AND action IN ('otp_send', 'sign_in_otp'))
        """
    static let requestsPerDriverMax = 200

    /// SQL condition for other entries that a driver can add without limit: refused token renewals, refused sign-ins
    /// with Apple, and sign-outs everywhere. Only the newest `requestsPerDriverMax` of each driver are kept.
    ///
    /// The index `audit_of_refusals` must have the same condition, word for word.
    private static let refusals = """
        driver IS NOT NULL
            AND (action = 'sign_out_all' OR outcome = 'refused' AND action IN ('refresh', 'sign_in_apple'))
        """

    /// Adds an entry. `driver` is a row number; nil if the driver is not known. `phone` is the keyed digest of the
    /// phone number, even if no account has it. It is nil if the action concerns no phone number.
    static func add(
        _ action: AuditAction, _ outcome: AuditOutcome, reason: String? = nil, driver: Int64? = nil,
        sid: String? = nil, phone: [UInt8]? = nil, from origin: RequestOrigin, _ db: any SQLTransaction
    ) throws {
        try add(
            action, outcome, reason: reason, driver: driver, sid: sid, phone: phone, address: origin.address,
            requestID: origin.requestID, at: origin.at, db)
    }

    /// Adds an entry for an operator's command, which has no request.
    package static func add(
        _ action: AuditAction, _ outcome: AuditOutcome, ofOperatorTo driver: Int64, at now: Moment,
        _ db: any SQLTransaction
    ) throws {
        try add(
            action, outcome, reason: nil, driver: driver, sid: nil, phone: nil, address: nil, requestID: nil, at: now,
            db)
    }

    /// Adds an entry about `driver` for an action of somebody else, for example of another driver. The entry has no
    /// request origin, because `driver` can read the entry, and must not learn the origin of somebody else's request.
    static func add(
        _ action: AuditAction, _ outcome: AuditOutcome, reason: String, ofAnother driver: Int64, at now: Moment,
        _ db: any SQLTransaction
    ) throws {
        try add(
            action, outcome, reason: reason, driver: driver, sid: nil, phone: nil, address: nil, requestID: nil,
            at: now, db)
    }

    private static func add(
        _ action: AuditAction, _ outcome: AuditOutcome, reason: String?, driver: Int64?, sid: String?, phone: [UInt8]?,
        address: String?, requestID: String?, at now: Moment, _ db: any SQLTransaction
    ) throws {
        let line = try Int64.fetchOne(
            db,
            sql: """
                INSERT INTO audit (at_ms, action, outcome, reason, driver, sid, address, request_id, phone_digest)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id
                """,
            arguments: [now, action.rawValue, outcome.rawValue, reason, driver, sid, address, requestID, phone])
        guard let line else { throw UnreadableColumn(name: "audit.id") }
        if line % forgettingInterval == 0 { try forgetPassing(before: line, at: now, db) }
        guard let driver else { return }
        try forgetOld(requests, of: driver, db)
        if outcome == .refused || action == .signOutEverywhere { try forgetOld(refusals, of: driver, db) }
    }

    private static func forgetPassing(before line: Int64, at now: Moment, _ db: any SQLTransaction) throws {
        for (condition, days) in passing {
            try db.execute(
                sql: """
                    DELETE FROM audit WHERE (at_ms < ? OR id <= ?) AND id IN (
                        SELECT id FROM audit WHERE \(condition) ORDER BY at_ms LIMIT ?)
                    """,
                arguments: [
                    now.advanced(byMilliseconds: -days * 86_400_000).millisecondsSinceEpoch, line - passingMax,
                    forgottenMax,
                ])
        }
    }

    private static func forgetOld(_ condition: String, of driver: Int64, _ db: any SQLTransaction) throws {
        try db.execute(
            sql: """
                DELETE FROM audit WHERE id IN (
                    SELECT id FROM audit WHERE driver = ? AND \(condition) ORDER BY id DESC LIMIT 4 OFFSET ?)
                """,
            arguments: [driver, requestsPerDriverMax])
    }

    /// Returns the entries about a driver, newest first.
    package static func entries(of driver: DriverID, limit: Int, _ db: any SQLTransaction) throws -> [AuditEntry] {
        let rows = try SQLRow.fetchAll(
            db,
            sql: """
                SELECT audit.id, at_ms, action, outcome, reason, sid, address, request_id
                FROM audit WHERE driver = \(DriverRows.ofID) ORDER BY audit.id DESC LIMIT ?
                """,
            arguments: [driver.rawValue, limit])
        return try rows.map { row in
            guard let action = AuditAction(rawValue: try row[2]) else { throw UnreadableColumn(name: "action") }
            guard let outcome = AuditOutcome(rawValue: try row[3]) else { throw UnreadableColumn(name: "outcome") }
            return try AuditEntry(
                id: row[0], at: row[1], action: action, outcome: outcome,
                reason: row[4], driver: driver, sid: row[5], address: row[6], requestID: row[7])
        }
    }
}
