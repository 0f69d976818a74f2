// `RetentionStore` on SQLite. Read connections find old rows. The writer deletes them among its other work.

package import Engine
import GRDB
package import JourneyModel

extension SQLiteEventStore: RetentionStore {
    package func agedEvents(_ request: AgedEventsRequest) async throws(StoreFailure) -> AgedEvents {
        try await read { db in try AgedRows.events(request, db) }
    }

    package func delete(_ events: ArraySlice<AgedEvent>) async throws(StoreFailure) -> Int {
        let events = Array(events)
        return try await change { db in try RetentionHorizon.delete(events, db) }
    }

    package func agedSessions(
        openedBefore: Moment, after number: Int64, limit: Int
    ) async throws(StoreFailure) -> [Int64] {
        try await read { db in
            try AgedRows.sessions(openedBefore: openedBefore, after: number, limit: limit, db)
        }
    }

    package func delete(
        sessions: ArraySlice<Int64>, openedBefore: Moment
    ) async throws(StoreFailure) -> Int {
        let sessions = Array(sessions)
        return try await change(keepsDriverCache: true) { db in
            try AgedRows.delete(sessions: sessions, openedBefore: openedBefore, db)
        }
    }

    package func unusedRegistrations(
        before: Moment, at now: Moment, after number: Int64, limit: Int
    ) async throws(StoreFailure) -> AgedNumbers {
        try await read { db in
            try AgedRows.unusedRegistrations(before: before, at: now, after: number, limit: limit, db)
        }
    }

    package func agedAuditLines(
        before: Moment, at now: Moment, after number: Int64, limit: Int
    ) async throws(StoreFailure) -> AgedNumbers {
        try await read { db in try AgedRows.auditLines(before: before, at: now, after: number, limit: limit, db) }
    }

    package func delete(auditLines: ArraySlice<Int64>) async throws(StoreFailure) -> Int {
        let lines = Array(auditLines)
        return try await change(keepsDriverCache: true) { db in
            let statement = try db.cachedStatement(sql: "DELETE FROM audit WHERE id = ? AND action <> 'erased'")
            return try lines.reduce(0) { count, line in
                try statement.execute(arguments: [line])
                return count + db.changesCount
            }
        }
    }

    /// Returns the receive time of the event with the lowest row number; nil if there is no event. Row numbers follow
    /// the order of storing, so another event may have been received a little earlier.
    package func oldestEventReceivedAt() async throws(StoreFailure) -> Moment? {
        try await read { db in
            try Int64.fetchOne(db, sql: "SELECT received_at_ms FROM event ORDER BY id LIMIT 1")
                .map(Moment.init(millisecondsSinceEpoch:))
        }
    }
}
