// The outbox of push notifications: adds entries, finds due entries, and records the outcomes of attempts. If a device
// is deleted, the database deletes its entries.

import Engine
import Identity
import JourneyModel
import Push

enum PushOutboxRows {
    /// The minimum time between two background pushes to a device, in milliseconds. Apple delivers only two or three an
    /// hour.
    static let wakeIntervalMilliseconds: Int64 = 1_200_000

    /// Adds an entry, unless its device was removed or now belongs to another driver. A background push is added only
    /// if the device's previous background push was at least `wakeIntervalMilliseconds` ago.
    ///
    /// If the time of the previous background push is in the future, the clock was set back, and this interval is not
    /// required.
    static func add(_ entry: PushEntry, at now: Moment, _ db: any SQLTransaction) throws {
        let lastWake = now.advanced(byMilliseconds: -wakeIntervalMilliseconds).millisecondsSinceEpoch
        let added = try db.execute(
            sql: """
                INSERT INTO push_outbox (device, driver, session, kind, state, ended_by, deadline_ms, due_at_ms,
                    expires_at_ms, next_attempt_at_ms)
                SELECT id, driver, ?3, ?4, ?5, CAST(?6 AS BIGINT), CAST(?7 AS BIGINT), ?8, ?9, ?8 FROM device
                WHERE id = ?1 AND driver = ?2 AND (?4 <> 'wake' OR woken_at_ms IS NULL OR woken_at_ms <= ?10
                    OR woken_at_ms > ?11)
                """,
            arguments: [
                entry.device, entry.driver, entry.session, entry.kind.word, entry.state.code, entry.endedBy?.code,
                entry.deadline, entry.dueAt, entry.expiresAt, lastWake, ServerClocks.latest(at: now),
            ])
        guard entry.kind == .wake, added > 0 else { return }
        try db.execute(
            sql: "UPDATE device SET woken_at_ms = ? WHERE id = ?",
            arguments: [now, entry.device])
    }

    /// Takes due entries for this server, so that no other server takes them before the time `lease`. Returns the
    /// entries that it has taken. The others were deleted or taken since `due` read them.
    static func take(_ due: [DuePush], at now: Moment, lease: Moment, _ db: any SQLTransaction) throws -> [DuePush] {
        try due.filter { push in
            try db.execute(
                sql: """
                    UPDATE push_outbox SET attempt_count = attempt_count + 1, next_attempt_at_ms = ?1
                    WHERE id = ?2 AND (next_attempt_at_ms <= ?3 OR \(isAheadSQL("push_outbox", "?4")))
                    """,
                arguments: [lease, push.id, now, latestAttempt(at: now)]) > 0
        }
    }

    /// Returns the latest time to which a next attempt can be set now. If an entry's next attempt is later than this,
    /// the clock was set back, and the entry is due now. The first attempt of a warning is an exception (`isAheadSQL`).
    ///
    /// If the clock was set back by less than the longest pause, the time of an entry may be in the future without
    /// exceeding the returned time. Such an entry is not due before its time.
    private static func latestAttempt(at now: Moment) -> Moment {
        ServerClocks.latest(at: now).advanced(byMilliseconds: PushSender.retryMillisecondsMax)
    }

    /// The SQL condition that an entry's next attempt is later than `latest`, because the clock was set back. It
    /// excludes the first attempt of a warning: that time depends on a deadline, and may be later than `latest` even if
    /// the clock was never set back.
    private static func isAheadSQL(_ entry: String, _ latest: String) -> String {
        "\(entry).next_attempt_at_ms > \(latest) AND (\(entry).attempt_count > 0 OR \(entry).kind <> 'grace_ending')"
    }

    /// Returns at most `limit` due entries, those with the earliest due times first. For each device, returns only the
    /// first due entry. If an earlier entry of a device waits for another attempt, returns none for this device.
    ///
    /// The query joins the drivers last, because on Citus they are on other servers than the entries and devices. It
    /// finds the due entries with two subqueries, `passed` and `ahead`. With one subquery for both conditions, it would
    /// read the whole index.
    static func due(at now: Moment, limit: Int, _ db: any SQLTransaction) throws -> [DuePush] {
        let isFirst = """
            NOT EXISTS (
                SELECT 1 FROM push_outbox AS earlier
                WHERE earlier.device = push_outbox.device AND earlier.id < push_outbox.id
                    AND (earlier.attempt_count > 0 OR earlier.next_attempt_at_ms <= ?1
                        OR \(isAheadSQL("earlier", "?3"))))
            """
        let inSession = JourneyState.allCases.filter(\.hasSessionInProgress).map { String($0.code) }
            .joined(separator: ", ")
        return try SQLRow.fetchAll(
            db,
            sql: """
                WITH passed AS (
                    SELECT * FROM push_outbox WHERE next_attempt_at_ms <= ?1 AND \(isFirst)
                    ORDER BY next_attempt_at_ms, push_outbox.id LIMIT ?2),
                ahead AS (
                    SELECT * FROM push_outbox WHERE \(isAheadSQL("push_outbox", "?3")) AND \(isFirst)
                    ORDER BY next_attempt_at_ms, push_outbox.id LIMIT ?2),
                due AS MATERIALIZED (SELECT * FROM passed UNION ALL SELECT * FROM ahead LIMIT ?2),
                target AS MATERIALIZED (SELECT * FROM device WHERE id IN (SELECT due.device FROM due))
                SELECT push_outbox.id, push_outbox.driver, push_outbox.device, push_outbox.session, kind,
                    push_outbox.state, push_outbox.ended_by, deadline_ms, due_at_ms, expires_at_ms, attempt_count,
                    \(db.sessionIDSQL("push_outbox.session")),
                    \(db.currentSessionSQL) IS NOT DISTINCT FROM push_outbox.session
                        AND driver.grace_deadline_ms IS NOT DISTINCT FROM deadline_ms,
                    driver.state IN (\(inSession)) AND \(db.currentSessionSQL) IS DISTINCT FROM push_outbox.session,
                    \(DeviceRows.columns)
                FROM due AS push_outbox JOIN target AS device ON device.id = push_outbox.device
                JOIN driver ON driver.id = push_outbox.driver ORDER BY next_attempt_at_ms, push_outbox.id
                """,
            arguments: [now, limit, latestAttempt(at: now)]
        ).map(due)
    }

    private static func due(_ row: SQLRow) throws -> DuePush {
        guard let kind = try PushKind(word: row[4]) else { throw UnreadableColumn(name: "push_outbox.kind") }
        guard let state = try JourneyState(code: row[5]) else { throw UnreadableColumn(name: "push_outbox.state") }
        let ending: Int64? = try row[6]
        let entry = try PushEntry(
            driver: row[1], device: row[2], session: row[3], kind: kind, state: state,
            endedBy: ending.flatMap { Journey.Ending(code: $0) }, deadline: row[7], dueAt: row[8], expiresAt: row[9])
        return try DuePush(
            id: row[0], entry: entry, sessionID: row[11], device: DeviceRows.device(row, at: 14),
            attemptCount: row[10], isDeadlineRunning: row[12], isInOtherSession: row[13])
    }

    /// Records an outcome. If the answer to COMMIT was lost, the sender records the same outcome again. An entry may
    /// then be put back twice, and `attempt_count` must not become negative.
    static func finish(_ result: PushResult, at now: Moment, _ db: any SQLTransaction) throws {
        switch result.change {
        case .remove: break
        case .retry(let next):
            try db.execute(
                sql: "UPDATE push_outbox SET next_attempt_at_ms = ? WHERE id = ?", arguments: [next, result.id])
            return
        case .putBack:
            try db.execute(
                sql: """
                    UPDATE push_outbox SET attempt_count = attempt_count - 1, next_attempt_at_ms = due_at_ms
                    WHERE id = ? AND attempt_count > 0
                    """,
                arguments: [result.id])
            return
        case .removeDevice(let moment):
            try DeviceRows.removeUnregistered(result.device, registeredBefore: moment, at: now, db)
        case .removeLiveActivity(let token):
            try db.execute(
                sql: "UPDATE device SET live_activity_token = NULL WHERE id = ? AND live_activity_token = ?",
                arguments: [result.device, token])
        }
        try db.execute(sql: "DELETE FROM push_outbox WHERE id = ?", arguments: [result.id])
    }
}
