// `DatabaseStatus`, `EventStatistics` and `BackupHistory` on PostgreSQL.

package import CoreMetrics
package import Engine
import MetricInstruments
import Postgres

extension PostgresEventStore {
    /// Returns a function that sets the gauge `writesWaiting` to the number of waiting requests.
    package func sampler(_ factory: any MetricsFactory) -> @Sendable () -> Void {
        let waiting = factory.gauge(.writesWaiting)
        return { waiting.set(Int64(self.writesWaiting)) }
    }
}

extension PostgresEventStore: DatabaseStatus {
    /// Updates a row, to find out whether the server accepts writes. The update fails if the server is read-only or a
    /// synchronous standby does not answer.
    package func checkWritable() async throws(StoreFailure) {
        try await inTransaction(seconds: Self.probeSeconds) { (connection, deadline) async throws(PostgresError) in
            _ = try await connection.run([PostgresQuery(StatusStatements.probe)], until: deadline)
        }
    }

    private static let probeSeconds = 2

    /// Returns nil. The database may be on another machine, and this process cannot see the disk of that machine.
    package func diskFreeBytes() -> Int64? { nil }
}

extension PostgresEventStore: EventStatistics {}

extension PostgresEventStore: BackupHistory {
    /// Returns nil. PostgreSQL has backups of its own, which Dwell does not see.
    package func lastBackup() async throws(StoreFailure) -> LastBackup? { nil }
}

private enum StatusStatements {
    static let probe = PostgresStatement("write_probe", "UPDATE event_position SET xact_offset = xact_offset")
}
