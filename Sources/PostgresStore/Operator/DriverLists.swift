// Lists of drivers and search results, for the operator page. Each query examines a bounded number of rows, which it
// finds by a key or an index.

package import Engine
import Identity
package import JourneyModel
import Postgres

extension PostgresEventStore {
    /// Maximum number of driver rows examined for one page.
    static let driverRowsMax: Int64 = 50_000

    package func drivers(
        in state: JourneyState?, before cursor: Int64?, limit: Int
    ) async throws(StoreFailure) -> ListPage<DriverSummary> {
        let parameters: [PostgresValue] = [
            .int8(cursor ?? .max), .int8(Self.driverRowsMax), state.map { .int2(Int16($0.code)) } ?? .null,
            .int8(Int64(limit)),
        ]
        let found = try await read([
            PostgresQuery(DriverListStatements.page, parameters),
            PostgresQuery(DriverListStatements.lowest, [.int8(cursor ?? .max), .int8(Self.driverRowsMax)]),
        ])
        return try decoded { () throws(PostgresError) in
            var drivers: [DriverSummary] = []
            var last: Int64?
            for row in found[0].rows {
                last = try row.int8(0)
                drivers.append(try Self.driverSummary(row, at: 1))
            }
            // There is a next page if this page is full, or if there are rows that were not examined.
            let next = drivers.count == limit ? last : try found[1].rows.first?.optionalInt8(0)
            return ListPage(drivers, next: next)
        }
    }

    static func driverSummary(_ row: PostgresRow, at first: Int) throws(PostgresError) -> DriverSummary {
        DriverSummary(
            driver: DriverID(try row.text(first)), state: try JourneyColumns.state(try row.int2(first + 1)),
            endedBy: JourneyColumns.ending(try row.optionalInt2(first + 2)),
            lastEventAt: try row.optionalMoment(first + 3), sessionID: try row.optionalText(first + 4),
            targetChargerID: try row.optionalText(first + 5), firstSeenAt: try row.moment(first + 6))
    }

    package func driver(
        _ driver: DriverID, sessions: Int, events: Int
    ) async throws(StoreFailure) -> DriverDetail? {
        let key = try await shards().parameters(of: driver) + [.text(driver.rawValue)]
        let found = try await read([
            PostgresQuery(DriverListStatements.one, key),
            PostgresQuery(SessionLists.ofDriver, key + [.int8(Int64(sessions))]),
            PostgresQuery(EventLists.ofDriver, key + [.int8(Int64(events))]),
        ])
        guard let row = found[0].rows.first else { return nil }
        let (summary, latest) = try decoded { () throws(PostgresError) in
            var latest: [EventCase] = []
            for row in found[2].rows { latest.append(try Self.eventCase(row)) }
            return (try Self.driverSummary(row, at: 0), latest)
        }
        return DriverDetail(
            summary: summary, sessions: try await operatorSessions(Array(found[1].rows)).map(\.session), events: latest)
    }

    // MARK: Search

    package func search(_ text: String, limit: Int) async throws(StoreFailure) -> SearchResult {
        // Every text that begins with `text` sorts between `text` itself and `text` followed by the last Unicode
        // scalar.
        let bounds: [PostgresValue] = [.text(text), .text(text + "\u{10FFFF}"), .int8(Int64(limit))]
        let isDistributed = try await shards().areDistributed
        var queries = [
            PostgresQuery(DriverListStatements.byName, bounds), PostgresQuery(SessionLists.byName, bounds),
        ]
        if !isDistributed { queries.append(PostgresQuery(DriverListStatements.chargersByName, bounds)) }
        if let phone = PhoneNumber(text)?.e164 {
            queries.append(PostgresQuery(DriverListStatements.byPhone, [.text(phone)]))
        }
        let found = try await read(queries)
        let chargerCount = isDistributed ? 0 : 1
        var (drivers, chargers) = try decoded { () throws(PostgresError) in
            var drivers: [DriverSummary] = []
            for row in found[0].rows { drivers.append(try Self.driverSummary(row, at: 0)) }
            for row in found.rows((2 + chargerCount)..<found.count) {
                drivers.append(try Self.driverSummary(row, at: 0))
            }
            var chargers: [String] = []
            for row in found.rows(2..<(2 + chargerCount)) { chargers.append(try row.text(0)) }
            return (drivers, chargers)
        }
        if isDistributed { chargers = try await searchChargers(from: text, limit: limit) }
        return SearchResult(
            drivers: drivers, sessions: try await operatorSessions(named: found[1]), chargerIDs: chargers)
    }

    /// Like the statement `chargersByName`, for Citus. Each round trip finds one charger.
    private func searchChargers(from text: String, limit: Int) async throws(StoreFailure) -> [String] {
        var chargers: [String] = []
        while chargers.count < limit {
            let bounds: [PostgresValue] = [
                .text(chargers.last ?? text), .text(text + "\u{10FFFF}"), .bool(chargers.isEmpty),
            ]
            let found = try await read([
                PostgresQuery(DriverListStatements.nextOfEvents, bounds),
                PostgresQuery(DriverListStatements.nextOfSessions, bounds),
            ])
            let next = try decoded { () throws(PostgresError) in
                let named = [try found[0][0].optionalText(0), try found[1][0].optionalText(0)]
                return named.compactMap { $0.map(TextKey.init) }.min()
            }
            guard let next else { break }
            chargers.append(next.text)
        }
        return chargers
    }
}

private enum DriverListStatements {
    private static let columns = """
        driver.driver_id, driver.state, driver.ended_by, driver.head_corrected_at_ms, driver.session_id,
        driver.target_charger, driver.created_at_ms
        """

    /// Parameters: the number of the previous page's last driver, the number of rows to examine, a state or NULL, the
    /// length of the page.
    static let page = PostgresStatement(
        "driver_page",
        """
        SELECT driver.number, \(columns) FROM (
            SELECT * FROM driver WHERE number < $1::int8 ORDER BY number DESC LIMIT $2::int8) driver
        WHERE $3::int2 IS NULL OR driver.state = $3::int2 ORDER BY driver.number DESC LIMIT $4::int8
        """)

    /// The number of the last row that `page` examines, if rows follow it. Parameters: the first two of `page`.
    static let lowest = PostgresStatement(
        "driver_page_end",
        """
        SELECT lowest.number FROM (SELECT number FROM driver WHERE number < $1::int8
            ORDER BY number DESC OFFSET $2::int8 - 1 LIMIT 1) lowest
        WHERE lowest.number > (SELECT min(number) FROM driver)
        """)

    /// Parameters: `LaneParameters`, `driver_id`.
    static let one = PostgresStatement(
        "driver_one",
        """
        SELECT \(columns) FROM driver WHERE driver.driver_id = $3::text AND \(LaneParameters.condition("driver"))
        """)

    /// Parameters: the lower bound, the upper bound (excluded), the number of rows.
    static let byName = PostgresStatement(
        "drivers_by_name",
        """
        SELECT \(columns) FROM driver WHERE driver_id >= $1::text AND driver_id < $2::text
        ORDER BY driver_id LIMIT $3::int8
        """)

    static let byPhone = PostgresStatement(
        "driver_by_phone",
        """
        SELECT \(columns) FROM driver WHERE id = (SELECT driver FROM phone_identity WHERE phone = $1::text OFFSET 0)
        """)

    /// The first charger between two bounds: `nextOfEvents` finds it in events, `nextOfSessions` in registered
    /// sessions.
    ///
    /// Parameters: the lower bound, the upper bound (excluded), whether the lower bound is included. In the first step,
    /// the lower bound is the searched text (included). In later steps, it is the charger found in the step before
    /// (excluded).
    static let nextOfEvents = PostgresStatement(
        "next_charger_of_events",
        """
        SELECT min(charger) FROM event
        WHERE (charger > $1::text OR $3::bool AND charger = $1::text) AND charger < $2::text
        """)
    static let nextOfSessions = PostgresStatement(
        "next_charger_of_sessions",
        """
        SELECT min(registered_charger) FROM session
        WHERE (registered_charger > $1::text OR $3::bool AND registered_charger = $1::text)
            AND registered_charger < $2::text
        """)

    /// The chargers of events and of registered sessions. There is no table of chargers, so each step finds one charger
    /// by two index probes: one for events, one for sessions. The parameters are those of `byName`.
    static let chargersByName = PostgresStatement(
        "chargers_by_name",
        """
        WITH RECURSIVE found(charger, count) AS (
            SELECT least(
                (SELECT min(charger) FROM event WHERE charger >= $1::text AND charger < $2::text),
                (SELECT min(registered_charger) FROM session
                    WHERE registered_charger >= $1::text AND registered_charger < $2::text)), 1::int8
            UNION ALL
            SELECT least(
                (SELECT min(event.charger) FROM event WHERE event.charger > found.charger AND event.charger < $2::text),
                (SELECT min(registered_charger) FROM session
                    WHERE registered_charger > found.charger AND registered_charger < $2::text)), found.count + 1
            FROM found WHERE found.charger IS NOT NULL AND found.count < $3::int8)
        SELECT charger FROM found WHERE charger IS NOT NULL ORDER BY charger
        """)
}
