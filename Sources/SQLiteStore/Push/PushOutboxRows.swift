// The outbox of notifications: adds entries, finds those that are due, and records what became of them. An entry is
// deleted with its device.

import Engine
import GRDB
import Identity
import JourneyModel
import Push
import SharedTables

enum PushOutboxRows {
    /// The minimum time between two background pushes to a device. Apple delivers two or three an hour.
    static let wakeIntervalMilliseconds: Int64 = 1_200_000

    /// Adds an entry. Adds nothing if its device was removed or belongs to another driver by now, or if it would wake
    /// the device again too early.
    static func add(_ entry: PushEntry, at now: Moment, _ db: Database) throws {
        let lastWake = now.advanced(byMilliseconds: -wakeIntervalMilliseconds).millisecondsSinceEpoch
        try db.cachedStatement(
            sql: """
                INSERT INTO push_outbox (device, driver, session, kind, state, ended_by, deadline_ms, due_at_ms,
                    expires_at_ms, next_attempt_at_ms)
                SELECT id, driver, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?8 FROM device
                WHERE id = ?1 AND driver = ?2 AND (?4 <> 'wake' OR woken_at_ms IS NULL OR woken_at_ms <= ?10)
                """
        ).execute(arguments: [
            entry.device, entry.driver, entry.session, entry.kind.word, entry.state.code, entry.endedBy?.code,
            entry.deadline?.millisecondsSinceEpoch, entry.dueAt.millisecondsSinceEpoch,
            entry.expiresAt.millisecondsSinceEpoch, lastWake,
        ])
        guard entry.kind == .wake, db.changesCount > 0 else { return }
        try db.execute(
            sql: "UPDATE device SET woken_at_ms = ? WHERE id = ?",
            arguments: [now.millisecondsSinceEpoch, entry.device])
    }

    /// Takes those of the entries that are still due. The others were taken by another server, or deleted, after the
    /// entries were read.
    static func take(_ due: [DuePush], at now: Moment, lease: Moment, _ db: Database) throws -> [DuePush] {
        let take = try db.cachedStatement(
            sql: """
                UPDATE push_outbox SET attempt_count = attempt_count + 1, next_attempt_at_ms = ?
                WHERE id = ? AND next_attempt_at_ms <= ?
                """)
        return try due.filter { push in
            try take.execute(arguments: [lease.millisecondsSinceEpoch, push.id, now.millisecondsSinceEpoch])
            return db.changesCount > 0
        }
    }

    /// Returns at most `limit` due entries, the longest due first. Of each device only the first is returned. An entry
    /// whose sending has begun comes before all later ones of its device, even while it waits to be sent again.
    static func due(at now: Moment, limit: Int, _ db: Database) throws -> [DuePush] {
        try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT push_outbox.id, push_outbox.driver, push_outbox.device, push_outbox.session, kind,
                        push_outbox.state, push_outbox.ended_by, deadline_ms, due_at_ms, expires_at_ms, attempt_count,
                        (SELECT session_id FROM session WHERE session.id = push_outbox.session),
                        driver.session IS push_outbox.session AND driver.grace_deadline_ms IS deadline_ms,
                        \(DeviceRows.columns)
                    FROM push_outbox JOIN device ON device.id = push_outbox.device
                    JOIN driver ON driver.id = push_outbox.driver
                    WHERE next_attempt_at_ms <= ?1 AND NOT EXISTS (
                        SELECT 1 FROM push_outbox AS earlier
                        WHERE earlier.device = push_outbox.device AND earlier.id < push_outbox.id
                            AND (earlier.attempt_count > 0 OR earlier.next_attempt_at_ms <= ?1))
                    ORDER BY next_attempt_at_ms, push_outbox.id LIMIT ?2
                    """),
            arguments: [now.millisecondsSinceEpoch, limit]
        ).map(due)
    }

    private static func due(_ row: Row) throws -> DuePush {
        guard let kind = PushKind(word: row[4]) else { throw SQLiteError.unreadable("push_outbox.kind") }
        return DuePush(
            id: row[0],
            entry: PushEntry(
                driver: row[1], device: row[2], session: row[3], kind: kind, state: try StoredEvents.state(row, 5),
                endedBy: StoredEvents.ending(row[6]), deadline: StoredEvents.moment(row[7]),
                dueAt: Moment(millisecondsSinceEpoch: row[8]), expiresAt: Moment(millisecondsSinceEpoch: row[9])),
            sessionID: row[11], device: try DeviceRows.device(row, at: 13), attemptCount: row[10],
            isDeadlineRunning: row[12])
    }

    static func finish(_ result: PushResult, at now: Moment, _ db: Database) throws {
        switch result.change {
        case .remove: break
        case .retry(let next):
            return try db.cachedStatement(sql: "UPDATE push_outbox SET next_attempt_at_ms = ? WHERE id = ?")
                .execute(arguments: [next.millisecondsSinceEpoch, result.id])
        case .removeDevice(let moment):
            try DeviceRows.removeUnregistered(result.device, registeredBefore: moment, at: now, db)
        case .removeLiveActivity(let token):
            try db.execute(
                sql: "UPDATE device SET live_activity_token = NULL WHERE id = ? AND live_activity_token = ?",
                arguments: [result.device, token])
        }
        try db.cachedStatement(sql: "DELETE FROM push_outbox WHERE id = ?").execute(arguments: [result.id])
    }
}
