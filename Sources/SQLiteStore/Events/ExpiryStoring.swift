// Stores expiries inside the writer's transaction. An expiry is the event that ends a session after its deadline. `due`
// finds the drivers whose deadline has passed, and `expire` stores the expiry of one driver.
//
// ExpiryScheduler (Engine) decides when these functions are called.
//
// Several servers may try to store the same expiry, but only one succeeds. Each begins its transaction with BEGIN
// IMMEDIATE before it reads the driver's row. The first transaction removes the deadline from the row, so the other
// servers find nothing to store.
//
// An expiry's idempotency key is computed from its session, kind and deadline. EventKeys therefore also refuses a
// second expiry for the same deadline.

import Engine
import JourneyModel

struct DueDriver {
    var id: DriverID
    var cursor: DeadlineCursor
}

final class ExpiryStoring {
    private let appending: EventAppending
    private let findDue: PreparedStatement

    init(_ appending: EventAppending, on connection: OpaquePointer) throws(SQLiteError) {
        self.appending = appending
        findDue = try PreparedStatement(
            """
            SELECT driver_id, next_deadline_ms, id FROM driver
            WHERE next_deadline_ms < ?1 AND next_deadline_ms >= ?2 AND (next_deadline_ms > ?2 OR id > ?3)
                AND NOT \(RefoldTable.isUnderWaySQL) AND rules <= \(Fold.rulesVersion)
            ORDER BY next_deadline_ms, id LIMIT ?4
            """, on: connection)
    }

    /// Returns at most `driversMax` drivers with a due deadline, the earliest deadline first. Continues after the
    /// driver `request.after`.
    ///
    /// Leaves out drivers whose refold is not complete. Also leaves out drivers folded by a release with newer fold
    /// rules, because that release stores their expiries.
    ///
    /// The caller must first call `DriverCache.writeChanged`, because this function reads the database and not the
    /// cache.
    func due(_ request: ExpiryRequest) throws(SQLiteError) -> [DueDriver] {
        var due: [DueDriver] = []
        try findDue.forEach { (bindings) throws(SQLiteError) in
            try bindings.set(1, request.now.millisecondsSinceEpoch)
            try bindings.set(2, request.after?.deadline.millisecondsSinceEpoch ?? .min)
            try bindings.set(3, request.after?.driver ?? .min)
            try bindings.set(4, Int64(request.driversMax))
        } visit: { row in
            let deadline = Moment(millisecondsSinceEpoch: row.integer(1))
            due.append(
                DueDriver(
                    id: DriverID(row.text(0)), cursor: DeadlineCursor(deadline: deadline, driver: row.integer(2))))
            return true
        }
        return due
    }

    /// Continues the driver's refold, if any, and then stores the expiry for the due deadline. Returns false if the
    /// refold is still not complete, or if no deadline is due.
    func expire(_ due: DueDriver, _ request: ExpiryRequest) throws(SQLiteError) -> Bool {
        guard let driver = try appending.drivers.row(of: due.id) else { return false }
        if driver.needsRefold, try !appending.refold(driver).isComplete { return false }
        var journey = driver.journey.journey
        guard let deadline = journey.takeDeadline(before: request.now) else { return false }
        let expiry = try appending.folding.expiry(
            deadline, of: driver.journey, driver: driver.id, due.id, at: request.now,
            settings: try appending.settings(ofExpiryOf: driver, request))
        _ = try appending.fold(expiry, into: driver)
        return true
    }
}
