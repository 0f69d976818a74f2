// The drivers that `dwell simulate` stored in the database. Metrics leave them out, and `dwell simulate --clean`
// removes them.

package import Engine
import JourneyModel
import SharedTables

enum SimulatedDrivers {
    /// SQL condition that a driver is simulated: its id begins with `DriverID.simulatedPrefix`, which ends with `-`. In
    /// ASCII, `.` follows `-`. So exactly these ids lie between the prefix (included) and the prefix with `.` in place
    /// of `-` (excluded).
    static let condition = """
        (driver.driver_id >= '\(DriverID.simulatedPrefix)'
        AND driver.driver_id < '\(DriverID.simulatedPrefix.dropLast()).')
        """

    /// The tables whose column `driver` refers to a driver. Their rows are deleted in this order, so a table comes
    /// before the tables to which it refers.
    static let tables = [
        "erasure", "push_outbox", "event", "session_code", "session", "journey_base", "device", "sign_in_session",
        "apple_refresh_token", "apple_identity", "phone_identity", "account", "audit", "app_account_token",
        "consumption_consent",
    ]

    static func remove(driversMax: Int, _ db: any SQLTransaction) throws -> SimulatedDriversRemoved {
        let drivers = try Int64.fetchAll(
            db, sql: "SELECT id FROM driver WHERE \(condition) ORDER BY id LIMIT ?", arguments: [driversMax])
        var removed = SimulatedDriversRemoved(drivers: drivers.count, events: 0)
        for driver in drivers {
            try db.execute(
                sql: "DELETE FROM refresh_token WHERE session IN (SELECT id FROM sign_in_session WHERE driver = ?)",
                arguments: [driver])
            try removeOwner(driver, db)
            for table in tables {
                let count = try db.execute(sql: "DELETE FROM \(table) WHERE driver = ?", arguments: [driver])
                if table == "event" { removed.events += count }
            }
            // The purchase and its facts are kept, because Apple signed them. Only the reference to the driver is
            // removed.
            try db.execute(sql: "UPDATE purchase SET driver = NULL WHERE driver = ?", arguments: [driver])
            try db.execute(sql: "DELETE FROM driver WHERE id = ?", arguments: [driver])
        }
        return removed
    }

    /// Deletes the rows of `session_owner` that name the driver. There is no index on the owner, so each row is found
    /// by its session. Because of the condition on the lane, Citus runs the statement on one server only.
    private static func removeOwner(_ driver: Int64, _ db: any SQLTransaction) throws {
        for session in try String.fetchAll(
            db, sql: "SELECT session_id FROM session WHERE driver = ?", arguments: [driver])
        {
            try db.execute(
                sql: "DELETE FROM session_owner WHERE lane = CAST(? AS int2) AND session_id = ? AND owner = ?",
                arguments: [Int64(Lane.of(session)), session, driver])
        }
    }
}

extension PostgresEventStore: SimulatedDriverRemoval {
    package func removeSimulatedDrivers(driversMax: Int) async throws(StoreFailure) -> SimulatedDriversRemoved {
        try await change { (db: any SQLTransaction) in try SimulatedDrivers.remove(driversMax: driversMax, db) }
    }
}
