// One-time codes: issued within the limits, and judged by CodeRule. Every number takes the same way through here,
// whether or not anybody has it.

import GRDB
import Identity
import JourneyModel

import struct Foundation.Data

enum CodeRows {
    /// Rows that nothing counts any more, let go with each call.
    private static let prunedMax = 16

    // MARK: Issuing

    static func issue(
        _ new: NewCode, limits: CodeSendLimits, _ digests: KeyedDigests, _ db: Database
    ) throws -> CodeIssue {
        let now = new.origin.at
        let phone = digests.phone(new.number)
        let address = digests.address(new.origin.address)
        try prune("one_time_code_send", before: now.advanced(byMilliseconds: -CodeSendLimits.windowMilliseconds), db)
        let places = [
            try lastButOne(limits.perNumber, where: "phone_digest = ?", [phone.data], at: now, db),
            try lastButOne(limits.perAddress, where: "address_digest = ?", [address.data], at: now, db),
            try lastButOne(limits.total, where: "true", [], at: now, db),
        ]
        let known = try Int64.fetchOne(
            db, sql: "SELECT driver FROM phone_identity WHERE phone = ?", arguments: [new.number.e164])
        if let seconds = CodeSendLimits.retryAfterSeconds(places, at: now) {
            try AuditRows.add(.otpSend, .refused, reason: "limited", driver: known, phone: phone, from: new.origin, db)
            return .limited(retryAfterSeconds: seconds)
        }
        try db.execute(
            sql: "INSERT INTO one_time_code_send (phone_digest, address_digest, at_ms) VALUES (?, ?, ?)",
            arguments: [phone.data, address.data, now.millisecondsSinceEpoch])
        try replaceCode(of: phone, by: new, db)
        try AuditRows.add(.otpSend, .done, driver: known, phone: phone, from: new.origin, db)
        return .issued
    }

    /// When the `limit`-th last send within the window was; nil while there were fewer, and for no limit.
    private static func lastButOne(
        _ limit: Int, where condition: String, _ arguments: StatementArguments, at now: Moment, _ db: Database
    ) throws -> Moment? {
        guard limit > 0 else { return nil }
        let begin = now.advanced(byMilliseconds: -CodeSendLimits.windowMilliseconds).millisecondsSinceEpoch
        return try Int64.fetchOne(
            db,
            sql: """
                SELECT at_ms FROM one_time_code_send WHERE \(condition) AND at_ms > ?
                ORDER BY at_ms DESC LIMIT 1 OFFSET ?
                """,
            arguments: arguments + [begin, limit - 1]
        ).map(Moment.init(millisecondsSinceEpoch:))
    }

    private static func replaceCode(of phone: [UInt8], by new: NewCode, _ db: Database) throws {
        try db.execute(
            sql: """
                DELETE FROM one_time_code WHERE phone_digest IN (
                    SELECT phone_digest FROM one_time_code WHERE expires_at_ms <= ? ORDER BY expires_at_ms LIMIT ?)
                """,
            arguments: [new.origin.at.millisecondsSinceEpoch, prunedMax])
        try db.execute(
            sql: """
                INSERT INTO one_time_code (phone_digest, code_digest, issued_at_ms, expires_at_ms)
                VALUES (?, ?, ?, ?) ON CONFLICT (phone_digest) DO UPDATE SET code_digest = excluded.code_digest,
                issued_at_ms = excluded.issued_at_ms, expires_at_ms = excluded.expires_at_ms
                """,
            arguments: [
                phone.data, new.digest.data, new.origin.at.millisecondsSinceEpoch,
                new.expiresAt.millisecondsSinceEpoch,
            ])
    }

    // MARK: Guessing

    /// A wrong guess is counted, a right one uses the code up. Guesses beyond the fifth are neither looked at nor
    /// counted: they would keep the number locked for ever.
    static func judge(_ phone: [UInt8], guess: [UInt8], at now: Moment, _ db: Database) throws -> CodeRule {
        let begin = now.advanced(byMilliseconds: -CodeRule.guessWindowMilliseconds)
        try prune("one_time_code_guess", before: begin, db)
        let count = try Int.fetchOne(
            db, sql: "SELECT count(*) FROM one_time_code_guess WHERE phone_digest = ? AND at_ms > ?",
            arguments: [phone.data, begin.millisecondsSinceEpoch])
        let verdict = CodeRule.judge(
            try code(of: phone, db), guess: guess, recentGuessCount: count ?? 0, at: now)
        switch verdict {
        case .right: try db.execute(sql: "DELETE FROM one_time_code WHERE phone_digest = ?", arguments: [phone.data])
        case .wrong, .expired:
            try db.execute(
                sql: "INSERT INTO one_time_code_guess (phone_digest, at_ms) VALUES (?, ?)",
                arguments: [phone.data, now.millisecondsSinceEpoch])
        case .tooManyGuesses: break
        }
        return verdict
    }

    private static func code(of phone: [UInt8], _ db: Database) throws -> StoredCode? {
        let row = try Row.fetchOne(
            db, sql: "SELECT code_digest, expires_at_ms FROM one_time_code WHERE phone_digest = ?",
            arguments: [phone.data])
        return row.map {
            StoredCode(digest: Array($0[0] as Data), expiresAt: Moment(millisecondsSinceEpoch: $0[1]))
        }
    }

    private static func prune(_ table: String, before begin: Moment, _ db: Database) throws {
        try db.execute(
            sql: """
                DELETE FROM \(table) WHERE id IN (SELECT id FROM \(table) WHERE at_ms <= ? ORDER BY at_ms LIMIT ?)
                """,
            arguments: [begin.millisecondsSinceEpoch, prunedMax])
    }
}
