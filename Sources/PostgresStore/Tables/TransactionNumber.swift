// The number by which PostgreSQL knows a transaction, and what became of the transaction if the answer to its COMMIT
// was lost.

import Postgres

struct TransactionNumber: Hashable, Sendable {
    /// `xid8` as text.
    private let number: String
    /// When the server was started, and when its statistics were reset, which also happens in the recovery after a
    /// crash. After a crash or a failover the number of a transaction that was not yet on the disk is given to another
    /// one.
    private let server: String

    static let serverSQL = """
        extract(epoch FROM pg_postmaster_start_time())::text || ' '
            || coalesce((SELECT extract(epoch FROM stats_reset)::text FROM pg_stat_bgwriter), '')
        """

    /// Has no row as long as the transaction has changed nothing.
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

    /// Reads the result of `query`. A transaction that was committed keeps its number, even after a crash or a
    /// failover. If the transaction that has the number is not committed, this one is therefore not committed either.
    /// If the transaction that has the number is committed, it is certainly this one only if the server is still the
    /// same.
    func status(_ row: PostgresRow) throws(PostgresError) -> Status {
        switch try row.optionalText(0) {
        case "committed": try row.text(1) == server ? .committed : .unknown
        case "aborted": .notCommitted
        case "in progress": .inProgress
        default: .unknown
        }
    }

    /// Reads the error of `query`; nil if it does not tell the status. 22023: the number has not been given to any
    /// transaction.
    static func status(_ error: PostgresError) -> Status? { error.sqlState == "22023" ? .notCommitted : nil }
}
