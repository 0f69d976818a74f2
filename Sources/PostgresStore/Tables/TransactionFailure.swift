// Decides whether a failed transaction may be run again, or which failure its caller gets. Must be used only for a
// transaction that has committed nothing.

import Engine
import Postgres
import SharedTables

struct TransactionFailure {
    enum Kind {
        /// Another transaction or the connection was the cause, so a further run may succeed.
        case again
        /// A unique index is violated. If a concurrent transaction was the cause, a further run succeeds.
        case violation
        case final
    }

    let kind: Kind
    /// The failure for the caller if the transaction is not run again.
    let failure: StoreFailure

    init(_ error: any Error) {
        switch error {
        case let error as PostgresError:
            kind = Self.kind(of: error)
            failure = StoreFailure(reading: error)
        case let error as StoreFailure: (kind, failure) = (.final, error)
        case is DriverErased: (kind, failure) = (.final, .driverErased)
        default: (kind, failure) = (.final, .unavailable("PostgreSQL: \(error)"))
        }
    }

    private static func kind(of error: PostgresError) -> Kind {
        switch error.kind {
        // A call that timed out has closed its connection.
        case .connectionLost, .timedOut, .cannotConnect: .again
        case .unreadable, .unsendable, .cancelled: .final
        case .server(let state):
            // 55P03: a lock was not free in time. 57014: the statement took too long. 25006: the server is now a
            // standby, and the pool finds the new primary.
            if error.isRetryable || BatchRun.isLost(error) || ["55P03", "57014", "25006"].contains(state) {
                .again
            } else if state == "23505" {
                .violation
            } else {
                .final
            }
        }
    }
}
