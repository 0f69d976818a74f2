// Transactions of several round trips, for background work that no request waits for and that is done in pieces.

import Engine
import Postgres
import Sockets

extension PostgresEventStore {
    /// The pause, in milliseconds, before a transaction is run again.
    private static let retryMilliseconds = 20

    /// Runs a transaction on a connection of `tending`. Runs it again if the connection is lost, or after a conflict
    /// with another transaction. If the answer to COMMIT is lost, a committed transaction runs a second time. The
    /// caller must make sure that a second run is harmless.
    ///
    /// - Parameters:
    ///   - seconds: half of the time limit for all runs together.
    ///   - body: all round trips between BEGIN and COMMIT.
    func inTransaction<Value: Sendable>(
        seconds: Int = BatchRun.roundTripSeconds,
        _ body: @Sendable (PostgresConnection, Deadline) async throws(PostgresError) -> Value
    ) async throws(StoreFailure) -> Value {
        let deadline = Deadline.inSeconds(2 * seconds)
        while true {
            do throws(PostgresError) {
                return try await tending.withConnection(until: deadline) {
                    (connection) async throws(PostgresError) -> Value in
                    _ = try await connection.run([.init(.begin)], until: deadline)
                    let value = try await body(connection, deadline)
                    _ = try await connection.run([.init(.commit)], until: deadline)
                    return value
                }
            } catch {
                guard error.isRetryable || BatchRun.isLost(error), !deadline.hasPassed, !Task.isCancelled else {
                    throw StoreFailure(reading: error)
                }
                do { try await Task.sleep(for: .milliseconds(Self.retryMilliseconds)) } catch { throw .cancelled }
            }
        }
    }
}
