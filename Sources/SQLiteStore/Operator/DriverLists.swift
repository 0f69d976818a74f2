// Lists of drivers and search results, for the operator page. Each query finds its rows by a key or an index, and
// examines a bounded number of rows. OperatorListTests checks the query plans.

package import Engine
import GRDB
import Identity
package import JourneyModel

extension SQLiteEventStore {
    /// Maximum number of driver rows examined for one page.
    static let driverRowsMax: Int64 = 50_000

    package func drivers(
        in state: JourneyState?, before cursor: Int64?, limit: Int
    ) async throws(StoreFailure) -> ListPage<DriverSummary> {
        try await read { db in
            let newest = try Int64.fetchOne(db, sql: "SELECT max(id) FROM driver") ?? 0
            let before = min(cursor ?? .max, newest + 1)
            let lowest = max(before - Self.driverRowsMax, 1)
            let rows = try Row.fetchAll(
                db, sql: Self.driversSQL, arguments: [lowest, before, state?.code, limit])
            let isFull = rows.count == limit
            let next: Int64 = isFull ? rows[rows.count - 1][0] : lowest
            return ListPage(try rows.map(Self.driverSummary), next: next > 1 ? next : nil)
        }
    }

    static let driversSQL = """
        \(driverColumnsSQL) FROM driver
        WHERE id >= ?1 AND id < ?2 AND (?3 IS NULL OR state = ?3) ORDER BY id DESC LIMIT ?4
        """

    private static let driverColumnsSQL = """
        SELECT id, driver_id, state, head_corrected_at_ms,
            (SELECT session_id FROM session WHERE session.id = driver.session),
            (SELECT place_id FROM place WHERE place.id = driver.target_charger), created_at_ms,
            ended_by
        """

    private static func driverSummary(_ row: Row) throws -> DriverSummary {
        DriverSummary(
            driver: DriverID(row[1]), state: try StoredEvents.state(row, 2), endedBy: StoredEvents.ending(row[7]),
            lastEventAt: StoredEvents.moment(row[3]), sessionID: row[4], targetChargerID: row[5],
            firstSeenAt: Moment(millisecondsSinceEpoch: row[6]))
    }

    package func driver(
        _ driver: DriverID, sessions: Int, events: Int
    ) async throws(StoreFailure) -> DriverDetail? {
        try await read { db in
            let row = try Row.fetchOne(
                db, sql: "\(Self.driverColumnsSQL) FROM driver WHERE driver_id = ?", arguments: [driver.rawValue])
            guard let row else { return nil }
            let opened = try Row.fetchAll(db, sql: Self.driverSessionsSQL, arguments: [row[0] as Int64, sessions])
            var last = try DriverEvents(of: row[0], .backward, db)
            let rows = try Row.fetchAll(
                db, sql: Self.driverEventsSQL, arguments: [DriverEvents.list(try last.next(events)), events])
            return DriverDetail(
                summary: try Self.driverSummary(row),
                sessions: try opened.map { try Self.operatorSession($0, db).session },
                events: try rows.map(Self.eventCase))
        }
    }

    /// Selects a driver's sessions, the last opened first.
    static let driverSessionsSQL = """
        \(sessionColumnsSQL) FROM session INDEXED BY session_by_driver CROSS JOIN driver ON driver.id = session.driver
        WHERE session.driver = ?1 AND \(StoredSessions.isThere) ORDER BY session.id DESC LIMIT ?2
        """

    // MARK: Search

    package func search(_ text: String, limit: Int) async throws(StoreFailure) -> SearchResult {
        let phone = PhoneNumber(text)?.e164
        return try await read { db in
            // A search by prefix: every text that begins with `text` sorts between `text` itself and `text` followed by
            // the last Unicode scalar.
            let bounds: StatementArguments = [text, text + "\u{10FFFF}", limit]
            var drivers = try Row.fetchAll(db, sql: Self.driversByNameSQL, arguments: bounds)
            if let phone {
                drivers += try Row.fetchAll(db, sql: Self.driverByPhoneSQL, arguments: [phone])
            }
            let sessions = try Row.fetchAll(db, sql: Self.sessionsByNameSQL, arguments: bounds)
            let places = try String.fetchAll(db, sql: Self.placesByNameSQL, arguments: bounds)
            let chargers = Set(places + (try Self.registeredChargers(from: text, limit: limit, db)))
                .sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
            return SearchResult(
                drivers: try drivers.map(Self.driverSummary),
                sessions: try sessions.map { try Self.operatorSession($0, db) },
                chargerIDs: Array(chargers.prefix(limit)))
        }
    }

    /// Returns the registered sessions' charger ids that begin with `text`: at most `limit`, in ascending order. Uses
    /// one index search per id, instead of reading all sessions, because many sessions may have the same charger.
    private static func registeredChargers(from text: String, limit: Int, _ db: Database) throws -> [String] {
        var found: [String] = []
        let end = text + "\u{10FFFF}"
        while found.count < limit {
            let sql = found.isEmpty ? firstRegisteredChargerSQL : nextRegisteredChargerSQL
            guard let next = try String.fetchOne(db, sql: sql, arguments: [found.last ?? text, end]) else { break }
            found.append(next)
        }
        return found
    }

    static let driversByNameSQL = """
        \(driverColumnsSQL) FROM driver WHERE driver_id >= ?1 AND driver_id < ?2 ORDER BY driver_id LIMIT ?3
        """
    static let driverByPhoneSQL = """
        \(driverColumnsSQL) FROM driver WHERE id = (SELECT driver FROM phone_identity WHERE phone = ?1)
        """
    static let sessionsByNameSQL = """
        \(sessionColumnsSQL) FROM session CROSS JOIN driver ON driver.id = session.driver
        WHERE session_id >= ?1 AND session_id < ?2 ORDER BY session_id LIMIT ?3
        """
    /// Selects the chargers of events. Also selects places that were stored before migration 31, because it is not
    /// known whether these are chargers or merchants.
    static let placesByNameSQL = """
        SELECT place_id FROM place WHERE place_id >= ?1 AND place_id < ?2 AND is_charger IS NOT 0
        ORDER BY place_id LIMIT ?3
        """
    static let firstRegisteredChargerSQL = """
        SELECT min(registered_charger) FROM session WHERE registered_charger >= ?1 AND registered_charger < ?2
        """
    static let nextRegisteredChargerSQL = """
        SELECT min(registered_charger) FROM session WHERE registered_charger > ?1 AND registered_charger < ?2
        """
}
