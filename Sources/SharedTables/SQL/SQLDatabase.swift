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
    /// Whether the transaction changed no rows of drivers. If true, the writer's cache of drivers remains valid.
    package var keepsDriverCache: Bool

    package init(purgesWAL: Bool = false, keepsDriverCache: Bool = false) {
        self.purgesWAL = purgesWAL
        self.keepsDriverCache = keepsDriverCache
    }
}

extension SQLDatabase {
    /// Runs one transaction. `keepsDriverCache` must be false if the transaction changes rows of drivers
    /// (`ChangeEffects`).
    package func change<Outcome: Sendable>(
        keepsDriverCache: Bool = false, _ change: @escaping @Sendable (any SQLTransaction) throws -> Outcome
    ) async throws(StoreFailure) -> Outcome {
        try await self.change(effects: { _ in ChangeEffects(keepsDriverCache: keepsDriverCache) }, change)
    }
}

/// Thrown if a request would create a deleted driver again (`DriverRows.rowOrNew`). Both stores turn this error into
/// `StoreFailure.driverErased`.
package struct DriverErased: Error, Hashable, Sendable {
    package init() {}
}
