// Implements the protocols for accounts. Every change is one transaction, and every read uses its own snapshot. The
// other files of this folder contain the statements.

package import Engine
package import Identity
package import JourneyModel

package struct StoredAccounts: AccountTransactions {
    package let store: any AccountDatabase
    package let digests: KeyedHashes

    /// `digests` must be the keyed hashes with which the store was opened.
    package init(store: any AccountDatabase, digests: KeyedHashes) {
        self.store = store
        self.digests = digests
    }

    package var database: any SQLDatabase { store }

    /// Runs one transaction that may begin the deletion of a driver. `effects` derives the transaction's effects from
    /// its outcome (`ChangeEffects`).
    func beginErasure<Outcome: Sendable>(
        effects: @escaping @Sendable (Outcome) -> ChangeEffects,
        _ begin: @escaping @Sendable (any SQLTransaction) throws -> Outcome
    ) async throws(AccountFailure) -> Outcome {
        await store.prepareErasure()
        do throws(StoreFailure) {
            return try await store.change(effects: effects, begin)
        } catch {
            throw AccountFailure(error)
        }
    }
}

extension AccountFailure {
    package init(_ failure: StoreFailure) {
        switch failure {
        case .driverErased: self = .unauthorized
        case .unavailable(let text): self = .unavailable(text)
        case .unknown(let text): self = .unknown(text)
        case .cancelled: self = .cancelled
        }
    }
}

// MARK: Signing in

extension StoredAccounts: SignInStore {
    package func signIn(
        _ identity: AppleIdentity, profile: FirstProfile, _ new: NewSignIn
    ) async throws(AccountFailure) -> SignInOutcome {
        try await change { db in try SignInRows.signIn(identity, profile: profile, new, db) }
    }

    package func keep(
        _ outcome: AppleCodeExchangeOutcome, of identity: AppleIdentity, driver: DriverID, from origin: RequestOrigin
    ) async throws(AccountFailure) {
        try await change { db in try AppleRows.keep(outcome, of: identity, driver: driver, from: origin, db) }
    }

    package func issueCode(_ new: NewCode, limits: CodeSendLimits) async throws(AccountFailure) -> CodeIssue {
        try await change { [digests] db in try CodeRows.issue(new, limits: limits, digests, db) }
    }

    package func signIn(
        _ number: PhoneNumber, guess digest: [UInt8], _ new: NewSignIn
    ) async throws(AccountFailure) -> SignInOutcome {
        try await change { [digests] db in try SignInRows.signIn(number, guess: digest, new, digests, db) }
    }

    package func recordRefusal(
        _ action: AuditAction, reason: String, from origin: RequestOrigin
    ) async throws(AccountFailure) {
        try await change { db in try AuditRows.add(action, .refused, reason: reason, from: origin, db) }
    }
}

// MARK: Sign-in sessions

extension StoredAccounts: SignInSessionStore {
    package func rotate(
        _ digest: [UInt8], to new: NewRefreshToken, from origin: RequestOrigin
    ) async throws(AccountFailure) -> RenewalOutcome {
        try await change { db in try RenewalRows.rotate(digest, to: new, from: origin, db) }
    }

    package func renew(
        _ sid: String, of driver: DriverID, until expiresAt: Moment, from origin: RequestOrigin
    ) async throws(AccountFailure) -> RenewalOutcome {
        try await change { db in try RenewalRows.renew(sid, of: driver, until: expiresAt, from: origin, db) }
    }

    package func end(
        _ sids: Set<String>, of driver: DriverID, as action: AuditAction, from origin: RequestOrigin
    ) async throws(AccountFailure) -> Bool {
        try await change { db in
            let sessions = try sids.sorted().compactMap { try SignInSessionRows.row(of: $0, driver: driver, db) }
            try SignInSessionRows.end(sessions, at: origin.at, db)
            for session in sessions {
                try AuditRows.add(action, .done, driver: session.driver, sid: session.sid, from: origin, db)
            }
            return !sessions.isEmpty
        }
    }

    package func endAll(of driver: DriverID, from origin: RequestOrigin) async throws(AccountFailure) {
        try await change { db in
            guard let row = try DriverRows.row(of: driver, db) else { return }
            try SignInSessionRows.end(try SignInSessionRows.all(of: row, db), at: origin.at, db)
            try AuditRows.add(.signOutEverywhere, .done, driver: row, from: origin, db)
        }
    }

    package func session(ofToken digest: [UInt8], of driver: DriverID) async throws(AccountFailure) -> String? {
        try await read { db in
            try String.fetchOne(
                db,
                sql: """
                    SELECT sid FROM refresh_token
                    JOIN sign_in_session ON sign_in_session.id = refresh_token.session
                    WHERE digest = ? AND sign_in_session.driver = \(DriverRows.ofID)
                    """,
                arguments: [digest, driver.rawValue])
        }
    }

    package func sessions(of driver: DriverID, at now: Moment) async throws(AccountFailure) -> [SignInSession] {
        try await read { db in try SignInSessionRows.live(of: driver, at: now, db) }
    }
}

// MARK: Accounts and devices

extension StoredAccounts: AccountRecordStore {
    package func user(_ driver: DriverID) async throws(AccountFailure) -> User? {
        try await read { db in try DriverRows.row(of: driver, db).flatMap { try DriverRows.user($0, db) } }
    }

    package func change(
        _ change: ProfileChange, of caller: Caller, from origin: RequestOrigin
    ) async throws(AccountFailure) -> User {
        try await self.change { [digests] db in
            try DriverRows.change(change, of: caller, from: origin, digests, db)
        }
    }

    package func erase(
        _ driver: DriverID, receipt: ErasureReceipt, pseudonym: String, from origin: RequestOrigin
    ) async throws(AccountFailure) {
        let erasing = Erasing(receipt: receipt, pseudonym: pseudonym, digests: digests, events: store)
        _ = try await beginErasure(effects: { $0 }, { db in try erasing.erase(driver, db) })
    }

    package func export(of caller: Caller, from origin: RequestOrigin) async throws(AccountFailure) -> ExportPiece {
        try await change { db in
            let row = try DriverRows.row(of: caller.driver, db)
            try AuditRows.add(.exported, .done, driver: row, sid: caller.signInSession, from: origin, db)
        }
        return try await piece(of: caller.driver) { [store] db in
            try AccountExport(of: caller, at: origin.at, store, db)
        }
    }

    private func piece(
        of driver: DriverID, _ reached: @escaping @Sendable (any SQLTransaction) throws -> AccountExport
    ) async throws(AccountFailure) -> ExportPiece {
        let json: [UInt8]?
        let export: AccountExport
        do throws(StoreFailure) {
            (json, export) = try await store.readEvents(of: driver) { db in
                var export = try reached(db)
                return (try export.piece(db), export)
            }
        } catch {
            throw AccountFailure(error)
        }
        guard let json else { throw .unauthorized }
        if export.isWhole { return ExportPiece(json: json, rest: nil) }
        return ExportPiece(json: json) { () async throws(AccountFailure) in
            try await piece(of: driver) { _ in export }
        }
    }

    package func take(
        _ notice: AppleServerNotification, receipt: ErasureReceipt, pseudonym: String, from origin: RequestOrigin
    ) async throws(AccountFailure) -> DriverID? {
        let erasing = Erasing(receipt: receipt, pseudonym: pseudonym, digests: digests, events: store)
        let take = { @Sendable (db: any SQLTransaction) in
            try AppleRows.take(notice, erasing, from: origin, db)
        }
        guard notice.kind == .accountDeleted else { return try await change(take)?.driver }
        return try await beginErasure(effects: { $0?.effects ?? ChangeEffects() }, take)?.driver
    }
}

extension StoredAccounts: DeviceStore {
    package func put(
        _ device: Device, of caller: Caller, from origin: RequestOrigin
    ) async throws(AccountFailure) -> DevicePut {
        try await change { [digests] db in try DeviceRows.put(device, of: caller, from: origin, digests, db) }
    }

    package func remove(
        pushToken: String, of caller: Caller, from origin: RequestOrigin
    ) async throws(AccountFailure) {
        try await change { db in try DeviceRows.remove(pushToken, of: caller, from: origin, db) }
    }
}

// MARK: Deletions

extension StoredAccounts: ErasureCompletion {
    package func completeErasures(of driver: DriverID?) async throws(AccountFailure) -> Int {
        let digest = driver.map(digests.driver)
        let unfinished = try await read { [store] db in try store.unfinishedErasures(digest, db) }
        // If one deletion fails, the others must not wait for it.
        var failure: StoreFailure?
        for driver in unfinished {
            do throws(StoreFailure) {
                try await store.completeErasure(of: driver)
            } catch {
                if error == .cancelled { throw AccountFailure(error) }
                failure = failure ?? error
            }
        }
        if let failure { throw AccountFailure(failure) }
        return unfinished.count
    }
}

// MARK: Status checks for every request, and reads by commands

extension StoredAccounts: SessionStatusStore {
    package func status(
        ofSession sid: String, of driver: DriverID
    ) async throws(AccountFailure) -> SessionStatus {
        try await read { db in
            try SignInSessionRows.row(of: sid, driver: driver, db) == nil ? .revoked : .live
        }
    }

    package func status(ofTokensOf driver: DriverID) async throws(AccountFailure) -> SessionStatus {
        try await read { [digests] db in
            let erasedAt = try DriverRows.erasedAt(driver, digests, db)
            return erasedAt.map { .erased(atSeconds: $0.millisecondsSinceEpoch / 1000) } ?? .live
        }
    }

    package func revocations(after id: Int64?) async throws(AccountFailure) -> RecentRevocations {
        try await read { db in try RevocationRows.revocations(after: id, db) }
    }
}

extension StoredAccounts: AppleRevocationQueue {
    package func nextDue(at now: Moment) async throws(AccountFailure) -> AppleRevocation? {
        try await read { db in try AppleRows.nextRevocation(at: now, db) }
    }

    package func delivered(_ id: Int64, at now: Moment) async throws(AccountFailure) {
        try await change { db in _ = try db.execute(sql: "DELETE FROM apple_revocation WHERE id = ?", arguments: [id]) }
    }

    package func failed(_ id: Int64, tryAgainAt: Moment) async throws(AccountFailure) {
        try await change { db in
            _ = try db.execute(
                sql: """
                    UPDATE apple_revocation SET attempt_count = attempt_count + 1, next_attempt_at_ms = ? WHERE id = ?
                    """,
                arguments: [tryAgainAt.millisecondsSinceEpoch, id])
        }
    }
}

extension StoredAccounts: AuditReading {
    package func entries(of driver: DriverID, limit: Int) async throws(AccountFailure) -> [AuditEntry] {
        try await read { db in try AuditRows.entries(of: driver, limit: limit, db) }
    }
}
