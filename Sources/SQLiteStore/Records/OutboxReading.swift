// The delivery queues, for metrics and the operator page: read-only, and each query looks up at most one row.

package import Engine
import GRDB
package import JourneyModel

/// Revocations that Apple has not confirmed.
package struct WaitingRevocations: Hashable, Sendable {
    package var count: Int
    /// When the oldest was stored; nil: the queue is empty.
    package var oldest: Moment?
}

extension SQLiteEventStore {
    /// When the server received the first event after that number; nil: there is none.
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

    /// Free space for this process on the disk of the database; nil when the system does not say.
    package nonisolated func diskFreeBytes() -> Int64? {
        FreeSpace.bytes(besideFile: path).map(Int64.init)
    }
}
