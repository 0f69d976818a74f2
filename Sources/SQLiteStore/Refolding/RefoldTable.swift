// The table `refold`. Each row holds the progress of a refold that takes several transactions.
//
// While a driver has such a row, clients' reads of the driver's events wait (`readOutsideRefold`). During the refold of
// a late event, only the refold itself adds events of the driver. During any other refold, events after the head are
// added too (`EventAppending.mustRefold`).
//
// `driver.rules` is 0 while the row exists, so an append reads this table only during a refold.

import Engine
import GRDB
import JourneyModel

/// The progress of a refold.
struct RefoldMark {
    /// The row number of the late event that caused the refold. Nil if the cause is new fold rules or a correction of
    /// settings.
    var cause: Int64?
    var correction: Int64?
    /// `Fold.rulesVersion` of the release that refolds.
    var rules = Fold.rulesVersion
    /// The row number of the refolded event that is last in the order of the fold. The refold continues with the
    /// millisecond after this event.
    var last: Int64
    /// The number of events refolded so far.
    var rowCount: Int
}

final class RefoldTable {
    private let find: PreparedStatement
    private let write: PreparedStatement
    private let remove: PreparedStatement

    init(on connection: OpaquePointer) throws(SQLiteError) {
        find = try PreparedStatement(
            "SELECT cause, rules, last_event, row_count, correction FROM refold WHERE driver = ?1", on: connection)
        write = try PreparedStatement(
            """
            INSERT OR REPLACE INTO refold (driver, cause, rules, last_event, row_count, correction)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6)
            """, on: connection)
        remove = try PreparedStatement("DELETE FROM refold WHERE driver = ?1", on: connection)
    }

    func mark(of driver: Int64) throws(SQLiteError) -> RefoldMark? {
        try find.first { (bindings) throws(SQLiteError) in
            try bindings.set(1, driver)
        } read: { row in
            RefoldMark(
                cause: row.optionalInteger(0), correction: row.optionalInteger(4), rules: row.integer(1),
                last: row.integer(2), rowCount: Int(row.integer(3)))
        }
    }

    func write(_ mark: RefoldMark, of driver: Int64) throws(SQLiteError) {
        try write.run { (bindings) throws(SQLiteError) in
            try bindings.set(1, driver)
            try bindings.set(2, mark.cause)
            try bindings.set(3, mark.rules)
            try bindings.set(4, mark.last)
            try bindings.set(5, Int64(mark.rowCount))
            try bindings.set(6, mark.correction)
        }
    }

    func remove(_ driver: Int64) throws(SQLiteError) {
        try remove.run { (bindings) throws(SQLiteError) in try bindings.set(1, driver) }
    }

    static let isUnderWaySQL = "driver.rules = 0"

    /// SQL condition on a row of `driver`: the refold of a late event is not complete.
    private static let isLateEventUnderWaySQL =
        "\(isUnderWaySQL) AND EXISTS (SELECT 1 FROM refold WHERE refold.driver = driver.id AND cause IS NOT NULL)"

    /// - Parameter ofLateEvent: whether to consider only a refold that a late event has caused.
    static func isUnderWay(_ driver: DriverID, ofLateEvent: Bool, _ db: Database) throws -> Bool {
        let condition = ofLateEvent ? isLateEventUnderWaySQL : isUnderWaySQL
        let statement = try db.cachedStatement(
            sql: "SELECT EXISTS (SELECT 1 FROM driver WHERE driver_id = ? AND \(condition))")
        return try Bool.fetchOne(statement, arguments: [driver.rawValue]) ?? false
    }
}
