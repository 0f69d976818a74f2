// `TruncatableWAL` on SQLite: the writer's WAL.

import Engine
import Foundation

extension SQLiteEventStore: TruncatableWAL {
    /// Larger than a WAL that no reader holds. Up to 298 MB were seen while a large table was written at full
    /// speed.
    package static var logBytesMax: Int64 { 2 * Int64(DatabaseOpening.walBytesMax) }

    package func truncateLog(quietFor quiet: Duration) async {
        await writer.truncateLog(quietFor: quiet)
    }

    /// Waits, at most for that time, until data removed by `purgesWAL` is gone from the WAL. False: a reader is
    /// still in the way; the next server that writes to the database, or starts on it, completes it.
    package func finishRemoval(within patience: Duration) async -> Bool {
        let deadline = ContinuousClock.now + patience
        while await !writer.finishRemoval() {
            guard ContinuousClock.now < deadline else { return false }
            try? await Task.sleep(for: .milliseconds(100))
        }
        // The next transaction clears the mark that records the pending truncation.
        try? await change(sparesDrivers: true) { _ in }
        return true
    }

    package func logBytes() -> Int64? {
        let attributes = try? FileManager.default.attributesOfItem(atPath: path + "-wal")
        return (attributes?[.size] as? NSNumber)?.int64Value
    }
}
