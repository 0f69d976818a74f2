// Finds, creates, reads and changes drivers as users who sign in. The rows of `driver` also contain the drivers'
// current journeys, which each store reads and writes itself.

package import Identity
package import JourneyModel

package enum DriverRows {
    /// SQL for the row number of the driver whose id is the next parameter. It is not a join, because on Citus the
    /// drivers are on other servers than most tables of this module.
    static let ofID = "(SELECT driver.id FROM driver WHERE driver.driver_id = ?)"

    package static func row(of driver: DriverID, _ db: any SQLTransaction) throws -> Int64? {
        try Int64.fetchOne(db, sql: "SELECT id FROM driver WHERE driver_id = ?", arguments: [driver.rawValue])
    }

    /// Returns the caller's row number. If a driver with a token of another service has no row, creates one.
    ///
    /// If there is no row, throws `DriverErased` in two cases:
    ///
    /// - The caller has a sign-in session here. The row was then deleted.
    /// - The driver was deleted a short time ago. This request may then have begun before the deletion.
    package static func rowOrNew(
        of caller: Caller, at now: Moment, _ digests: KeyedHashes, _ db: any SQLTransaction
    ) throws -> Int64 {
        if let row = try row(of: caller.driver, db) { return row }
        let erasedAt = try erasedAt(caller.driver, digests, db)
        guard caller.signInSession == nil, !(erasedAt.map { AccountRules.isSettling(erasedAt: $0, at: now) } ?? false)
        else { throw DriverErased() }
        return try db.addDriver(caller.driver, at: now)
    }

    package static func erasedAt(
        _ driver: DriverID, _ digests: KeyedHashes, _ db: any SQLTransaction
    ) throws -> Moment? {
        try Moment.fetchOne(
            db, sql: "SELECT erased_at_ms FROM erased_driver WHERE driver_digest = ?",
            arguments: [digests.driver(driver)])
    }

    // MARK: Accounts

    static func addAccount(_ driver: Int64, _ profile: FirstProfile, at now: Moment, _ db: any SQLTransaction) throws {
        try db.execute(
            sql: "INSERT INTO account (driver, name, email, role, created_at_ms) VALUES (?, ?, ?, ?, ?)",
            arguments: [
                driver, profile.name, profile.email, profile.role ?? AccountRules.roleDefault,
                now.millisecondsSinceEpoch,
            ])
    }

    /// Returns the user; nil for a driver without an account.
    static func user(_ driver: Int64, _ db: any SQLTransaction) throws -> User? {
        let row = try SQLRow.fetchOne(
            db,
            sql: """
                SELECT (SELECT driver_id FROM driver WHERE driver.id = ?1), name, email, phone, role FROM account
                LEFT JOIN phone_identity ON phone_identity.driver = account.driver
                WHERE account.driver = ?1
                """,
            arguments: [driver])
        return try row.map {
            try User(id: DriverID($0[0]), name: $0[1], email: $0[2], phone: $0[3], role: $0[4])
        }
    }

    static func change(
        _ change: ProfileChange, of caller: Caller, from origin: RequestOrigin, _ digests: KeyedHashes,
        _ db: any SQLTransaction
    ) throws -> User {
        let driver = try rowOrNew(of: caller, at: origin.at, digests, db)
        if try user(driver, db) == nil {
            try addAccount(driver, FirstProfile(role: caller.role), at: origin.at, db)
        }
        if case .set(let name) = change.name {
            try db.execute(sql: "UPDATE account SET name = ? WHERE driver = ?", arguments: [name, driver])
        }
        if case .set(let email) = change.email {
            try db.execute(sql: "UPDATE account SET email = ? WHERE driver = ?", arguments: [email, driver])
        }
        try AuditRows.add(.profileChanged, .done, driver: driver, sid: caller.signInSession, from: origin, db)
        guard let user = try user(driver, db) else { throw UnreadableColumn(name: "account.driver") }
        return user
    }
}
