// PostgreSQL's number of a transaction. With it, the store finds out whether a transaction was committed if the answer
// to its COMMIT was lost.

import Postgres

struct TransactionNumber: Hashable, Sendable {
    /// `xid8` as text.
    private let number: String
    /// Identifies a run of the server: the times at which the server was started and at which its statistics were reset
    /// (recovery after a crash resets them too). After a crash or a failover, the number of a transaction that was not
    /// yet on disk may be given to another transaction.
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

    /// Reads the result of `query`. A committed transaction keeps its number, even after a crash or a failover. So if
    /// PostgreSQL reports that the number was aborted, this transaction was not committed. If PostgreSQL reports that
    /// the number was committed, the commit may be that of another transaction with the same number. It is certainly
    /// this transaction's commit only if `server` is unchanged.
    func status(_ row: PostgresRow) throws(PostgresError) -> Status {
        switch try row.optionalText(0) {
        case "committed": try row.text(1) == server ? .committed : .unknown
        case "aborted": .notCommitted
        case "in progress": .inProgress
        default: .unknown
        }
    }

    /// Reads the error of `query`. Returns nil if the error does not tell the status. 22023: no transaction has had the
    /// number yet.
    static func status(_ error: PostgresError) -> Status? { error.sqlState == "22023" ? .notCommitted : nil }
}
