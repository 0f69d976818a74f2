// A database that runs transactions of this module's statements.

package import Engine

package protocol SQLDatabase: Sendable {
    /// Runs one transaction, and returns when it is durable. Its reads see one state of the database, and no other
    /// transaction changes what they have read before this one commits. The closure may run more than once.
    ///
    /// - Parameter effects: computes from the outcome what the transaction changed apart from its own rows.
    func change<Outcome: Sendable>(
        effects: @escaping @Sendable (Outcome) -> ChangeEffects,
        _ change: @escaping @Sendable (any SQLTransaction) throws -> Outcome
    ) async throws(StoreFailure) -> Outcome

    /// Reads from one state of the database.
    func read<Value: Sendable>(
        _ value: @escaping @Sendable (any SQLTransaction) throws -> Value
    ) async throws(StoreFailure) -> Value
}

/// What a transaction changed apart from its own rows.
package struct ChangeEffects: Sendable {
    /// Whether the rows that the change removed must be gone from SQLite's WAL as well.
    package var purgesWAL: Bool
    /// Whether the change left the rows of drivers as they were, so that the writer's cache remains valid.
    package var keepsDriverCache: Bool

    package init(purgesWAL: Bool = false, keepsDriverCache: Bool = false) {
        self.purgesWAL = purgesWAL
        self.keepsDriverCache = keepsDriverCache
    }
}

extension SQLDatabase {
    /// `keepsDriverCache` has the same meaning as in `ChangeEffects`.
    package func change<Outcome: Sendable>(
        keepsDriverCache: Bool = false, _ change: @escaping @Sendable (any SQLTransaction) throws -> Outcome
    ) async throws(StoreFailure) -> Outcome {
        try await self.change(effects: { _ in ChangeEffects(keepsDriverCache: keepsDriverCache) }, change)
    }
}

/// The driver of a transaction was deleted so recently that the request may be from before the deletion. Both stores
/// turn this error into `StoreFailure.driverErased`.
package struct DriverErased: Error, Hashable, Sendable {
    package init() {}
}
