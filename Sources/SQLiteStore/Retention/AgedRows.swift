// Finds the rows that retention may delete, on a read connection. The writer deletes them later. The writer therefore
// gets only values that cannot change in the meantime: row numbers, and an event's driver and corrected time.

import Engine
import GRDB
import JourneyModel

enum AgedRows {
    /// Returns the old events in one part of a walk over all events. A forwarded event is old if it was received before
    /// `receivedBefore`. An event that is not forwarded yet is old if it was received before `unforwardedBefore`.
    ///
    /// The walk ends at the first part without old events, because row numbers nearly ascend with the receive time.
    /// Slow requests may change the order a little, so all events of a part are examined.
    ///
    /// If the last event of a part has a receive time in the future, the server's clock was ahead. The walk then goes
    /// on, because later events may be old.
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

    /// Returns the next sessions that `delete` deletes or whose registration it removes.
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

    /// Examines the next `limit` sessions. Returns those that are registered, `outlived` and `unneeded`.
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

    /// Examines the next `limit` audit entries. Returns those that are older than `before`, except receipts of
    /// deletions, which are kept.
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

    /// Returns the rows to delete in one part of a walk. The walk ends if the last row of the part is recent, because
    /// row numbers ascend with time. If the time of that row is in the future, the clock was ahead. The walk then goes
    /// on, because later rows may be old.
    private static func part(_ rows: [Row], before: Moment, at now: Moment, limit: Int) -> AgedNumbers {
        let last = rows.last.map { Moment(millisecondsSinceEpoch: $0[1]) }
        let endsInFuture = last.map { $0 > now } ?? false
        let isLast = last.map { $0 >= before && $0 <= now } ?? true
        return AgedNumbers(
            numbers: rows.filter { $0[2] }.map { $0[0] },
            next: isLast || rows.count < limit ? nil : rows.last.map { $0[0] }, endsInFuture: endsInFuture)
    }

    /// SQL condition on a session that is no longer shown to clients. The session was opened before ?2, and was not
    /// registered at ?2 or later. It has no events, and it is not its driver's current session.
    private static let outlived = """
        opened_at_ms < ?2 AND coalesce(registered_at_ms < ?2, TRUE)
        AND NOT EXISTS (SELECT 1 FROM event WHERE event.session = session.id)
        AND NOT EXISTS (SELECT 1 FROM driver WHERE driver.id = session.driver AND session.id = driver.session)
        """

    /// SQL condition that permits the deletion of an `outlived` session. Neither the driver's journey nor
    /// `journey_base` may name it. The journeys stored with events need no check: they name only sessions that have
    /// events or that `journey_base` names.
    ///
    /// The session must not have the highest row number. SQLite would give this number to the next session, although
    /// drivers' recent changes may still refer to the deleted session.
    private static let unneeded = """
        (NOT EXISTS (
            SELECT 1 FROM driver WHERE driver.id = session.driver AND session.id = driver.previous_session)
        AND NOT EXISTS (
            SELECT 1 FROM journey_base WHERE journey_base.driver = session.driver
            AND session.id IN (journey_base.session, journey_base.previous_session))
        AND id < (SELECT max(id) FROM session))
        """

    /// Deletes those of `sessions` that are still outlived and unneeded, and returns their number. Checks both
    /// conditions again, because an event may have arrived after the search.
    ///
    /// If a session is outlived but still needed, removes its registration, charger and merchant.
    static func delete(sessions: [Int64], openedBefore: Moment, _ db: Database) throws -> Int {
        let delete = try db.cachedStatement(sql: "DELETE FROM session WHERE id = ?1 AND \(outlived) AND \(unneeded)")
        // `charger` and `merchant` are cleared too, because old releases stored the charger and merchant of the
        // registration there.
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
