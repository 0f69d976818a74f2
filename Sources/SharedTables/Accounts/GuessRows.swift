// Guesses of one-time codes. GuessRule limits the number of wrong guesses, and CodeRule compares a guess with the code.
// If an address has requested a code, its guesses are counted separately.

import Identity
import JourneyModel

struct GuessRows {
    let phone: [UInt8]
    let address: [UInt8]
    /// Keyed digest of the address's network: the /48 of an IPv6 address or the /24 of an IPv4 address. If the text is
    /// not an IP address, the digest of the text.
    let site: [UInt8]
    let now: Moment

    init(_ number: PhoneNumber, from origin: RequestOrigin, _ digests: KeyedHashes) {
        let networks = AddressNetworks(origin.address)
        phone = digests.phone(number)
        address = digests.network(networks.address)
        site = digests.network(networks.site ?? networks.network ?? networks.address)
        now = origin.at
    }

    /// Judges a guess, and counts it if it is wrong. A guess beyond the limits is not counted: otherwise someone who
    /// keeps guessing could lock the phone number forever.
    func judge(_ guess: [UInt8], _ db: any SQLTransaction) throws -> CodeRule {
        let begin = now.advanced(byMilliseconds: -GuessRule.dayMilliseconds)
        try CodeRows.prune("one_time_code_guess", before: begin, db)
        let own = try codes("address_digest = ?", [address], db).first
        let newest = try codes("code_digest <> ?", [CodeRows.noCode], db).first
        let verdict = CodeRule.judge(
            [own, newest].compactMap { $0?.code }, guess: guess,
            isAllowed: GuessRule.allows(try counts(own: own?.wrongCount, db)), at: now)
        switch verdict {
        case .right: try db.execute(sql: "DELETE FROM asked_code WHERE phone_digest = ?", arguments: [phone])
        case .wrong, .expired: try add(isOwn: own != nil, db)
        case .tooManyGuesses: break
        }
        return verdict
    }

    private func counts(own: Int?, _ db: any SQLTransaction) throws -> GuessCounts {
        let (day, hour) = (GuessRule.dayMilliseconds, GuessRule.hourMilliseconds)
        let isOther = db.condition("is_own", is: false)
        return GuessCounts(
            own: own, ownOfNumber: try count("phone_digest = ? AND is_own = 1", [phone], day, db),
            others: try count("phone_digest = ? AND coalesce(is_own, 0) = 0", [phone], day, db),
            othersInNetwork: try count("phone_digest = ? AND \(isOther) AND site_digest = ?", [phone, site], day, db),
            network: try count("site_digest = ? AND \(isOther)", [site], hour, db))
    }

    private func count(
        _ condition: String, _ arguments: SQLArguments, _ milliseconds: Int64, _ db: any SQLTransaction
    ) throws -> Int {
        try Int.fetchOne(
            db, sql: "SELECT count(*) FROM one_time_code_guess WHERE \(condition) AND \(CodeRows.inWindow)",
            arguments: arguments + CodeRows.window(milliseconds, at: now)) ?? 0
    }

    private func add(isOwn: Bool, _ db: any SQLTransaction) throws {
        if isOwn {
            try db.execute(
                sql:
                    "UPDATE asked_code SET wrong_count = wrong_count + 1 WHERE phone_digest = ? AND address_digest = ?",
                arguments: [phone, address])
        }
        try db.execute(
            sql: "INSERT INTO one_time_code_guess (phone_digest, at_ms, is_own, site_digest) VALUES (?, ?, ?, ?)",
            arguments: [phone, now.millisecondsSinceEpoch, isOwn, site])
    }

    /// Returns the newest code that meets the condition, as an array with at most one element. If an address last
    /// requested a code more than two code lifetimes ago, its code is ignored.
    ///
    /// A code that was issued before the clock was set back may expire later than any code that is issued now. Such a
    /// code is returned only if there is no other code.
    private func codes(
        _ condition: String, _ arguments: SQLArguments, _ db: any SQLTransaction
    ) throws -> [(code: StoredCode, wrongCount: Int)] {
        // The codes are not ordered by `issued_at_ms`, because it is the time of the address's last request. If the
        // code of that request was held back, the row still has an older code.
        try SQLRow.fetchAll(
            db,
            sql: """
                SELECT code_digest, expires_at_ms, wrong_count FROM asked_code
                WHERE phone_digest = ? AND \(condition) AND issued_at_ms > ?
                ORDER BY expires_at_ms > ?, expires_at_ms DESC LIMIT 1
                """,
            arguments: [phone] + arguments
                + [now.advanced(bySeconds: -2 * CodeRule.lifetimeSeconds), CodeRule.latestExpiry(at: now)]
        ).map { (StoredCode(digest: try $0[0], expiresAt: try $0[1]), try $0[2]) }
    }
}
