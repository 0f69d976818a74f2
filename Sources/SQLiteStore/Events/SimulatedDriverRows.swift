// The drivers of `dwell simulate` in the database. Metrics leave them out, and `dwell simulate --clean` removes them.

package import Engine
import GRDB
import JourneyModel

enum SimulatedDriverRows {
    /// Selects the row numbers of the simulated drivers by the index on driver_id. Their ids have a prefix that ends
    /// with `-`. The upper bound ends with `.` instead, because `.` follows `-` in ASCII.
    static let select = """
        SELECT id FROM driver
        WHERE driver_id >= '\(DriverID.simulatedPrefix)' AND driver_id < '\(DriverID.simulatedPrefix.dropLast()).'
        """

    /// Tables with a column `driver`. Events (`event_row`) are deleted first, and then the rows of the other tables in
    /// this order. A table comes before every table to which it refers.
    static let tables = [
        "refold", "erasure", "corrected_journey", "push_outbox", "event_row", "session_code", "session", "journey_base",
        "place_use", "event_kind_use", "device",
        "sign_in_session", "apple_refresh_token", "apple_identity", "phone_identity", "account", "audit",
        "app_account_token", "consumption_consent",
    ]
    /// Tables whose column `driver` is set to NULL when the driver is deleted. Their rows are purchases that Apple
    /// signed, and another account may become the owner of such a purchase.
    static let tablesWithoutDriver = ["purchase"]

    static func remove(driversMax: Int, _ db: Database) throws -> SimulatedDriversRemoved {
        let drivers = try Int64.fetchAll(db, sql: "\(select) ORDER BY id LIMIT ?", arguments: [driversMax])
        var removed = SimulatedDriversRemoved(drivers: drivers.count, events: 0)
        let keys = try EventKeyTable(db)
        for driver in drivers {
            let events = try DriverEvents.all(of: driver, db)
            for event in events { try keys.remove(event) }
            // A consumer of the feed adds the number of missing row numbers to `lost_count`, as lost events. Simulated
            // events are never forwarded, so they are not lost. Their number is subtracted in advance.
            try db.execute(
                sql: """
                    UPDATE feed_consumer SET lost_count = lost_count - (
                        SELECT count(*) FROM json_each(?) AS listed WHERE listed.value > last_event)
                    """, arguments: [DriverEvents.list(events)])
            try db.execute(
                sql: "DELETE FROM refresh_token WHERE session IN (SELECT id FROM sign_in_session WHERE driver = ?)",
                arguments: [driver])
            let deleteEvent = try db.cachedStatement(sql: "DELETE FROM event_row WHERE id = ?")
            for event in events { try deleteEvent.execute(arguments: [event]) }
            removed.events += events.count
            for table in tables where table != "event_row" {
                try db.execute(sql: "DELETE FROM \(table) WHERE driver = ?", arguments: [driver])
            }
            for table in tablesWithoutDriver {
                try db.execute(sql: "UPDATE \(table) SET driver = NULL WHERE driver = ?", arguments: [driver])
            }
            try db.execute(sql: "DELETE FROM driver WHERE id = ?", arguments: [driver])
        }
        return removed
    }
}

extension SQLiteEventStore: SimulatedDriverRemoval {
    package func removeSimulatedDrivers(driversMax: Int) async throws(StoreFailure) -> SimulatedDriversRemoved {
        try await change { db in try SimulatedDriverRows.remove(driversMax: driversMax, db) }
    }
}
