// `OperatorReader` on SQLite. All functions use the read connections. `operatorTimeline` reads two snapshots, and every
// other function reads one.

package import Engine
import Foundation
import GRDB
package import JourneyModel
import SharedTables

extension SQLiteEventStore: OperatorReader {
    private static let driverCountsSQL =
        "SELECT state, count(*) FROM driver WHERE id NOT IN (\(SimulatedDriverRows.select)) GROUP BY state"

    /// Maximum number of event rows that one query counts. Counting this many rows takes a tenth of a second.
    static let talliedRowsMax: Int64 = 500_000

    package func driverCounts() async throws(StoreFailure) -> [JourneyState: Int] {
        try await read { db in
            var counts: [JourneyState: Int] = [:]
            for row in try Row.fetchAll(db, sql: Self.driverCountsSQL) {
                counts[try StoredEvents.state(row, 0)] = row[1]
            }
            return counts
        }
    }

    package func tallies(after id: Int64?, since start: Moment) async throws(StoreFailure) -> EventTallies {
        try await read { db in
            let last = try StoredEvents.newestID(db)
            let begin = try id ?? Self.lastEvent(before: start, newest: last, db)
            let after = max(begin, last - Self.talliedRowsMax)
            let rows = try Row.fetchCursor(
                db,
                sql: """
                    SELECT received_at_ms / 60000 AS minute, name, has_session, transition, reason, implied,
                        after_state, count(*)
                    FROM event CROSS JOIN event_kind ON event_kind.id = event.kind
                    WHERE event.id > ? AND event.id <= ? AND event.driver NOT IN (\(SimulatedDriverRows.select))
                    GROUP BY minute, event.kind, transition, reason,
                        implied, after_state
                    """, arguments: [after, last])
            var tallies: [EventTally] = []
            while let row = try rows.next() {
                let name = try StoredEvents.name(row, 1)
                tallies.append(
                    EventTally(
                        minute: row[0], name: EventName.listed.contains(name) ? name.canonical : "diagnostic",
                        verdict: try StoredEvents.verdict(row, 3), state: try StoredEvents.state(row, 6),
                        count: row[7]))
            }
            return EventTallies(last: last, tallies: tallies, isWhole: after == begin)
        }
    }

    /// Finds the last event received before `start` by binary search, and returns its row number; 0 if there is none.
    /// The result may be wrong by a few events, because concurrent requests may be stored in another order than
    /// received.
    private static func lastEvent(before start: Moment, newest: Int64, _ db: Database) throws -> Int64 {
        let statement = try db.makeStatement(
            sql: "SELECT id, received_at_ms FROM event WHERE id > ? ORDER BY id LIMIT 1")
        var (low, high) = (Int64(0), newest)
        while low < high {
            let middle = low + (high - low) / 2
            guard let row = try Row.fetchOne(statement, arguments: [middle]) else { break }
            if (row[1] as Int64) < start.millisecondsSinceEpoch {
                low = row[0]
            } else {
                high = middle
            }
        }
        return low
    }

    package func storageBytes() async throws(StoreFailure) -> Int64 {
        try await read { (db: Database) in
            let pages = try Int64.fetchOne(db, sql: "PRAGMA page_count") ?? 0
            let pageBytes = try Int64.fetchOne(db, sql: "PRAGMA page_size") ?? 0
            let file = try String.fetchOne(db, sql: "SELECT file FROM pragma_database_list WHERE name = 'main'") ?? ""
            let wal = try? FileManager.default.attributesOfItem(atPath: file + "-wal")[.size] as? Int64
            return pages * pageBytes + (wal.flatMap { $0 } ?? 0)
        }
    }

    package func settingsVersions(limit: Int) async throws(StoreFailure) -> [SettingsVersionUse] {
        try await read { db in
            try Row.fetchAll(
                db,
                sql: """
                    SELECT version, settings, first_used_at_ms FROM settings_version
                    ORDER BY first_used_at_ms DESC, id DESC LIMIT ?
                    """, arguments: [limit]
            ).map { row in
                SettingsVersionUse(
                    version: row[0], settings: row[1], firstUsedAt: Moment(millisecondsSinceEpoch: row[2]))
            }
        }
    }

    package func operatorTimeline(
        of sessionID: String, limit: Int
    ) async throws(StoreFailure) -> OperatorTimeline? {
        let driver = try await read { db in
            try String.fetchOne(
                db,
                sql: """
                    SELECT driver_id FROM session JOIN driver ON driver.id = session.driver WHERE session_id = ?
                    """, arguments: [sessionID])
        }
        guard let driver else { return nil }
        return try await readOutsideRefold(of: DriverID(driver)) { db -> OperatorTimeline? in
            let outcome = try StoredSessions.timeline(
                of: sessionID, of: DriverID(driver), limit: limit, after: nil, db)
            guard case .found(let timeline) = outcome else { return nil }
            return OperatorTimeline(driver: DriverID(driver), timeline: timeline)
        }
    }
}
