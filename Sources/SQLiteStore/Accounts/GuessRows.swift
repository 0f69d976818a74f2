// Guesses of one-time codes. First, GuessRule compares the number of earlier guesses with the limits. Then CodeRule
// compares the guess with the code. Guesses from the address that requested the code are counted separately from all
// other guesses.

import GRDB
import Identity
import JourneyModel

import struct Foundation.Data

struct GuessRows {
    let phone: [UInt8]
    let address: [UInt8]
    /// Keyed digest of the address's network. The network is the /48 of an IPv6 address, the /24 of an IPv4 address,
    /// and otherwise the address itself.
    let site: [UInt8]
    let now: Moment

    init(_ number: PhoneNumber, from origin: RequestOrigin, _ digests: KeyedHashes) {
        let networks = AddressNetworks(origin.address)
        phone = digests.phone(number)
        address = digests.network(networks.address)
        site = digests.network(networks.site ?? networks.network ?? networks.address)
        now = origin.at
    }

    /// Judges a guess. Counts wrong guesses and guesses of an expired code. After a right guess, deletes the number's
    /// codes. A guess beyond the limits is neither checked nor counted, because counting it would keep the number
    /// locked forever.
    func judge(_ guess: [UInt8], _ db: Database) throws -> CodeRule {
        try CodeRows.prune("one_time_code_guess", before: begin(GuessRule.dayMilliseconds), db)
        let own = try codes("address_digest = ?", [address.data], db).first
        let newest = try codes("TRUE", [], db).first
        let verdict = CodeRule.judge(
            [own, newest].compactMap { $0?.code }, guess: guess,
            isAllowed: GuessRule.allows(try counts(own: own?.wrongCount, db)), at: now)
        switch verdict {
        case .right: try db.execute(sql: "DELETE FROM asked_code WHERE phone_digest = ?", arguments: [phone.data])
        case .wrong, .expired: try add(isOwn: own != nil, db)
        case .tooManyGuesses: break
        }
        return verdict
    }

    private func counts(own: Int?, _ db: Database) throws -> GuessCounts {
        let (day, hour) = (GuessRule.dayMilliseconds, GuessRule.hourMilliseconds)
        return GuessCounts(
            own: own, ownOfNumber: try count("phone_digest = ? AND is_own", [phone.data], day, db),
            others: try count("phone_digest = ? AND NOT coalesce(is_own, 0)", [phone.data], day, db),
            othersInNetwork: try count(
                "phone_digest = ? AND NOT is_own AND site_digest = ?", [phone.data, site.data], day, db),
            network: try count("site_digest = ? AND NOT is_own", [site.data], hour, db))
    }

    private func count(
        _ condition: String, _ arguments: StatementArguments, _ milliseconds: Int64, _ db: Database
    ) throws -> Int {
        try Int.fetchOne(
            db, sql: "SELECT count(*) FROM one_time_code_guess WHERE \(condition) AND at_ms > ?",
            arguments: arguments + [begin(milliseconds).millisecondsSinceEpoch]) ?? 0
    }

    private func add(isOwn: Bool, _ db: Database) throws {
        if isOwn {
            try db.execute(
                sql:
                    "UPDATE asked_code SET wrong_count = wrong_count + 1 WHERE phone_digest = ? AND address_digest = ?",
                arguments: [phone.data, address.data])
        }
        try db.execute(
            sql: "INSERT INTO one_time_code_guess (phone_digest, at_ms, is_own, site_digest) VALUES (?, ?, ?, ?)",
            arguments: [phone.data, now.millisecondsSinceEpoch, isOwn, site.data])
    }

    /// Selects the codes of the number that meet the condition, and returns an array with the newest one. The array is
    /// empty if there is no such code. Codes older than twice the lifetime of a code are left out.
    private func codes(
        _ condition: String, _ arguments: StatementArguments, _ db: Database
    ) throws -> [(code: StoredCode, wrongCount: Int)] {
        try Row.fetchAll(
            db,
            sql: """
                SELECT code_digest, expires_at_ms, wrong_count FROM asked_code
                WHERE phone_digest = ? AND \(condition) AND expires_at_ms > ? ORDER BY issued_at_ms DESC LIMIT 1
                """,
            arguments: [phone.data] + arguments
                + [now.advanced(bySeconds: -CodeRule.lifetimeSeconds).millisecondsSinceEpoch]
        ).map {
            (StoredCode(digest: Array($0[0] as Data), expiresAt: Moment(millisecondsSinceEpoch: $0[1])), $0[2])
        }
    }

    private func begin(_ milliseconds: Int64) -> Moment { now.advanced(byMilliseconds: -milliseconds) }
}
