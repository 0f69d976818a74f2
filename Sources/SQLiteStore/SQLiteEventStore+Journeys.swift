// `DeadlineStore` and `JourneyReader` on SQLite. `storeExpiries` uses the writer. All other functions use the read
// connections, with one snapshot per call.

package import Engine
import GRDB
package import JourneyModel

extension SQLiteEventStore: DeadlineStore {
    package func earliestDeadline() async throws(StoreFailure) -> Moment? {
        try await read { db in
            try Int64.fetchOne(
                db.cachedStatement(
                    sql: """
                        SELECT next_deadline_ms FROM driver WHERE next_deadline_ms IS NOT NULL
                            AND NOT \(RefoldTable.isUnderWaySQL) AND rules <= \(Fold.rulesVersion)
                        ORDER BY next_deadline_ms LIMIT 1
                        """)
            ).map(Moment.init(millisecondsSinceEpoch:))
        }
    }

    /// Returns the number of drivers whose next deadline is before `now`. The expiry events for these deadlines are not
    /// stored yet.
    package func dueDriverCount(at now: Moment) async throws(StoreFailure) -> Int {
        try await read { db in
            try Int.fetchOne(
                db.cachedStatement(sql: "SELECT count(*) FROM driver WHERE next_deadline_ms < ?"),
                arguments: [now.millisecondsSinceEpoch]) ?? 0
        }
    }

    package func storeExpiries(_ request: ExpiryRequest) async throws(StoreFailure) -> StoredExpiries {
        try await withCheckedContinuation { continuation in
            writer.add(.expire(request, continuation))
        }.get()
    }
}

extension SQLiteEventStore: JourneyReader {
    package func journey(of driver: DriverID) async throws(StoreFailure) -> Journey {
        try await read { db in try StoredChanges.storedHead(of: driver, db)?.journey ?? Journey() }
    }

    package func changes(of driver: DriverID, after id: Int64?) async throws(StoreFailure) -> JourneyChanges {
        try await read { db in try StoredChanges.changes(of: driver, after: id, db) }
    }

    package func sessions(
        of driver: DriverID, limit: Int, after cursor: String?
    ) async throws(StoreFailure) -> SessionPage? {
        try await readOutsideRefold(of: driver) { db in
            try StoredSessions.page(of: driver, limit: limit, after: cursor, db)
        }
    }

    package func timeline(
        of sessionID: String, of driver: DriverID, limit: Int, after cursor: Int64?
    ) async throws(StoreFailure) -> TimelineOutcome {
        try await readOutsideRefold(of: driver) { db in
            try StoredSessions.timeline(of: sessionID, of: driver, limit: limit, after: cursor, db)
        }
    }

    /// Returns the drivers of all events after `id`, or `.any` (see `CommittedChanges.Drivers`). Ignores `drivers`,
    /// because one query finds the drivers of all events. The result may contain drivers that the caller did not ask
    /// for.
    package func committedChanges(
        after id: Int64?, among drivers: Set<DriverID>
    ) async throws(StoreFailure) -> CommittedChanges {
        try await read { db in try StoredChanges.committedChanges(after: id, db) }
    }

    package func driversAwaitingRefold(among drivers: Set<DriverID>) async throws(StoreFailure) -> Set<DriverID> {
        try await read { db in try StoredChanges.driversAwaitingRefold(among: drivers, db) }
    }

    package func correctedJourneys(after id: Int64?) async throws(StoreFailure) -> CommittedChanges {
        try await read { db in try StoredChanges.correctedJourneys(after: id, db) }
    }
}
