// Finds the rows that retention may delete, on a read connection. The writer deletes them later. It therefore gets only
// values that cannot change meanwhile: row numbers, and for an event also its driver and its corrected time.

import Engine
import GRDB
import JourneyModel

enum AgedRows {
    /// Returns the old events in one part of a walk over all events. A forwarded event is old if it was received before
    /// `receivedBefore` of the request. Any other event is old if it was received before `unforwardedBefore`.
    ///
    /// Row numbers ascend with time, so the walk ends at the first part without old events. Slow requests may put a few
    /// events out of order, so all events of a part are examined.
    ///
    /// If a part's last event has a receive time in the future, the walk goes on. The server's clock was ahead when it
    /// stored that event, so the events after it may be old.
    static func events(_ request: AgedEventsRequest, _ db: Database) throws -> AgedEvents {
        let rows = try Row.fetchCursor(
            db,
            sql: "SELECT id, driver, corrected_at_ms, received_at_ms FROM event WHERE id > ? ORDER BY id LIMIT ?",
            arguments: [request.after, request.limit])
        var events: [AgedEvent] = []
        var last: Int64?
        var endsInFuture = false
        var count = 0
        while let row = try rows.next() {
            let id: Int64 = row[0]
            let receivedAt = Moment(millisecondsSinceEpoch: row[3])
            last = id
            endsInFuture = receivedAt > request.now
            count += 1
            guard receivedAt < (id <= request.forwarded ? request.receivedBefore : request.unforwardedBefore) else {
                continue
            }
            events.append(AgedEvent(id: id, driver: row[1], correctedAt: Moment(millisecondsSinceEpoch: row[2])))
        }
        let hasNext = count == request.limit && (!events.isEmpty || endsInFuture)
        return AgedEvents(events: events, next: hasNext ? last : nil)
    }

    /// Returns the next sessions after the row number `number`: those to delete, and those whose row stays but whose
    /// registration is to be forgotten.
    static func sessions(
        openedBefore: Moment, after number: Int64, limit: Int, _ db: Database
    ) throws -> [Int64] {
        try Int64.fetchAll(
            db,
            sql: """
                SELECT id FROM session WHERE id > ?1 AND \(outlived) AND (registered_at_ms IS NOT NULL OR \(unneeded))
                ORDER BY id LIMIT ?3
                """,
            arguments: [number, openedBefore.millisecondsSinceEpoch, limit])
    }

    /// Examines the next `limit` sessions. Returns those that are registered and that meet the conditions `outlived`
    /// and `unneeded` for the time `before`.
    static func unusedRegistrations(
        before: Moment, at now: Moment, after number: Int64, limit: Int, _ db: Database
    ) throws -> AgedNumbers {
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT id, opened_at_ms, registered_at_ms IS NOT NULL AND \(outlived) AND \(unneeded) FROM session
                WHERE id > ?1 ORDER BY id LIMIT ?3
                """,
            arguments: [number, before.millisecondsSinceEpoch, limit])
        return part(rows, before: before, at: now, limit: limit)
    }

    /// Examines the next `limit` audit entries. Returns those that are older than `before`. Leaves out receipts of
    /// deletions, because receipts are kept.
    static func auditLines(
        before: Moment, at now: Moment, after number: Int64, limit: Int, _ db: Database
    ) throws -> AgedNumbers {
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT id, at_ms, at_ms < ?2 AND action <> 'erased' FROM audit WHERE id > ?1 ORDER BY id LIMIT ?3
                """,
            arguments: [number, before.millisecondsSinceEpoch, limit])
        return part(rows, before: before, at: now, limit: limit)
    }

    /// Returns one part of a walk over the rows. Row numbers ascend with time, so the walk ends if the last row of the
    /// part is recent. If that row's time is in the future, the walk goes on, because the clock was ahead and later
    /// rows may be old.
    private static func part(_ rows: [Row], before: Moment, at now: Moment, limit: Int) -> AgedNumbers {
        let last = rows.last.map { Moment(millisecondsSinceEpoch: $0[1]) }
        let endsInFuture = last.map { $0 > now } ?? false
        let isLast = last.map { $0 >= before && $0 <= now } ?? true
        return AgedNumbers(
            numbers: rows.filter { $0[2] }.map { $0[0] },
            next: isLast || rows.count < limit ? nil : rows.last.map { $0[0] }, endsInFuture: endsInFuture)
    }

    /// SQL condition on a session that is no longer shown to clients. The session was opened before ?2, and registered
    /// before ?2 if it was registered. It has no events, and is not its driver's current session.
    private static let outlived = """
        opened_at_ms < ?2 AND coalesce(registered_at_ms < ?2, TRUE)
        AND NOT EXISTS (SELECT 1 FROM event WHERE event.session = session.id)
        AND NOT EXISTS (SELECT 1 FROM driver WHERE driver.id = session.driver AND session.id = driver.session)
        """

    /// SQL condition that is true if the row of an outlived session can be deleted. Neither the driver's journey nor
    /// `journey_base` may name the session. The journeys stored with events name only sessions that have events, or
    /// sessions that `journey_base` names.
    ///
    /// The session must not have the highest row number, because SQLite would give a deleted highest number to the next
    /// session. Drivers' recent changes may still refer to the deleted session.
    private static let unneeded = """
        (NOT EXISTS (
            SELECT 1 FROM driver WHERE driver.id = session.driver AND session.id = driver.previous_session)
        AND NOT EXISTS (
            SELECT 1 FROM journey_base WHERE journey_base.driver = session.driver
            AND session.id IN (journey_base.session, journey_base.previous_session))
        AND id < (SELECT max(id) FROM session))
        """

    /// Deletes those `sessions` that are outlived and unneeded, and returns how many. If a session is only outlived,
    /// forgets its registration, charger and merchant. The conditions are checked again, because an event of a session
    /// may have arrived since the session was found.
    static func delete(sessions: [Int64], openedBefore: Moment, _ db: Database) throws -> Int {
        let delete = try db.cachedStatement(sql: "DELETE FROM session WHERE id = ?1 AND \(outlived) AND \(unneeded)")
        // The columns `charger` and `merchant` are cleared too, because old releases stored the registration's charger
        // and merchant there.
        let forget = try db.cachedStatement(
            sql: """
                UPDATE session SET registered_at_ms = NULL, registered_charger = NULL, registered_merchant = NULL,
                    charger = NULL, merchant = NULL
                WHERE id = ?1 AND registered_at_ms IS NOT NULL AND \(outlived)
                """)
        var count = 0
        for id in sessions {
            try delete.execute(arguments: [id, openedBefore.millisecondsSinceEpoch])
            if db.changesCount > 0 {
                count += 1
                try db.execute(sql: "DELETE FROM session_code WHERE session = ?", arguments: [id])
            } else {
                try forget.execute(arguments: [id, openedBefore.millisecondsSinceEpoch])
            }
        }
        return count
    }
}
