// A database that runs this module's SQL statements in transactions.

package import Engine

package protocol SQLDatabase: Sendable {
    /// Runs one serializable transaction, and returns when it is durable. The closure may run more than once.
    ///
    /// - Parameter effects: derives the transaction's effects from its outcome.
    func change<Outcome: Sendable>(
        effects: @escaping @Sendable (Outcome) -> ChangeEffects,
        _ change: @escaping @Sendable (any SQLTransaction) throws -> Outcome
    ) async throws(StoreFailure) -> Outcome

    /// Runs a read in one snapshot of the database.
    func read<Value: Sendable>(
        _ value: @escaping @Sendable (any SQLTransaction) throws -> Value
    ) async throws(StoreFailure) -> Value
}

/// What a transaction affects besides the tables.
package struct ChangeEffects: Sendable {
    /// Whether the removed rows must also disappear from SQLite's WAL.
    package var purgesWAL: Bool
    /// Whether SQLite's writer keeps its caches of drivers and shared texts. Must be false if the transaction
    /// changed or deleted rows that the caches may hold. The caches do not hold rows that the transaction added.
    package var keepsDriverCache: Bool

    package init(purgesWAL: Bool = false, keepsDriverCache: Bool = true) {
        self.purgesWAL = purgesWAL
        self.keepsDriverCache = keepsDriverCache
    }
}

extension SQLDatabase {
    /// Runs one transaction. It may add rows of drivers, but must not change or delete rows that SQLite's writer caches
    /// (`ChangeEffects.keepsDriverCache`).
    package func change<Outcome: Sendable>(
        _ change: @escaping @Sendable (any SQLTransaction) throws -> Outcome
    ) async throws(StoreFailure) -> Outcome {
        try await self.change(effects: { _ in ChangeEffects() }, change)
    }
}

/// Thrown if a request would create a deleted driver again (`DriverRows.rowOrNew`). Both stores turn this error into
/// `StoreFailure.driverErased`.
package struct DriverErased: Error, Hashable, Sendable {
    package init() {}
}
