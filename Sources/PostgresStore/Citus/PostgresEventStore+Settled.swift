// Finds the settled position on Citus: the position below which no new event can appear.
//
// On a single PostgreSQL server, the lowest number of an unfinished transaction determines this position. On Citus,
// that number alone would give a position that is too high.
//
// The coordinator of Citus first prepares a transaction on the workers (PREPARE TRANSACTION). Then it commits the
// transaction locally, and finally sends COMMIT PREPARED to the workers. Between the local commit and COMMIT PREPARED,
// the transaction has ended, but its rows are not visible.
//
// A reader therefore first takes the lowest number of an unfinished transaction. Every transaction with a lower number
// has then ended or is prepared. The reader waits until all transactions that are prepared at this moment have ended.
// Their rows are then visible.
//
// After a crash, a transaction stays prepared until the maintenance daemon of Citus ends it. The daemon looks for such
// transactions every 60 s (citus.recover_2pc_interval). Until the daemon ends the transaction, readers stop at the last
// settled position.

import Engine
import Postgres
import Synchronization

/// The highest settled position that this process has found.
final class SettledPosition: Sendable {
    private let highest = Mutex<Int64?>(nil)

    var last: Int64? { highest.withLock { $0 } }

    func note(_ position: Int64) { highest.withLock { $0 = max($0 ?? position, position) } }
}

extension PostgresEventStore {
    /// How often the prepared transactions are read again, and the pause before each read. Normally a transaction stays
    /// prepared for a few milliseconds.
    ///
    /// If a transaction is still prepared after `settleRoundsMax` reads, readers stop at the last settled position. If
    /// this process has not found a settled position yet, the readers fail.
    private static let settleRoundsMax = 20
    private static let settlePauseMilliseconds = 5

    /// Returns the position before which readers of events must stop on Citus; `.max` on a single PostgreSQL server. A
    /// reader also computes `EventPosition.end`, and stops at the lower of the two positions.
    func settledEnd() async throws(StoreFailure) -> Int64 {
        guard try await shards().areDistributed else { return .max }
        let found = try await read([
            PostgresQuery(SettledStatements.end), PostgresQuery(SettledStatements.prepared),
        ])
        let end = try decoded { () throws(PostgresError) in try found[0][0].int8(0) }
        var waiting = try prepared(found[1])
        for _ in 0..<Self.settleRoundsMax where !waiting.isEmpty {
            do {
                try await Task.sleep(for: .milliseconds(Self.settlePauseMilliseconds))
            } catch {
                throw .cancelled
            }
            waiting.formIntersection(try prepared(await read([PostgresQuery(SettledStatements.prepared)])[0]))
        }
        guard waiting.isEmpty else {
            guard let last = settled.last else {
                throw .unavailable("Citus has not ended a transaction that it has prepared")
            }
            return last
        }
        settled.note(end)
        return end
    }

    /// Returns the names of the prepared transactions of all servers. Throws if a server did not answer, because its
    /// prepared transactions are then unknown.
    private func prepared(_ result: PostgresResult) throws(StoreFailure) -> Set<String> {
        try decoded { () throws(PostgresError) in
            var names: Set<String> = []
            for row in result.rows {
                let text = try row.text(1)
                guard try row.bool(0) else { throw PostgresError(.unreadable, "a server of Citus did not answer") }
                names.formUnion(text.split(separator: " ").map(String.init))
            }
            return names
        }
    }
}

private enum SettledStatements {
    static let end = PostgresStatement("settled_end", "SELECT \(EventPosition.end)")

    /// One row for each server of the cluster: whether it has answered, and the names of its prepared transactions.
    static let prepared = PostgresStatement(
        "prepared_transactions",
        """
        SELECT success, coalesce(result, '') FROM run_command_on_all_nodes($command$
            SELECT coalesce(string_agg(gid, ' '), '') FROM pg_prepared_xacts
            WHERE database = current_database() AND gid LIKE 'citus\\_%'
        $command$)
        """)
}
