// Applies the settings of each session, and checks the operator's setting `synchronous_commit`.

internal import Sockets

enum PostgresSession {
    /// With these values of `synchronous_commit`, the server answers a COMMIT only when both disks have the
    /// transaction: its own and the synchronous standby's. With the other values (remote_write, local, off), an
    /// acknowledged event may be lost.
    private static let durableCommits: Set<String> = ["on", "remote_apply"]

    static func setUp(
        _ connection: PostgresConnection, _ configuration: PostgresConfiguration, until deadline: Deadline
    ) async throws(PostgresError) {
        let settings = [
            ("statement_timeout", String(configuration.statementTimeoutMilliseconds)),
            ("lock_timeout", String(configuration.lockTimeoutMilliseconds)),
            ("idle_in_transaction_session_timeout", String(configuration.idleInTransactionTimeoutMilliseconds)),
            ("default_transaction_isolation", "read committed"),
            // Warnings must arrive, because LibpqConnection checks for one of them (`isCommitUnconfirmed`).
            ("client_min_messages", "warning"),
            // With force_generic_plan, Citus cannot run some statements.
            ("plan_cache_mode", "auto"),
        ]
        // The checked value of `synchronous_commit` is set for the session. The session keeps it even if the operator
        // changes the setting later, with ALTER SYSTEM and a reload.
        let changes =
            settings.indices.map { "set_config($\(2 * $0 + 1), $\(2 * $0 + 2), false)" } + [
                "set_config('synchronous_commit', current_setting('synchronous_commit'), false)"
            ]
        let statement = PostgresStatement(
            "session", "SELECT current_setting('synchronous_commit'), " + changes.joined(separator: ", "))
        let query = PostgresQuery(statement, settings.flatMap { [.text($0.0), .text($0.1)] })
        let results = try await connection.run([query], until: deadline)
        guard let row = results.first?.rows.first else {
            throw PostgresError(.unreadable, "The server did not answer the settings of the session.")
        }
        let commit = try row.text(0)
        guard durableCommits.contains(commit) else {
            throw PostgresError(
                .cannotConnect,
                "The setting synchronous_commit of the server, the database or the user is \(commit). Dwell acknowledges "
                    + "events after COMMIT, so the setting must be on or remote_apply.")
        }
    }
}
