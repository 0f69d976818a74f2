// `TruncatableWAL` on SQLite: the WAL of the one writer.

import Engine
import Foundation

extension SQLiteEventStore: TruncatableWAL {
    /// More than a WAL that no reader holds comes to. While a large table is written to as fast as it goes, 298 MB were
    /// seen.
    package static var logBytesMax: Int64 { 2 * Int64(DatabaseOpening.walBytesMax) }

    package func truncateLog(quietFor quiet: Duration) async {
        await writer.truncateLog(quietFor: quiet)
    }

    /// Waits until what was removed by `purgesWAL` is gone from the WAL, at most for that time. False: a reader is
    /// still in the way; the next server that writes to the database, or starts on it, finishes.
    package func finishRemoval(within patience: Duration) async -> Bool {
        let deadline = ContinuousClock.now + patience
        while await !writer.finishRemoval() {
            guard ContinuousClock.now < deadline else { return false }
            try? await Task.sleep(for: .milliseconds(100))
        }
        // The next transaction takes the mark away that says what is owed.
        try? await change(sparesDrivers: true) { _ in }
        return true
    }

    package func logBytes() -> Int64? {
        let attributes = try? FileManager.default.attributesOfItem(atPath: path + "-wal")
        return (attributes?[.size] as? NSNumber)?.int64Value
    }
}
