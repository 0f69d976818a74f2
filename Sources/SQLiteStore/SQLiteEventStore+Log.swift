// `TruncatableWAL` on SQLite: the writer's WAL.

import Engine
import Foundation

extension SQLiteEventStore: TruncatableWAL {
    /// The size in bytes beyond which the WAL grows only if a long read prevents SQLite from resetting it. Without such
    /// a read, the WAL never exceeded 298 MB in measurements, even while a large table was written.
    package static var logBytesMax: Int64 { 2 * Int64(DatabaseOpening.walBytesMax) }

    package func truncateLog(quietFor quiet: Duration) async {
        await writer.truncateLog(quietFor: quiet)
    }

    /// Waits until the WAL no longer contains removed data (see `purgesWAL` of `change`). Returns false if a read
    /// prevents the truncation of the WAL for longer than `timeout`. In this case, the next server that writes to the
    /// database or opens it truncates the WAL.
    package func finishRemoval(within timeout: Duration) async -> Bool {
        let deadline = ContinuousClock.now + timeout
        while await !writer.finishRemoval() {
            guard ContinuousClock.now < deadline else { return false }
            try? await Task.sleep(for: .milliseconds(100))
        }
        // This empty transaction clears the mark that records the pending truncation.
        try? await change(keepsDriverCache: true) { _ in }
        return true
    }

    package func logBytes() -> Int64? {
        let attributes = try? FileManager.default.attributesOfItem(atPath: DatabaseFiles.resolved(path) + "-wal")
        return (attributes?[.size] as? NSNumber)?.int64Value
    }
}
