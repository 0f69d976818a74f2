// Issues one-time codes within the limits (CodeSendLimits). Phone numbers with and without an account go through the
// same steps. Guesses are in GuessRows.

import Identity
import JourneyModel

enum CodeRows {
    /// Maximum number of expired rows that one statement deletes.
    static let prunedMax = 16

    /// The digest in an address's row if all codes for the address were held back (`CodeIssue.heldBack`). No code has
    /// this digest.
    static let noCode = [UInt8](repeating: 0, count: 32)

    /// SQL condition for the rows in a time window. Its arguments are those of `window`.
    static let inWindow = "at_ms > ? AND at_ms <= ?"

    /// Returns the arguments of `inWindow`. The upper bound excludes rows whose time is in the future because the clock
    /// was set back. Such rows would count for longer than the window.
    static func window(_ milliseconds: Int64, at now: Moment) -> SQLArguments {
        [now.advanced(byMilliseconds: -milliseconds), ServerClocks.latest(at: now)]
    }

    /// The values that decide toward which limits a sent code counts.
    private struct Send {
        var phone: [UInt8]
        var address: [UInt8]
        var network: [UInt8]?
        var site: [UInt8]?
        var prefix: [UInt8]
        var now: Moment

        init(_ new: NewCode, _ digests: KeyedHashes) {
            let networks = AddressNetworks(new.origin.address)
            phone = digests.phone(new.number)
            address = digests.network(networks.address)
            network = networks.network.map(digests.network)
            site = networks.site.map(digests.network)
            prefix = digests.prefix(of: new.number)
            now = new.origin.at
        }

        var window: SQLArguments { CodeRows.window(CodeSendLimits.windowMilliseconds, at: now) }
    }

    /// SQL condition for the codes that count toward the total limit: those that were sent. Rows of older versions have
    /// NULL in `is_sent`, and their codes were sent too.
    private static let counted = "is_sent IS DISTINCT FROM 0"

    private static func sentToUnknown(_ db: any SQLTransaction) -> String {
        "\(db.condition("is_sent", is: true)) AND \(db.condition("is_known", is: false))"
    }

    static func issue(
        _ new: NewCode, limits: CodeSendLimits, _ digests: KeyedHashes, _ db: any SQLTransaction
    ) throws -> CodeIssue {
        let send = Send(new, digests)
        let begin = send.now.advanced(byMilliseconds: -CodeSendLimits.windowMilliseconds)
        try prune("one_time_code_send", before: begin, db)
        let known = try Int64.fetchOne(
            db, sql: "SELECT driver FROM phone_identity WHERE phone = ?", arguments: [new.number.e164])
        // Numbers with and without an account get the same refusal, so that it does not reveal which numbers have an
        // account.
        if let seconds = CodeSendLimits.retryAfterSeconds(try limitingSendTimes(send, limits, db), at: send.now) {
            try AuditRows.add(
                .otpSend, .refused, reason: "limited", driver: known, phone: send.phone, from: new.origin, db)
            return .limited(retryAfterSeconds: seconds)
        }
        let newcomers = try count(sentToUnknown(db), [], send, db)
        let ofPrefix = try count("\(sentToUnknown(db)) AND prefix_digest = ?", [send.prefix], send, db)
        let isHeldBack =
            known == nil
            && (limits.newcomers > 0 && newcomers >= limits.newcomers
                || limits.perPrefix > 0 && ofPrefix >= limits.perPrefix)
        try add(send, isKnown: known != nil, isSent: !isHeldBack, db)
        try pruneCodes(at: send.now, db)
        if isHeldBack {
            try keepCode(send, insteadOf: new, db)
        } else {
            try replaceCode(send, by: new, db)
        }
        try AuditRows.add(
            .otpSend, isHeldBack ? .refused : .done, reason: isHeldBack ? "held_back" : nil, driver: known,
            phone: send.phone, from: new.origin, db)
        let isNew = known == nil && !isHeldBack ? 1 : 0
        let uses = [
            CodeSendUse(.total, count: try count(counted, [], send, db), max: limits.total),
            CodeSendUse(.newcomers, count: newcomers + isNew, max: limits.newcomers),
            CodeSendUse(.prefix, count: ofPrefix + isNew, max: limits.perPrefix),
        ]
        return isHeldBack ? .heldBack(uses) : .issued(uses)
    }

    /// Returns how much of three limits is used: the total limit, the limit for numbers without an account, and the
    /// limit per prefix. For the limit per prefix, only the most used prefix is counted.
    static func uses(_ limits: CodeSendLimits, at now: Moment, _ db: any SQLTransaction) throws -> [CodeSendUse] {
        let window = window(CodeSendLimits.windowMilliseconds, at: now)
        func count(_ sql: String) throws -> Int { try Int.fetchOne(db, sql: sql, arguments: window) ?? 0 }
        return [
            CodeSendUse(
                .total,
                count: try count("SELECT count(*) FROM one_time_code_send WHERE \(counted) AND \(inWindow)"),
                max: limits.total),
            CodeSendUse(
                .newcomers,
                count: try count(
                    "SELECT count(*) FROM one_time_code_send WHERE \(sentToUnknown(db)) AND \(inWindow)"),
                max: limits.newcomers),
            CodeSendUse(
                .prefix,
                count: try count(
                    """
                    SELECT count(*) AS sends FROM one_time_code_send WHERE \(sentToUnknown(db)) AND \(inWindow)
                    GROUP BY prefix_digest ORDER BY sends DESC LIMIT 1
                    """),
                max: limits.perPrefix),
        ]
    }

    private static func limitingSendTimes(
        _ send: Send, _ limits: CodeSendLimits, _ db: any SQLTransaction
    ) throws -> [Moment?] {
        [
            try timeOfSend(limits.perNumber, where: "phone_digest = ?", [send.phone], send, db),
            try timeOfSend(limits.perAddress, where: "address_digest = ?", [send.address], send, db),
            try timeOfSend(limits.perNetwork, where: "network_digest = ?", [send.network], send, db),
            try timeOfSend(limits.perSite, where: "site_digest = ?", [send.site], send, db),
            try timeOfSend(limits.total, where: counted, [], send, db),
        ]
    }

    /// Returns nil if this limit permits another code now: if `limit` is 0 (no limit), or if fewer than `limit` sends
    /// in the time window meet the condition.
    ///
    /// Otherwise returns the time of one of these sends: number `limit`, counted from the newest. When that send is no
    /// longer in the window, another code is permitted.
    private static func timeOfSend(
        _ limit: Int, where condition: String, _ arguments: SQLArguments, _ send: Send, _ db: any SQLTransaction
    ) throws -> Moment? {
        guard limit > 0 else { return nil }
        return try Int64.fetchOne(
            db,
            sql: """
                SELECT at_ms FROM one_time_code_send WHERE \(condition) AND \(inWindow)
                ORDER BY at_ms DESC LIMIT 1 OFFSET ?
                """,
            arguments: arguments + send.window + [limit - 1]
        ).map(Moment.init(millisecondsSinceEpoch:))
    }

    private static func count(
        _ condition: String, _ arguments: SQLArguments, _ send: Send, _ db: any SQLTransaction
    ) throws -> Int {
        try Int.fetchOne(
            db, sql: "SELECT count(*) FROM one_time_code_send WHERE \(condition) AND \(inWindow)",
            arguments: arguments + send.window) ?? 0
    }

    private static func add(_ send: Send, isKnown: Bool, isSent: Bool, _ db: any SQLTransaction) throws {
        try db.execute(
            sql: """
                INSERT INTO one_time_code_send
                    (phone_digest, address_digest, network_digest, site_digest, prefix_digest, is_known, is_sent, at_ms)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?)
                """,
            arguments: [
                send.phone, send.address, send.network, send.site, send.prefix, isKnown,
                isSent, send.now.millisecondsSinceEpoch,
            ])
    }

    /// Deletes a few expired codes, except those whose address has requested another code within the last
    /// `CodeRule.lifetimeSeconds` (`keepCode`).
    private static func pruneCodes(at now: Moment, _ db: any SQLTransaction) throws {
        try db.execute(
            sql: """
                DELETE FROM asked_code WHERE (phone_digest, address_digest) IN (
                    SELECT phone_digest, address_digest FROM asked_code WHERE expires_at_ms <= ? AND issued_at_ms <= ?
                    ORDER BY expires_at_ms LIMIT ?)
                """,
            arguments: [now, now.advanced(bySeconds: -CodeRule.lifetimeSeconds), prunedMax])
    }

    private static func replaceCode(_ send: Send, by new: NewCode, _ db: any SQLTransaction) throws {
        try db.execute(
            sql: """
                INSERT INTO asked_code (phone_digest, address_digest, code_digest, issued_at_ms, expires_at_ms)
                VALUES (?, ?, ?, ?, ?)
                ON CONFLICT (phone_digest, address_digest) DO UPDATE SET code_digest = excluded.code_digest,
                    issued_at_ms = excluded.issued_at_ms, expires_at_ms = excluded.expires_at_ms, wrong_count = 0
                """,
            arguments: [send.phone, send.address, new.digest, send.now, new.expiresAt])
    }

    /// Stores the request of an address whose new code was held back, that is, not sent. If an earlier request from
    /// this address got a code, that code stays valid until it expires.
    ///
    /// Sets the address's number of wrong guesses to 0, as `replaceCode` does for a code that is sent. Otherwise the
    /// number of remaining guesses would reveal whether the phone number has an account.
    private static func keepCode(_ send: Send, insteadOf new: NewCode, _ db: any SQLTransaction) throws {
        try db.execute(
            sql: """
                INSERT INTO asked_code (phone_digest, address_digest, code_digest, issued_at_ms, expires_at_ms)
                VALUES (?, ?, ?, ?, ?)
                ON CONFLICT (phone_digest, address_digest) DO UPDATE SET issued_at_ms = excluded.issued_at_ms,
                    wrong_count = 0
                """,
            arguments: [send.phone, send.address, noCode, send.now, new.expiresAt])
    }

    static func prune(_ table: String, before begin: Moment, _ db: any SQLTransaction) throws {
        try db.execute(
            sql: """
                DELETE FROM \(table) WHERE id IN (SELECT id FROM \(table) WHERE at_ms <= ? ORDER BY at_ms LIMIT ?)
                """,
            arguments: [begin.millisecondsSinceEpoch, prunedMax])
    }
}
