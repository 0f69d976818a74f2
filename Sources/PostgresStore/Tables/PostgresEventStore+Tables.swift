// `SQLDatabase` on PostgreSQL: the tables that this store shares with SQLiteStore.

package import Engine
import Identity
package import SharedTables

extension PostgresEventStore: SQLDatabase {
    /// Ignores `effects`, which concern only SQLite's files and caches.
    package func change<Outcome: Sendable>(
        effects: @escaping @Sendable (Outcome) -> ChangeEffects,
        _ change: @escaping @Sendable (any SQLTransaction) throws -> Outcome
    ) async throws(StoreFailure) -> Outcome {
        try await tables.change(change)
    }

    package func read<Value: Sendable>(
        _ value: @escaping @Sendable (any SQLTransaction) throws -> Value
    ) async throws(StoreFailure) -> Value {
        try await tables.read(value)
    }
}

extension PostgresEventStore: AccountStatistics, InstanceStore, SettingsHistoryStore, HistoryStore, OperatorReader {
    /// The maximum time from the moment when an audit entry gets its id to the COMMIT that makes the entry visible. A
    /// transaction of `TableTransactions` takes at most `requestSeconds`, and then the time of one last run.
    ///
    /// If the synchronous standby is not available, PostgreSQL may commit even later. The metrics never count such a
    /// late entry, because they have already counted entries with higher ids.
    package var auditSettlesMilliseconds: Int64 { Int64(Self.requestSeconds + BatchRun.roundTripSeconds) * 1000 }
}
