// `JourneyCheck` on PostgreSQL. It checks three things:
//
// - the references between tables (only SQLite has foreign keys for them),
// - the positions by which the feed orders events,
// - each driver's journey against the fold of the events.
//
// The files of PostgreSQL itself are checked with pg_amcheck.

package import Engine
import JourneyModel
import Postgres

extension PostgresEventStore: JourneyCheck {
    /// Maximum number of problems reported. Further problems would add no information.
    static let problemsMax = 20
    /// The time limit in seconds of a query that reads whole tables, or all events of a driver.
    private static let checkSeconds = 600
    /// The number of drivers that one query lists.
    private static let checkedPageMax: Int64 = 1000

    package func check(
        _ progress: @Sendable (_ done: Int, _ total: Int) -> Void
    ) async throws(StoreFailure) -> JourneyCheckReport {
        var report = JourneyCheckReport()
        let counted = try await readLong(PostgresQuery(CheckStatements.eventCount), seconds: Self.checkSeconds)
        let total = try decoded { () throws(PostgresError) in Int(try counted[0].int8(0)) }
        for (what, statement) in CheckStatements.references {
            let found = try await readLong(PostgresQuery(statement), seconds: Self.checkSeconds)
            let count = try decoded { () throws(PostgresError) in try found[0].int8(0) }
            if count > 0 { report.problems.append("\(count) \(what)") }
        }
        var last: Int64? = 0
        while let after = last, report.problems.count < Self.problemsMax {
            let found = try await read([
                PostgresQuery(CheckStatements.drivers, [.int8(after), .int8(Self.checkedPageMax)])
            ])
            let drivers = try decoded { () throws(PostgresError) in
                var drivers: [(id: Int64, number: Int64)] = []
                for row in found[0].rows { drivers.append((try row.int8(0), try row.int8(1))) }
                return drivers
            }
            last = drivers.last?.number
            for driver in drivers where report.problems.count < Self.problemsMax {
                try await check(driver.id, into: &report)
                progress(min(report.events, total), total)
            }
        }
        report.problems = Array(report.problems.prefix(Self.problemsMax))
        return report
    }

    private enum CheckedDriver: Sendable {
        case folded(CheckedJourney)
        case refolding
        /// The driver's deletion is not complete. Some of the driver's events have new ids and the others still have
        /// the old ones, so the rows cannot equal the fold.
        case erasing
        /// The driver's row was removed after the list of drivers was read.
        case removed
    }

    private func check(_ driver: Int64, into report: inout JourneyCheckReport) async throws(StoreFailure) {
        switch try await checked(driver) {
        case .folded(let journey):
            report.drivers += 1
            report.events += journey.eventCount
            report.problems += journey.problems
        case .refolding: report.refolding += 1
        case .erasing: report.erasing += 1
        case .removed: break
        }
    }

    /// Reads the driver's row and events in one snapshot, and folds the events. Only one part of the events is in
    /// memory at a time.
    private func checked(_ driver: Int64) async throws(StoreFailure) -> CheckedDriver {
        let lanes = try await shards().parameters(ofDriver: driver)
        let partMax = tailMax
        let first = [
            PostgresQuery(CheckStatements.driver, lanes + [.int8(driver)]),
            PostgresQuery(DriverStatements.erasing, lanes + [.int8s([driver])]),
            PostgresQuery(EventStatements.bases, lanes + [.int8s([driver])]),
        ]
        return try await inSnapshot(seconds: Self.checkSeconds, first: first) {
            (found, connection, deadline) async throws(PostgresError) -> CheckedDriver in
            if found[1].rowCount > 0 { return .erasing }
            guard let row = found[0].rows.first else { return .removed }
            let stored = try StoredDriver(row)
            if stored.needsRefold { return .refolding }
            let base = try found[2].rows.first.map { (row) throws(PostgresError) in try Journey(row, at: 1) }
            var journey = CheckedJourney(stored, base: base, numbers: try CheckedNumbers(row))
            var next: Moment? = stored.floor ?? Moment(millisecondsSinceEpoch: .min)
            while let from = next {
                let time = PostgresValue.int8s([from.millisecondsSinceEpoch])
                let part = try await connection.run(
                    [PostgresQuery(EventStatements.sortedTails, lanes + [.int8s([driver]), time, .int8s([partMax])])],
                    until: deadline)
                let (events, through) = try Self.foldedEvents(part[0])
                journey.take(events)
                next = through?.advanced(byMilliseconds: 1)
            }
            journey.finish()
            return .folded(journey)
        }
    }

    /// Reads the rows of `sortedTails`. Leaves out events whose settings are missing, because
    /// `CheckStatements.references` already counts them.
    ///
    /// - Returns: the events, and the time up to which the driver's events have been read. The time is nil if no event
    ///   is left to read.
    private static func foldedEvents(
        _ part: PostgresResult
    ) throws(PostgresError) -> (events: [FoldedEvent], through: Moment?) {
        var events: [FoldedEvent] = []
        var through: Moment?
        for row in part.rows {
            through = try row.optionalMoment(EventStatements.foldedColumnCount)
            if try !row.isNull(EventStatements.foldedVersionColumn) { events.append(try FoldedEvent(row)) }
        }
        return (events, through)
    }
}

extension CheckedNumbers {
    /// Reads the columns after those of `StoredDriver` in a row of `CheckStatements.driver`.
    fileprivate init(_ row: PostgresRow) throws(PostgresError) {
        let first = StoredDriver.columnCount
        self.init(
            gap: try row.optionalInt8(first), misplaced: try row.optionalInt8(first + 1), last: try row.int8(first + 2))
    }
}

private enum CheckStatements {
    static let eventCount = PostgresStatement("check_event_count", "SELECT count(*) FROM event")

    /// The next page of drivers, in the order in which they were added. Parameters: the number of the previous page's
    /// last driver, the maximum number of rows.
    static let drivers = PostgresStatement(
        "check_drivers", "SELECT id, number FROM driver WHERE number > $1::int8 ORDER BY number LIMIT $2::int8")

    /// The driver's row and the values of `CheckedNumbers`. Parameters: `LaneParameters`, `driver.id`.
    static let driver = PostgresStatement(
        "check_driver",
        """
        SELECT \(StoredDriver.columns), numbers.gap, numbers.misplaced, numbers.last
        FROM driver, LATERAL (
            SELECT coalesce(max(seq), 0) AS last, min(seq) FILTER (WHERE position < position_before) AS misplaced,
                min(seq) FILTER (WHERE seq <= seq_before
                    OR seq > seq_before + 1 AND seq <> position AND driver.floor_at_ms IS NULL) AS gap
            FROM (SELECT seq, position, lag(seq, 1, 0::int8) OVER numbered AS seq_before,
                    lag(position) OVER numbered AS position_before
                FROM event WHERE event.driver = driver.id AND \(LaneParameters.condition("event"))
                WINDOW numbered AS (ORDER BY seq)) placed) numbers
        WHERE driver.id = $3::int8 AND \(LaneParameters.condition("driver"))
        """)

    /// Statements that count rows which must not exist. Most of them check references to `driver`. These references
    /// have no foreign keys, because the primary key of `driver` contains the lane (Lane.swift), and tables such as
    /// `account` have no lane.
    static let references: [(what: String, statement: PostgresStatement)] =
        [
            count(
                "events have no driver", "event",
                "NOT EXISTS (SELECT 1 FROM driver WHERE driver.lane = event.lane AND driver.id = event.driver)"),
            count(
                "events were stored with settings that are missing", "event",
                """
                NOT EXISTS (SELECT 1 FROM settings_version WHERE settings_version.version = event.settings_version)
                OR event.fold_settings IS NOT NULL AND NOT EXISTS (
                    SELECT 1 FROM settings_version WHERE settings_version.version = event.fold_settings)
                """),
            count(
                "events have a session that their driver does not have", "event",
                """
                event.session_id IS NOT NULL
                AND NOT EXISTS (SELECT 1 FROM erasure WHERE erasure.driver = event.driver)
                AND NOT EXISTS (SELECT 1 FROM session
                    WHERE session.lane = event.lane AND session.driver = event.driver
                        AND session.session_id = event.session_id)
                """),
            count(
                "sessions are not listed under their driver in session_owner",
                "session LEFT JOIN known ON known.session_id = session.session_id AND known.owner = session.driver",
                """
                known.owner IS NULL AND NOT EXISTS (SELECT 1 FROM erasure WHERE erasure.driver = session.driver)
                """, known: "SELECT session_id, owner FROM session_owner"),
            count(
                "rows of session_owner have no session",
                """
                session_owner LEFT JOIN known
                    ON known.driver = session_owner.owner AND known.session_id = session_owner.session_id
                """,
                """
                known.driver IS NULL AND NOT EXISTS (SELECT 1 FROM erasure WHERE erasure.driver = session_owner.owner)
                """, known: "SELECT driver, session_id FROM session"),
            count(
                "drivers have a floor without its journey", "driver",
                """
                floor_at_ms IS NOT NULL
                AND NOT EXISTS (SELECT 1 FROM journey_base WHERE journey_base.lane = driver.lane
                    AND journey_base.driver = driver.id)
                """),
            count(
                "journeys at a floor have no driver with a floor", "journey_base",
                """
                NOT EXISTS (SELECT 1 FROM driver
                    WHERE driver.lane = journey_base.lane AND driver.id = journey_base.driver
                        AND driver.floor_at_ms IS NOT NULL)
                """),
            count(
                "positions of the feed belong to several events",
                """
                (SELECT 1 FROM event WHERE position & \(EventPosition.placeMax) <> \(EventPosition.placeMax)
                    GROUP BY position HAVING count(*) > 1) shared
                """, "true"),
            count(
                "events have a position that no transaction has had yet", "event",
                """
                position >= (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::int8 + xact_offset
                    << \(EventPosition.placeBits) FROM event_position)
                """),
        ]
        + [
            "account", "apple_identity", "apple_refresh_token", "phone_identity", "sign_in_session", "session_code",
            "device", "push_outbox", "app_account_token", "purchase", "consumption_consent", "audit",
        ].map { table in
            count(
                "rows of \(table) have no driver", table,
                """
                \(table).driver IS NOT NULL AND NOT EXISTS (SELECT 1 FROM known WHERE known.id = \(table).driver)
                """, known: "SELECT id FROM driver")
        }

    /// - Parameter known: a query whose result the condition can use as the table `known`; nil if not needed. Citus can
    ///   join this table, because it copies the result to all servers. It cannot join tables whose rows lie on
    ///   different servers.
    private static func count(
        _ what: String, _ table: String, _ condition: String, known: String? = nil
    ) -> (what: String, statement: PostgresStatement) {
        let with = known.map { "WITH known AS MATERIALIZED (\($0)) " } ?? ""
        let name = "check_" + String(what.utf8.map { $0 == UInt8(ascii: " ") ? "_" : Character(UnicodeScalar($0)) })
        return (what, PostgresStatement(name, "\(with)SELECT count(*) FROM \(table) WHERE \(condition)"))
    }
}
