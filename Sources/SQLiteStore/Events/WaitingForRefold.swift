// Drivers that were folded by the rules of another release.

package import Engine
import JourneyModel

final class WaitingForRefold {
    private let find: PreparedStatement

    init(on connection: OpaquePointer) throws(SQLiteError) {
        find = try PreparedStatement(
            """
            SELECT id, driver_id FROM driver WHERE id > ?1 AND rules <> ?2
            AND (?3 IS NULL OR EXISTS (SELECT 1 FROM event WHERE driver = driver.id AND received_at_ms >= ?3))
            ORDER BY id LIMIT 1
            """, on: connection)
    }

    /// The next one in the order of the store's numbers. Changes of drivers must have been written before.
    func next(_ request: RefoldRequest) throws(SQLiteError) -> (number: Int64, driver: DriverID)? {
        try find.first { (bindings) throws(SQLiteError) in
            try bindings.set(1, request.after)
            try bindings.set(2, Fold.rulesVersion)
            try bindings.set(3, request.since?.millisecondsSinceEpoch)
        } read: { row in
            (row.integer(0), DriverID(row.text(1)))
        }
    }
}

extension SQLiteEventStore: JourneyRefolder {
    package func refold(_ request: RefoldRequest) async throws(StoreFailure) -> RefoldPart {
        try await withCheckedContinuation { continuation in
            writer.add(.refold(request, continuation))
        }.get()
    }
}
