// Runs the transactions of SharedTables in the writer, and the reads of SharedTables on the read connections.

package import Engine
import GRDB
package import SharedTables

extension SQLiteEventStore: SQLDatabase {
    package func change<Outcome: Sendable>(
        effects: @escaping @Sendable (Outcome) -> ChangeEffects,
        _ change: @escaping @Sendable (any SQLTransaction) throws -> Outcome
    ) async throws(StoreFailure) -> Outcome {
        try await self.change(isPaced: false, effects: effects) { (db: Database) in try change(SQLiteTransaction(db)) }
    }

    package func read<Value: Sendable>(
        _ value: @escaping @Sendable (any SQLTransaction) throws -> Value
    ) async throws(StoreFailure) -> Value {
        try await read { (db: Database) in try value(SQLiteTransaction(db)) }
    }
}
