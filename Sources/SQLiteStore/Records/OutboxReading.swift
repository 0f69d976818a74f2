// The state of the delivery queues, for metrics and the operator page. The functions only read, and each query returns
// at most one row.

package import Engine
import GRDB
package import Identity
package import JourneyModel

extension SQLiteEventStore {
    /// Returns the receive time of the first event with a row number higher than `id`; nil if there is no such event.
    package func receivedAt(ofFirstEventAfter id: Int64) async throws(StoreFailure) -> Moment? {
        try await read { db in
            try Int64.fetchOne(
                db, sql: "SELECT received_at_ms FROM event WHERE id > ? ORDER BY id LIMIT 1", arguments: [id]
            ).map(Moment.init(millisecondsSinceEpoch:))
        }
    }

    package func waitingRevocations() async throws(StoreFailure) -> WaitingRevocations {
        try await read { db in
            guard let row = try Row.fetchOne(db, sql: "SELECT count(*), min(created_at_ms) FROM apple_revocation")
            else { return WaitingRevocations(count: 0, oldest: nil) }
            return WaitingRevocations(
                count: row[0], oldest: (row[1] as Int64?).map(Moment.init(millisecondsSinceEpoch:)))
        }
    }

    /// Returns the number of bytes that this process may still write on the database's disk. Returns nil if the system
    /// does not report it.
    package nonisolated func diskFreeBytes() -> Int64? {
        FreeSpace.bytes(besideFile: path).map(Int64.init)
    }
}
