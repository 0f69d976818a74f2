// Transactions of several round trips, for background work, operators' commands and the probe of `/readyz`.

import Engine
import Postgres
import Sockets

extension PostgresEventStore {
    /// The pause, in milliseconds, before a transaction is run again.
    private static let retryMilliseconds = 20

    /// Runs a transaction on a connection of `tending`. If the connection is lost or another transaction causes a
    /// conflict, runs the transaction again.
    ///
    /// If the answer to COMMIT is lost, the transaction is run again, although it may already be committed. The caller
    /// must make sure that a second run does no harm.
    ///
    /// - Parameters:
    ///   - seconds: half of the time limit for all runs together.
    ///   - body: all round trips between BEGIN and COMMIT.
    func inTransaction<Value: Sendable>(
        seconds: Int = BatchRun.roundTripSeconds,
        _ body: @Sendable (PostgresConnection, Deadline) async throws(PostgresError) -> Value
    ) async throws(StoreFailure) -> Value {
        try await inTransaction(on: tending, begin: [.init(.begin)], until: .inSeconds(2 * seconds)) {
            (_, connection, deadline) async throws(PostgresError) -> Value in
            try await body(connection, deadline)
        }
    }

    /// Runs reads that may take long, on the connection of `searching`. All of them see the same snapshot of the
    /// database. If the task is cancelled, the reads end at once.
    ///
    /// - Parameters:
    ///   - seconds: the time limit for all runs together. It is also PostgreSQL's own limit for each statement.
    ///   - first: the queries of the first round trip. `body` gets their results, and may run more queries.
    func inSnapshot<Value: Sendable>(
        seconds: Int, first: [PostgresQuery],
        _ body: @Sendable ([PostgresResult], PostgresConnection, Deadline) async throws(PostgresError) -> Value
    ) async throws(StoreFailure) -> Value {
        let begin = [PostgresQuery(.beginSnapshot), Self.longLimits(seconds: seconds)]
        return try await inTransaction(
            on: searching, begin: begin + first, until: .inSeconds(seconds), endsWhenCancelled: true
        ) {
            (results, connection, deadline) async throws(PostgresError) -> Value in
            try await body(Array(results.dropFirst(begin.count)), connection, deadline)
        }
    }

    /// Runs one long query on the connection of `searching`. If the task is cancelled, the query ends at once, so that
    /// a stopping server does not wait for it.
    ///
    /// - Parameter seconds: the time limit for all runs together. It is also PostgreSQL's own limit for the statement.
    func readLong(_ query: PostgresQuery, seconds: Int) async throws(StoreFailure) -> PostgresResult {
        let begin = [PostgresQuery(.begin), Self.longLimits(seconds: seconds), query]
        return try await inTransaction(
            on: searching, begin: begin, until: .inSeconds(seconds), endsWhenCancelled: true
        ) {
            (results, _, _) async throws(PostgresError) -> PostgresResult in
            results[2]
        }
    }

    private static func longLimits(seconds: Int) -> PostgresQuery {
        PostgresQuery(.longLimits, [.text(String(1_000 * seconds))])
    }

    /// - Parameters:
    ///   - begin: the queries of the first round trip. The first query is BEGIN.
    ///   - endsWhenCancelled: whether the transaction ends at once if the task is cancelled. True only for transactions
    ///     that change nothing.
    ///   - body: gets the results of `begin`, and runs all further round trips before COMMIT.
    private func inTransaction<Value: Sendable>(
        on pool: PostgresPool, begin: [PostgresQuery], until deadline: Deadline, endsWhenCancelled: Bool = false,
        _ body: @Sendable ([PostgresResult], PostgresConnection, Deadline) async throws(PostgresError) -> Value
    ) async throws(StoreFailure) -> Value {
        while true {
            do throws(PostgresError) {
                return try await pool.withConnection(until: deadline) {
                    (connection) async throws(PostgresError) -> Value in
                    guard endsWhenCancelled else {
                        return try await Self.runTransaction(begin, on: connection, until: deadline, body)
                    }
                    return try await connection.runUntilCancelled { () async throws(PostgresError) -> Value in
                        try await Self.runTransaction(begin, on: connection, until: deadline, body)
                    }
                }
            } catch {
                if endsWhenCancelled, Task.isCancelled { throw .cancelled }
                guard error.isRetryable || BatchRun.isLost(error), !deadline.hasPassed, !Task.isCancelled else {
                    throw StoreFailure(reading: error)
                }
                do { try await Task.sleep(for: .milliseconds(Self.retryMilliseconds)) } catch { throw .cancelled }
            }
        }
    }

    private static func runTransaction<Value: Sendable>(
        _ begin: [PostgresQuery], on connection: PostgresConnection, until deadline: Deadline,
        _ body: @Sendable ([PostgresResult], PostgresConnection, Deadline) async throws(PostgresError) -> Value
    ) async throws(PostgresError) -> Value {
        let begun = try await connection.run(begin, until: deadline)
        let value = try await body(begun, connection, deadline)
        _ = try await connection.run([.init(.commit)], until: deadline)
        return value
    }
}
