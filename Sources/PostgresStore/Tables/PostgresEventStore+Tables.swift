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
    /// The longest time that a transaction of `TableTransactions` takes: `requestSeconds`, and then one last run. An
    /// audit entry gets its id before its transaction commits. So the entry becomes visible at most this long after it
    /// got its id.
    ///
    /// There is one exception: without the synchronous standby, PostgreSQL may commit later. By then, the metrics have
    /// counted entries with higher ids, so they never count this entry.
    package var auditSettlesMilliseconds: Int64 { Int64(Self.requestSeconds + BatchRun.roundTripSeconds) * 1000 }
}
