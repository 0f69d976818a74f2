// The statements of a sign-in's transaction. They check the nonce or the code, find or create the account, and create a
// session.

import Identity
import JourneyModel

enum SignInRows {
    // MARK: Apple

    static func signIn(
        _ identity: AppleIdentity, profile: FirstProfile, _ new: NewSignIn, _ db: any SQLTransaction
    ) throws -> SignInOutcome {
        let known = try Int64.fetchOne(
            db, sql: "SELECT driver FROM apple_identity WHERE subject = ?", arguments: [identity.subject])
        guard try useNonce(of: identity, at: new.origin.at, db) else {
            if let known, let user = try repeated(new, of: known, db) {
                try AuditRows.add(
                    .signInApple, .done, reason: "repeat", driver: known, sid: new.sid, from: new.origin, db)
                return .repeated(user)
            }
            try AuditRows.add(.signInApple, .refused, reason: "nonce_used", driver: known, from: new.origin, db)
            return .refused
        }
        let driver = if let known { known } else { try add(identity, profile, new, db) }
        try db.execute(
            sql: "UPDATE apple_identity SET email = ?, is_private_email = ? WHERE subject = ?",
            arguments: [identity.verifiedEmail, identity.isPrivateEmail, identity.subject])
        return try signIn(driver, new, as: .signInApple, isNew: known == nil, db)
    }

    /// Detects a repeated sign-in. The session id and the refresh token are derived from the identity token. If an
    /// earlier request had the same identity token, its session therefore has the `sid` of `new`.
    ///
    /// Returns the user of that session. Returns nil if there is no such session, if it is too old, or if its refresh
    /// token was already used.
    private static func repeated(_ new: NewSignIn, of driver: Int64, _ db: any SQLTransaction) throws -> User? {
        let row = try SQLRow.fetchOne(
            db, sql: "SELECT id, created_at_ms FROM sign_in_session WHERE sid = ? AND driver = ? AND kind = ?",
            arguments: [new.sid, driver, new.kind.rawValue])
        guard let row, RepeatRule.isRepeat(of: try row[1], at: new.origin.at) else {
            return nil
        }
        if let token = new.refreshToken {
            guard let stored = try RenewalRows.token(token.digest, of: try row[0], db), stored.spentAt == nil else {
                return nil
            }
        }
        return try DriverRows.user(driver, db)
    }

    /// How long a used nonce is kept after its identity token has expired, in seconds. A server judges a token by the
    /// time at which the request's head arrived, so a slow request may still use a token that has expired meanwhile.
    /// The used nonce must still be known then.
    private static let nonceKeptSeconds = 86_400

    /// Stores the nonce. Returns false when it was used before.
    private static func useNonce(of identity: AppleIdentity, at now: Moment, _ db: any SQLTransaction) throws -> Bool {
        try db.execute(
            sql: """
                DELETE FROM apple_nonce WHERE digest IN (
                    SELECT digest FROM apple_nonce WHERE expires_at_ms <= ? ORDER BY expires_at_ms LIMIT 4)
                """,
            arguments: [now.advanced(bySeconds: -nonceKeptSeconds)])
        let (expiresAt, overflow) = identity.expiresAtSeconds.multipliedReportingOverflow(by: 1000)
        let added = try db.execute(
            sql: "INSERT INTO apple_nonce (digest, expires_at_ms) VALUES (?, ?) ON CONFLICT DO NOTHING",
            arguments: [identity.nonceDigest, overflow ? .max : expiresAt])
        return added == 1
    }

    /// Creates an account. Its email address is the one that Apple has verified. If there is none, it is the address in
    /// the request, which is never used to find an account.
    private static func add(
        _ identity: AppleIdentity, _ profile: FirstProfile, _ new: NewSignIn, _ db: any SQLTransaction
    ) throws -> Int64 {
        let driver = try db.addDriver(new.newDriver, at: new.origin.at)
        var profile = profile
        profile.email = identity.verifiedEmail ?? profile.email
        try DriverRows.addAccount(driver, profile, at: new.origin.at, db)
        try db.execute(
            sql: """
                INSERT INTO apple_identity (subject, driver, client_id, is_private_email, linked_at_ms)
                VALUES (?, ?, ?, 0, ?)
                """,
            arguments: [identity.subject, driver, identity.clientID, new.origin.at.millisecondsSinceEpoch])
        return driver
    }

    // MARK: One-time codes

    static func signIn(
        _ number: PhoneNumber, guess digest: [UInt8], _ new: NewSignIn, _ digests: KeyedHashes, _ db: any SQLTransaction
    ) throws -> SignInOutcome {
        let known = try Int64.fetchOne(
            db, sql: "SELECT driver FROM phone_identity WHERE phone = ?", arguments: [number.e164])
        let verdict = try GuessRows(number, from: new.origin, digests).judge(digest, db)
        guard verdict == .right else {
            try AuditRows.add(
                .signInOTP, .refused, reason: verdict.rawValue, driver: known, phone: digests.phone(number),
                from: new.origin, db)
            return .refused
        }
        let driver = if let known { known } else { try add(number, new, db) }
        return try signIn(driver, new, as: .signInOTP, isNew: known == nil, db)
    }

    private static func add(_ number: PhoneNumber, _ new: NewSignIn, _ db: any SQLTransaction) throws -> Int64 {
        let driver = try db.addDriver(new.newDriver, at: new.origin.at)
        try DriverRows.addAccount(driver, FirstProfile(), at: new.origin.at, db)
        try db.execute(
            sql: "INSERT INTO phone_identity (phone, driver, linked_at_ms) VALUES (?, ?, ?)",
            arguments: [number.e164, driver, new.origin.at.millisecondsSinceEpoch])
        return driver
    }

    // MARK: Both ways of signing in

    private static func signIn(
        _ driver: Int64, _ new: NewSignIn, as action: AuditAction, isNew: Bool, _ db: any SQLTransaction
    ) throws -> SignInOutcome {
        try SignInSessionRows.add(new, of: driver, db)
        try AuditRows.add(
            action, .done, reason: isNew ? "new_account" : nil, driver: driver, sid: new.sid, from: new.origin, db)
        guard let user = try DriverRows.user(driver, db) else { throw UnreadableColumn(name: "account.driver") }
        return .signedIn(user)
    }
}

extension AppleIdentity {
    fileprivate var verifiedEmail: String? { isEmailVerified ? email : nil }
}
