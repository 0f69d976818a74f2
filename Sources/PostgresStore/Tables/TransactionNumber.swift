// PostgreSQL's number of a transaction. If the answer to a COMMIT is lost, the store uses this number to find out
// whether the transaction was committed.

import Postgres

struct TransactionNumber: Hashable, Sendable {
    /// `xid8` as text.
    private let number: String
    /// The times of the server's start and of the last reset of its statistics. A restart or a recovery from a crash
    /// changes them.
    ///
    /// The number alone is not unique. If a transaction's number was not yet on disk before a crash or failover,
    /// PostgreSQL may give this number to a new transaction.
    private let server: String

    static let serverSQL = """
        extract(epoch FROM pg_postmaster_start_time())::text || ' '
            || coalesce((SELECT extract(epoch FROM stats_reset)::text FROM pg_stat_bgwriter), '')
        """

    /// Returns no row while the transaction has changed nothing.
    static let ask = PostgresStatement(
        "transaction_number",
        """
        SELECT pg_current_xact_id_if_assigned()::text, \(serverSQL)
        WHERE pg_current_xact_id_if_assigned() IS NOT NULL
        """)

    init(_ row: PostgresRow) throws(PostgresError) {
        (number, server) = (try row.text(0), try row.text(1))
    }

    // MARK: The outcome

    enum Status: Sendable {
        case committed, notCommitted, inProgress, unknown
    }

    func query() -> PostgresQuery { PostgresQuery(Self.status, [.text(number)]) }

    private static let status = PostgresStatement(
        "transaction_status", "SELECT pg_xact_status($1::xid8), \(serverSQL)")

    /// Reads the result of `query`. "aborted" always means that this transaction was not committed. Even if "aborted"
    /// is the status of a later transaction with the same number, this transaction was lost (see `server`).
    ///
    /// If `server` has changed, "committed" may be the status of a later transaction with the same number. The status
    /// of this transaction is then unknown.
    func status(_ row: PostgresRow) throws(PostgresError) -> Status {
        switch try row.optionalText(0) {
        case "committed": try row.text(1) == server ? .committed : .unknown
        case "aborted": .notCommitted
        case "in progress": .inProgress
        default: .unknown
        }
    }

    /// Returns the status that the error of `query` shows; nil if it shows none. 22023 means that the server has not
    /// yet given out the number. A crash or failover has then undone the transaction.
    static func status(_ error: PostgresError) -> Status? { error.sqlState == "22023" ? .notCommitted : nil }
}
