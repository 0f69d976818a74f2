// Metrics of the writer's queue, of the database's files and of the free disk space. They are updated only when
// somebody reads the metrics.

package import CoreMetrics
import Engine
import Foundation
import MetricInstruments

extension MetricFamily {
    static let databaseBytes = MetricFamily(
        "dwell_database_bytes", "Size of the database file and of its write-ahead log.")
    static let diskFreeBytes = MetricFamily(
        "dwell_disk_free_bytes", "Free disk space available to the database.")
}

extension SQLiteEventStore {
    /// Returns a function that writes the current values to metrics of `factory`. `path` is the database's path.
    package func sampler(path: String, _ factory: any MetricsFactory) -> @Sendable () -> Void {
        let path = DatabaseFiles.resolved(path)
        let waiting = factory.gauge(.writesWaiting)
        let main = factory.gauge(.databaseBytes, [("file", "main")])
        let log = factory.gauge(.databaseBytes, [("file", "wal")])
        let free = factory.gauge(.diskFreeBytes)
        return {
            waiting.set(Int64(self.writesWaiting))
            main.set(Self.bytes(of: path))
            log.set(Self.bytes(of: path + "-wal"))
            if let bytes = self.diskFreeBytes() { free.set(bytes) }
        }
    }

    private static func bytes(of path: String) -> Int64 {
        let attributes = try? FileManager.default.attributesOfItem(atPath: path)
        return (attributes?[.size] as? NSNumber)?.int64Value ?? 0
    }
}
