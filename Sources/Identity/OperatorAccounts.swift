// Changes that an operator makes to drivers' accounts. At a driver's request, the operator signs the driver out or
// deletes the driver. After a restore of the database, the operator repeats the deletions that the restore has undone.
//
// With PostgreSQL, the operator's command makes these changes itself. With SQLite, the running server makes them, or
// the command if no server runs.

package import JourneyModel

/// The store's port. Every change is audited as an action of the operator, in the same transaction.
package protocol OperatorAccountStore: ErasureCompletion {
    /// Ends every sign-in session of the driver. Returns the number of sessions that ended; nil for an unknown driver.
    func endAllByOperator(of driver: DriverID, at now: Moment) async throws(AccountFailure) -> Int?
    /// Begins the deletion of a driver: removes at once everything that identifies the driver. `completeErasures`
    /// removes the driver's other rows. For an unknown driver, changes nothing and returns false.
    func eraseByOperator(_ driver: DriverID, receipt: ErasureReceipt) async throws(AccountFailure) -> Bool
    /// Returns those of `erasures` that this database lacks.
    func missing(_ erasures: [RecordedErasure]) async throws(AccountFailure) -> MissingErasures
    /// Stores a tombstone for each of `erasures`, so that the deleted drivers' tokens are rejected. If this database
    /// still has data from before a driver's deletion, the caller must delete the driver instead.
    func addTombstones(_ erasures: [RecordedErasure], at now: Moment) async throws(AccountFailure)
    /// Waits until deleted bytes are gone from SQLite's WAL. Returns true at once on PostgreSQL.
    ///
    /// Returns false if a read transaction still needs these bytes after `timeout`. A running server removes them when
    /// that transaction ends.
    func finishRemoval(within timeout: Duration) async -> Bool
}

package struct OperatorAccounts: Sendable {
    private let store: any OperatorAccountStore
    private let revoked: @Sendable () async -> Void
    private let forget: @Sendable (DriverID) async -> Void

    /// - Parameters:
    ///   - revoked: called after every revocation. Must not return before this process rejects the revoked tokens.
    ///   - forget: called with the id of a deleted driver. Removes the data that other components store under that id.
    package init(
        store: any OperatorAccountStore, revoked: @escaping @Sendable () async -> Void = {},
        forget: @escaping @Sendable (DriverID) async -> Void = { _ in }
    ) {
        self.store = store
        self.revoked = revoked
        self.forget = forget
    }

    /// Ends every sign-in session of the driver. Returns the number of sessions that ended; nil for an unknown driver.
    package func signOut(_ driver: DriverID, at now: Moment) async throws(AccountFailure) -> Int? {
        let count = try await store.endAllByOperator(of: driver, at: now)
        await revoked()
        return count
    }

    /// Deletes a driver in the same way as `DELETE /auth/me`. Returns nil for an unknown driver.
    package func erase(_ driver: DriverID, at now: Moment) async throws(AccountFailure) -> ErasureReceipt? {
        let receipt = Accounts.receipt(at: now)
        guard try await store.eraseByOperator(driver, receipt: receipt) else { return nil }
        await revoked()
        await forget(driver)
        try await store.completeErasure(of: driver)
        return receipt
    }

    /// Returns those of `erasures` that this database lacks.
    package func missing(_ erasures: [RecordedErasure]) async throws(AccountFailure) -> MissingErasures {
        try await store.missing(erasures)
    }

    /// Finds the deletions in `erasures` that this database lacks, for example after a restore. For each of them:
    ///
    /// - If this database has data of the driver from before the deletion, the driver is deleted again. The new receipt
    ///   has the time `now` and the recorded id, or a new id if none was recorded.
    /// - Otherwise, only a tombstone is stored.
    ///
    /// Then completes all unfinished deletions in this database. Returns the deletions that were missing.
    package func repeatErasures(
        _ erasures: [RecordedErasure], at now: Moment
    ) async throws(AccountFailure) -> MissingErasures {
        let missing = try await store.missing(erasures)
        for (driver, erasure) in missing.drivers {
            let receipt = ErasureReceipt(id: erasure.receipt ?? Accounts.receipt(at: now).id, deletedAt: now)
            _ = try await store.eraseByOperator(driver, receipt: receipt)
            await forget(driver)
        }
        if !missing.drivers.isEmpty || !missing.withoutDriver.isEmpty {
            try await store.addTombstones(missing.withoutDriver, at: now)
            await revoked()
        }
        _ = try await store.completeErasures(of: nil)
        return missing
    }

    /// Returns whether deleted bytes are gone from SQLite's WAL. Waits up to ten seconds for read transactions that
    /// still need these bytes.
    package func finishRemoval() async -> Bool { await store.finishRemoval(within: .seconds(10)) }
}
