// `WriteAheadLog` on SQLite: the WAL of the one writer.

import Engine
import Foundation

extension SQLiteEventStore: WriteAheadLog {
    /// More than a WAL that no reader holds comes to. While a large table is written to as fast as it goes, 298 MB were
    /// seen.
    package static var logBytesMax: Int64 { 2 * Int64(DatabaseOpening.walBytesMax) }

    package func truncateLog(quietFor quiet: Duration) async {
        await writer.truncateLog(quietFor: quiet)
    }

    package func logBytes() -> Int64? {
        let attributes = try? FileManager.default.attributesOfItem(atPath: path + "-wal")
        return (attributes?[.size] as? NSNumber)?.int64Value
    }
}
