// Runs the transactions of the protocols for accounts and purchases. Their methods throw `AccountFailure`, so a failure
// of the store is converted to it.

import Engine
package import Identity

package protocol AccountTransactions: Sendable {
    var database: any SQLDatabase { get }
}

extension AccountTransactions {
    /// Runs one transaction. It may add rows of drivers, but must not change or delete rows that SQLite's writer caches
    /// (`ChangeEffects.keepsDriverCache`).
    package func change<Outcome: Sendable>(
        _ change: @escaping @Sendable (any SQLTransaction) throws -> Outcome
    ) async throws(AccountFailure) -> Outcome {
        do throws(StoreFailure) {
            return try await database.change(change)
        } catch {
            throw AccountFailure(error)
        }
    }

    package func read<Value: Sendable>(
        _ value: @escaping @Sendable (any SQLTransaction) throws -> Value
    ) async throws(AccountFailure) -> Value {
        do throws(StoreFailure) {
            return try await database.read(value)
        } catch {
            throw AccountFailure(error)
        }
    }
}
