// `TruncatableWAL` on SQLite: the writer's WAL.

import Engine
import Foundation

extension SQLiteEventStore: TruncatableWAL {
    /// Size in bytes that the WAL exceeds only if a reader prevents its reset. Without such a reader, up to 298 MB were
    /// seen while a large table was written at full speed.
    package static var logBytesMax: Int64 { 2 * Int64(DatabaseOpening.walBytesMax) }

    package func truncateLog(quietFor quiet: Duration) async {
        await writer.truncateLog(quietFor: quiet)
    }

    /// Waits, at most for `timeout`, until data removed with `purgesWAL` is gone from the WAL. Returns false if a
    /// reader still prevents that; the WAL is then truncated by the next server that writes to the database or opens
    /// it.
    package func finishRemoval(within timeout: Duration) async -> Bool {
        let deadline = ContinuousClock.now + timeout
        while await !writer.finishRemoval() {
            guard ContinuousClock.now < deadline else { return false }
            try? await Task.sleep(for: .milliseconds(100))
        }
        // The next transaction clears the mark that records the pending truncation.
        try? await change(keepsDriverCache: true) { _ in }
        return true
    }

    package func logBytes() -> Int64? {
        let attributes = try? FileManager.default.attributesOfItem(atPath: path + "-wal")
        return (attributes?[.size] as? NSNumber)?.int64Value
    }
}
