// Queries about committed events on read connections. They use GRDB, because they need not be as fast as the writer's
// statements.

import Engine
import GRDB
package import JourneyModel

import struct Foundation.Data

/// One event at its position in the contract's order.
package struct TimelineEntry: Hashable, Sendable {
    package var idempotencyKey: String
    package var name: EventName
    package var occurredAtText: String
    /// The corrected time, by the server's clock.
    package var correctedAt: Moment
    package var verdict: Verdict
    /// The state right after this event.
    package var state: JourneyState
}

enum StoredEvents {
    /// Returns nil if the driver has no stored event with the idempotency key of `submission`. If `submission` repeats
    /// the stored event, returns `.replayed`. If it is a different event, returns `.keyReused`.
    static func outcome(
        of submission: EventSubmission, digest: [UInt8], driver: DriverID, _ newest: NewestKeys, _ db: Database
    ) throws -> EventOutcome? {
        guard
            let number = try Int64.fetchOne(
                try db.cachedStatement(sql: "SELECT id FROM driver WHERE driver_id = ?"), arguments: [driver.rawValue])
        else { return nil }
        let key = StoredKey(submission.idempotencyKey)
        let place = try EventKeyHash(db).place(of: key, of: number)
        let find = try db.cachedStatement(
            sql: """
                \(EventKeyTable.listedSQL),
                found (event) AS (SELECT event FROM listed UNION ALL SELECT value FROM json_each(?4))
                SELECT coalesce(event_id, idempotency_key), digest, transition, reason, implied,
                    state, (SELECT session_id FROM session WHERE session.id = driver.session),
                    (SELECT place_id FROM place WHERE place.id = target_charger),
                    (SELECT place_id FROM place WHERE place.id = next_target_charger),
                    grace_deadline_ms, hard_deadline_ms, ended_by,
                    (SELECT session_id FROM session WHERE session.id = driver.previous_session), app_state,
                    schema_version, details IS NOT NULL
                FROM found CROSS JOIN event ON event.id = found.event
                CROSS JOIN driver ON driver.id = event.driver CROSS JOIN event_kind ON event_kind.id = event.kind
                WHERE event.driver = ?2 AND key = ?3
                """)
        let row = try Row.fetchOne(
            find,
            arguments: [place, number, key.databaseValue, DriverEvents.list(newest.events(at: place))])
        guard let row else { return nil }
        let stored = try row.decode(Data.self, atIndex: 1)
        let isRepeat =
            stored.elementsEqual(EventDigest.stored(digest))
            || submission.isRepeat(withStoredAppState: row[13], schemaVersion: row[14], hasDetails: row[15]) {
                stored.elementsEqual(EventDigest.stored($0))
            }
        guard isRepeat else { return .keyReused }
        return .replayed(StoredEvent(eventID: row[0], verdict: try verdict(row, 2), journey: try journey(row, 5)))
    }

    /// Returns the id of the newest event that is still stored; 0 if there is none.
    static func newestID(_ db: Database) throws -> Int64 {
        try Int64.fetchOne(db.cachedStatement(sql: "SELECT max(id) FROM event")) ?? 0
    }

    /// Returns the highest number that an event has or had.
    static func lastNumber(_ db: Database) throws -> Int64 {
        try Int64.fetchOne(try db.cachedStatement(sql: "SELECT seq FROM sqlite_sequence WHERE name = 'event_row'")) ?? 0
    }

    static func timeline(of driver: DriverID, limit: Int, _ db: Database) throws -> [TimelineEntry] {
        let number = try Int64.fetchOne(
            db.cachedStatement(sql: "SELECT id FROM driver WHERE driver_id = ?"), arguments: [driver.rawValue])
        guard let number else { return [] }
        var events = try DriverEvents(of: number, .forward, db)
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT idempotency_key, name, has_session, occurred_at, corrected_at_ms,
                        transition, reason, implied, after_state
                    FROM \(DriverEvents.listedSQL())
                    JOIN event_kind ON event_kind.id = event.kind
                    ORDER BY \(FoldOrder.ascending)
                    LIMIT ?
                    """),
            arguments: [DriverEvents.list(try events.next(limit)), limit])
        return try rows.map { row in
            TimelineEntry(
                idempotencyKey: row[0], name: try name(row, 1), occurredAtText: row[3],
                correctedAt: Moment(millisecondsSinceEpoch: row[4]), verdict: try verdict(row, 5),
                state: try state(row, 8))
        }
    }

    /// Reads two columns: name, has_session.
    static func name(_ row: Row, _ first: Int) throws -> EventName {
        guard let name = EventName(canonical: row[first], hasSession: row[first + 1]) else {
            throw SQLiteError.unreadable("name")
        }
        return name
    }

    /// Reads three columns: transition, reason, implied.
    static func verdict(_ row: Row, _ first: Int) throws -> Verdict {
        guard let transition = Verdict.Transition(code: row[first]) else { throw SQLiteError.unreadable("transition") }
        let reason: Int64? = row[first + 1]
        return Verdict(
            transition, reason: reason.flatMap(Verdict.Reason.init(code:)),
            implied: ImpliedSteps(code: row[first + 2]) ?? [])
    }

    static func state(_ row: Row, _ index: Int) throws -> JourneyState {
        guard let state = JourneyState(code: row[index]) else { throw SQLiteError.unreadable("state") }
        return state
    }

    /// Reads eight columns: state, session, target, next target, grace deadline, hard deadline, why the session ended,
    /// previous session.
    static func journey(_ row: Row, _ first: Int) throws -> Journey {
        Journey(
            state: try state(row, first), sessionID: row[first + 1], targetChargerID: row[first + 2],
            nextTargetChargerID: row[first + 3], graceDeadline: moment(row[first + 4]),
            hardDeadline: moment(row[first + 5]), endedBy: ending(row[first + 6]), previousSessionID: row[first + 7])
    }

    static func ending(_ code: Int64?) -> Journey.Ending? {
        code.flatMap(Journey.Ending.init(code:))
    }

    static func moment(_ milliseconds: Int64?) -> Moment? {
        milliseconds.map(Moment.init(millisecondsSinceEpoch:))
    }
}
