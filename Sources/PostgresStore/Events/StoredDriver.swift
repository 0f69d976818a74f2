// A driver's row, and the statements that read, add and update ("move") it.

import Engine
import JourneyModel
import Postgres

struct StoredDriver: Sendable {
    var lane: Int16
    var id: Int64
    var driver: DriverID
    /// 0 for a driver that is not in the table yet.
    var version: Int64 = 0
    var lastSeq: Int64 = 0
    var clockMemory = ClockMemory()
    /// The number and the corrected time of the head, which is the last event in the fold's order.
    var headSeq: Int64?
    var headCorrectedAt: Moment?
    var journey = Journey()
    var recent = RecentJourneyChanges()
    /// The time at which the fold begins, if retention has deleted the events before it; otherwise nil.
    var floor: Moment?
    /// `Fold.rulesVersion` of the release that folded the driver's events; `mixedRules` if two releases have folded
    /// them.
    var rules = Fold.rulesVersion

    /// Lower than every version, so that each release refolds the driver.
    static let mixedRules: Int64 = 0

    /// Creates the row of a new driver.
    init(new driver: DriverID) {
        self.driver = driver
        lane = Lane.of(driver.rawValue)
        id = Lane.newDriverID(in: lane)
    }

    /// Reads the columns of `columns`.
    init(_ row: PostgresRow) throws(PostgresError) {
        lane = try row.int2(0)
        id = try row.int8(1)
        driver = DriverID(try row.text(2))
        version = try row.int8(3)
        lastSeq = try row.int8(4)
        clockMemory = ClockMemory(
            lastCorrectionMilliseconds: try row.optionalInt8(5), bytes: try row.optionalBytea(6) ?? [])
        headSeq = try row.optionalInt8(7)
        headCorrectedAt = try row.optionalMoment(8)
        recent = RecentJourneyChanges(bytes: try row.optionalBytea(9) ?? [])
        floor = try row.optionalMoment(10)
        rules = try row.int8(11)
        journey = try Journey(row, at: 12)
    }

    static let columns = """
        driver.lane, driver.id, driver.driver_id, driver.version, driver.last_seq, driver.last_correction_ms,
        driver.clock_memory, driver.head_seq, driver.head_corrected_at_ms, driver.recent_changes, driver.floor_at_ms,
        driver.rules, driver.state, driver.session_id, driver.target_charger, driver.next_target_charger,
        driver.grace_deadline_ms, driver.hard_deadline_ms, driver.ended_by, driver.previous_session_id
        """

    /// The number of `columns`.
    static let columnCount = 12 + JourneyColumns.count

    /// Whether an older release folded the driver's events.
    var needsRefold: Bool { rules < Fold.rulesVersion }
    /// Whether a newer release folded the driver's events, as may happen while instances are replaced one by one.
    var isOfNewerRelease: Bool { rules > Fold.rulesVersion }
}

/// A driver's row after a batch. It is written only if no other transaction has updated the driver since the batch read
/// it.
struct MovedDriver: Sendable {
    var row: StoredDriver
    /// The version that was read.
    var seen: Int64

    static let columns: [ArrayColumn<MovedDriver>] =
        [
            .int8("last_seq") { $0.row.lastSeq },
            .int8("last_correction_ms") { $0.row.clockMemory.lastCorrectionMilliseconds },
            .bytea("clock_memory") { $0.row.clockMemory.bytes },
            .int8("head_seq") { $0.row.headSeq },
            .int8("head_corrected_at_ms") { $0.row.headCorrectedAt?.millisecondsSinceEpoch },
            .bytea("recent_changes") { $0.row.recent.bytes },
            .int8("rules") { $0.row.rules },
        ] + JourneyColumns.columns("") { $0.row.journey }

    /// The columns by which the update of drivers finds the row.
    static let keys: [ArrayColumn<MovedDriver>] = [.int8("driver") { $0.row.id }, .int8("seen") { $0.seen }]
}

enum DriverStatements {
    /// Parameters: `LaneParameters`, the `driver_id` of drivers.
    static let read = PostgresStatement(
        "drivers",
        """
        SELECT \(StoredDriver.columns) FROM unnest($3::text[]) asked(driver_id), \(RowByKey.askedDriver)
        """)

    /// Parameters: `LaneParameters`, the `driver.id` of drivers.
    static let ids = PostgresStatement(
        "driver_ids",
        """
        SELECT driver.id, driver.driver_id FROM driver
        WHERE driver.id = ANY ($3::int8[]) AND \(LaneParameters.condition("driver"))
        """)

    /// Returns the drivers whose deletion is not complete. A deletion begins with a change of the driver's row. If this
    /// transaction has locked that row, the result stays valid until the transaction ends.
    ///
    /// Parameters: `LaneParameters`, the `driver.id` of drivers.
    static let erasing = PostgresStatement(
        "drivers_erasing",
        """
        SELECT driver.id FROM driver JOIN erasure ON erasure.driver = driver.id
        WHERE driver.id = ANY ($3::int8[]) AND \(LaneParameters.condition("driver"))
        """)

    /// Locks the drivers' rows until the end of the transaction.
    static let lock = PostgresStatement(
        "drivers_locked",
        """
        SELECT driver.id FROM driver WHERE driver_id = ANY ($3::text[]) AND \(LaneParameters.condition("driver"))
        ORDER BY driver.id FOR NO KEY UPDATE
        """)

    /// Writes the batch's number into the row of a locked driver. The statements that update the driver's events find
    /// the driver by this number.
    ///
    /// Parameters: `LaneParameters`, the number, `driver.id`.
    static let mark = PostgresStatement(
        "driver_marked",
        """
        UPDATE driver SET batch = $3::int8 WHERE id = $4::int8 AND \(LaneParameters.condition("driver"))
        """)

    /// Adds one driver with version 0. Does nothing if another transaction has already added the driver. In this case,
    /// the batch's later statements do not find the row, because its `driver.id` is not the one that this batch chose.
    static let add = PostgresStatement(
        "driver_added",
        """
        INSERT INTO driver (lane, id, driver_id, version, last_seq, created_at_ms, state, rules)
        VALUES ($1, $2, $3, 0, 0, $4, 0, $5) ON CONFLICT DO NOTHING
        """)

    /// Updates ("moves") the drivers whose version is unchanged since the read: writes their new values and raises the
    /// version. Returns the `driver.id` of the updated drivers. Later statements of the transaction find these drivers
    /// by `batch`, a random number.
    ///
    /// The rows are locked in the order of their ids. OFFSET 0 has the same purpose as in RowByKey. The subquery
    /// `locked` also returns the new values, because the UPDATE would otherwise compare each driver with all rows of
    /// the parameters.
    ///
    /// Skips a row that another transaction has locked, because the batch's other drivers must not wait for that
    /// transaction. Most likely, that transaction updates the row, and this batch could not update it anyway.
    private static let move = moving("drivers_moved", locking: "FOR NO KEY UPDATE SKIP LOCKED")
    /// Like `move`, for Citus. Waits for a row that another transaction has locked.
    private static let moveOfShard = moving("drivers_moved_of_shard", locking: "FOR NO KEY UPDATE")

    private static func moving(_ name: String, locking: String) -> PostgresStatement {
        let all = MovedDriver.keys + MovedDriver.columns
        let set = MovedDriver.columns.map { "\($0.name) = moved.\($0.name)" }.joined(separator: ", ")
        return PostgresStatement(
            name,
            """
            WITH locked AS MATERIALIZED (
                SELECT driver.version, given.* FROM (
                    SELECT * FROM \(ArrayColumn.unnest(all, from: 4, as: "given")) ORDER BY given.driver OFFSET 0) given,
                LATERAL (
                    SELECT driver.version FROM driver
                    WHERE driver.id = given.driver AND \(LaneParameters.condition("driver"))
                    OFFSET 0 \(locking)) driver),
            changed AS (
                UPDATE driver SET version = moved.seen + 1, batch = $3::int8, \(set) FROM locked moved
                WHERE \(LaneParameters.condition("driver")) AND driver.id = moved.driver
                    AND moved.version = moved.seen AND driver.version = moved.seen
                RETURNING driver.id)
            SELECT id FROM changed
            """)
    }

    static func moveQueries(_ drivers: [MovedDriver], batch: Int64, _ shards: Shards) -> [PostgresQuery] {
        let columns = MovedDriver.keys + MovedDriver.columns
        return shards.queries(shards.areDistributed ? moveOfShard : move, drivers, lane: \.row.lane) { drivers in
            [.int8(batch)] + columns.map { $0.values(drivers) }
        }
    }

    static func addQuery(_ driver: StoredDriver, at now: Moment) -> PostgresQuery {
        PostgresQuery(
            add,
            [
                .int2(driver.lane), .int8(driver.id), .text(driver.driver.rawValue),
                .int8(now.millisecondsSinceEpoch), .int8(driver.rules),
            ])
    }
}
