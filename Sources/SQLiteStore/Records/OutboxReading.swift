// How far the delivery of events is behind, and the free disk space, for metrics and the operator page.

package import Engine
import GRDB
package import JourneyModel

extension SQLiteEventStore {
    /// Returns the receive time of the first event whose row number is higher than `id`; nil if there is no such event.
    package func receivedAt(ofFirstEventAfter id: Int64) async throws(StoreFailure) -> Moment? {
        try await read { db in
            try Int64.fetchOne(
                db, sql: "SELECT received_at_ms FROM event WHERE id > ? ORDER BY id LIMIT 1", arguments: [id]
            ).map(Moment.init(millisecondsSinceEpoch:))
        }
    }

    /// Returns the number of bytes that this process may still write on the database's disk. Returns nil if the system
    /// does not report this number.
    package nonisolated func diskFreeBytes() -> Int64? {
        FreeSpace.bytes(besideFile: path).map(Int64.init)
    }
}
