// What an operator changes in a driver's account: a sign-out or a deletion at the driver's request, and deletions
// repeated after a restore. A running server and a command on the file of a stopped one do it with the same code.

package import JourneyModel

/// The store's port. Every change is audited as the operator's, in its transaction.
package protocol OperatorAccountStore: ErasureCompletion {
    /// Ends every sign-in session. Returns how many there were; nil for an unknown driver.
    func endAllByOperator(of driver: DriverID, at now: Moment) async throws(AccountFailure) -> Int?
    /// Returns false, without a change, for an unknown driver. What is left of the driver's rows: `completeErasures`.
    func eraseByOperator(_ driver: DriverID, receipt: ErasureReceipt) async throws(AccountFailure) -> Bool
    /// The deletions in the list that this database lacks.
    func missing(_ erasures: [RecordedErasure]) async throws(AccountFailure) -> MissingErasures
    /// From now on rejects the tokens of these drivers, of whom nothing is stored.
    func bury(_ erasures: [RecordedErasure], at now: Moment) async throws(AccountFailure)
    /// Waits, at most for that time, until deleted bytes are gone from the WAL. False: a reader of an old state is in
    /// the way; a server completes it when that reader ends.
    func finishRemoval(within patience: Duration) async -> Bool
}

package struct OperatorAccounts: Sendable {
    private let store: any OperatorAccountStore
    private let revoked: @Sendable () async -> Void
    private let forget: @Sendable (DriverID) async -> Void

    /// - Parameters:
    ///   - revoked: called after every revocation; returns when this process rejects the tokens.
    ///   - forget: as in `Accounts`.
    package init(
        store: any OperatorAccountStore, revoked: @escaping @Sendable () async -> Void = {},
        forget: @escaping @Sendable (DriverID) async -> Void = { _ in }
    ) {
        self.store = store
        self.revoked = revoked
        self.forget = forget
    }

    /// Returns the number of sessions that ended; nil for an unknown driver.
    package func signOut(_ driver: DriverID, at now: Moment) async throws(AccountFailure) -> Int? {
        let count = try await store.endAllByOperator(of: driver, at: now)
        await revoked()
        return count
    }

    /// Deletes like `DELETE /auth/me`. Returns nil for an unknown driver.
    package func erase(_ driver: DriverID, at now: Moment) async throws(AccountFailure) -> ErasureReceipt? {
        let receipt = Accounts.receipt(at: now)
        guard try await store.eraseByOperator(driver, receipt: receipt) else { return nil }
        await revoked()
        await forget(driver)
        try await store.completeErasure(of: driver)
        return receipt
    }

    /// The deletions in the list that this database lacks.
    package func missing(_ erasures: [RecordedErasure]) async throws(AccountFailure) -> MissingErasures {
        try await store.missing(erasures)
    }

    /// Deletes again who is in the database again, with the old receipts, one after the other. Deletions that are in
    /// the database already have no effect, but they are completed. Returns what was missing.
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
            try await store.bury(missing.withoutDriver, at: now)
            await revoked()
        }
        _ = try await store.completeErasures(of: nil)
        return missing
    }

    /// Whether deleted bytes are gone from the WAL. Waits some seconds for readers that are in the way.
    package func finishRemoval() async -> Bool { await store.finishRemoval(within: .seconds(10)) }
}
