// The failure of a call, and whether the call's transaction may have been committed.

/// The reason why a call failed. The description is for logs: it contains neither values nor passwords.
package struct PostgresError: Error, Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        /// The server rejected a statement. The code is an SQLSTATE (PostgreSQL manual, appendix A).
        case server(sqlState: String)
        /// The connection ended before the call was answered.
        case connectionLost
        /// The deadline passed before the server answered the call, or before a connection was free for it.
        case timedOut
        /// No connection could be made, or Dwell cannot work with the server's settings.
        case cannotConnect
        /// The server answered with a value whose type or form is not the expected one, or with an unexpected NULL.
        case unreadable
        /// libpq cannot send the call: its values are too large or too many, or its SQL contains U+0000.
        case unsendable
        /// There are three cases:
        ///
        /// - The task was cancelled while it connected, while it waited for a connection, or during
        ///   `PostgresConnection.runUntilCancelled`.
        /// - The pool was closed.
        /// - The caller stopped waiting before the call was sent.
        case cancelled
    }

    package let kind: Kind
    package let message: String
    /// The name of the constraint that a statement violated, if the server named one.
    package let constraint: String?
    /// Whether the call may have been sent, but its answer did not arrive. The call's transaction may then have been
    /// committed.
    package let leavesCommitInDoubt: Bool

    package init(
        _ kind: Kind, _ message: String, constraint: String? = nil, leavesCommitInDoubt: Bool = false
    ) {
        self.kind = kind
        self.message = message
        self.constraint = constraint
        self.leavesCommitInDoubt = leavesCommitInDoubt
    }

    /// The SQLSTATE, if the server rejected a statement.
    package var sqlState: String? {
        if case .server(let sqlState) = kind { sqlState } else { nil }
    }

    /// Whether a conflict with another transaction caused the error (40001 serialization_failure, 40P01
    /// deadlock_detected). A second run of the same transaction may succeed.
    package var isRetryable: Bool {
        sqlState == SQLState.serializationFailure || sqlState == SQLState.deadlockDetected
    }

    func leavingCommitInDoubt() -> PostgresError {
        PostgresError(kind, message, constraint: constraint, leavesCommitInDoubt: true)
    }
}

extension PostgresError: CustomStringConvertible {
    package var description: String { message }
}

/// The SQLSTATE codes that this module treats specially.
package enum SQLState {
    package static let serializationFailure = "40001"
    static let deadlockDetected = "40P01"
    /// A statement was rejected because an earlier one in the transaction failed.
    static let inFailedTransaction = "25P02"
    /// The server does not accept writes, for example because it is a standby.
    static let readOnlyTransaction = "25006"

    /// The classes whose messages contain no values, only names from the SQL text and from the catalogue. Messages of
    /// other classes, such as 22 (data exception), quote values.
    private static let classesWithoutValues: Set<String> = [
        "08", "23", "25", "26", "28", "34", "3D", "3F", "40", "42", "53", "54", "55", "57", "58",
    ]

    static func messageHasNoValues(_ code: String) -> Bool {
        classesWithoutValues.contains(String(code.prefix(2)))
    }
}
