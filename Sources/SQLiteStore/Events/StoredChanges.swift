// Reads a driver's current journey and its recent changes from the driver's row.

import Engine
import GRDB
import JourneyModel

import struct Foundation.Data

enum StoredChanges {
    struct StoredHead {
        /// Row number in `driver`.
        var driver: Int64
        var journey: Journey
        var recent: RecentChanges
    }

    /// Returns nil for an unknown driver.
    static func storedHead(of driver: DriverID, _ db: Database) throws -> StoredHead? {
        let row = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT id, state, (SELECT session_id FROM session WHERE session.id = driver.session),
                        (SELECT place_id FROM place WHERE place.id = target_charger),
                        (SELECT place_id FROM place WHERE place.id = next_target_charger),
                        grace_deadline_ms, hard_deadline_ms, ended_by,
                        (SELECT session_id FROM session WHERE session.id = driver.previous_session), recent_changes
                    FROM driver WHERE driver_id = ?
                    """),
            arguments: [driver.rawValue])
        guard let row else { return nil }
        let changes: Data? = row[9]
        let recent = RecentChanges(bytes: changes.map { [UInt8]($0) } ?? [])
        return StoredHead(driver: row[0], journey: try StoredEvents.journey(row, 1), recent: recent)
    }

    static func changes(of driver: DriverID, after id: Int64?, _ db: Database) throws -> JourneyChanges {
        let storedHead = try self.storedHead(of: driver, db)
        let recent = storedHead?.recent.changes ?? []
        let newest = recent.last?.event ?? 0
        if let id, let missed = self.missed(after: id, newest: newest, storedHead) {
            return .all(
                try missed.map { change in
                    JourneyChange(
                        id: change.event, journey: try journey(after: change, db),
                        cause: try cause(change.event, of: storedHead?.driver, db))
                })
        }
        var head = storedHead?.journey ?? Journey()
        (head.targetChargerID, head.nextTargetChargerID, head.previousSessionID) = (nil, nil, nil)
        return .newest(
            JourneyChange(id: newest, journey: head, cause: try cause(newest, of: storedHead?.driver, db)))
    }

    /// Returns the changes after the event `id`. Returns nil if the reader must get the current state instead, for
    /// example because some of the changes are no longer stored.
    private static func missed(after id: Int64, newest: Int64, _ storedHead: StoredHead?) -> [RecentChanges.Change]? {
        guard id >= 0, id <= newest else { return nil }
        guard let storedHead else { return [] }
        guard let oldest = storedHead.recent.changes.first else {
            // A refold by new fold rules or by a correction of settings may have deleted the recorded changes. The
            // reader may have seen the state from before the refold, so it gets the current state.
            //
            // This applies even if the journey is in IDLE and `id` is 0. A reader that passes 0 may have seen the
            // effect of a correction that was undone later.
            return nil
        }
        guard !storedHead.recent.isFull || oldest.event <= id else { return nil }
        return storedHead.recent.changes.filter { $0.event > id }
    }

    static func journey(after change: RecentChanges.Change, _ db: Database) throws -> Journey {
        let sessionID = try change.session.flatMap { session in
            try String.fetchOne(
                db.cachedStatement(sql: "SELECT session_id FROM session WHERE id = ?"), arguments: [session])
        }
        return Journey(
            state: change.state, sessionID: sessionID, graceDeadline: change.graceDeadline,
            hardDeadline: change.hardDeadline, endedBy: change.endedBy)
    }

    private static func cause(_ event: Int64, of driver: Int64?, _ db: Database) throws -> JourneyChange.Cause? {
        guard let driver, event > 0 else { return nil }
        let row = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT coalesce(event_id, idempotency_key), name, has_session, corrected_at_ms, source
                    FROM event JOIN event_kind ON event_kind.id = event.kind
                    WHERE event.id = ? AND event.driver = ?
                    """),
            arguments: [event, driver])
        guard let row else { return nil }
        return JourneyChange.Cause(
            eventID: row[0], name: try StoredEvents.name(row, 1), occurredAt: Moment(millisecondsSinceEpoch: row[3]),
            source: row[4])
    }

    /// If there are more new events than this, `committedChanges` returns `.any` instead of a list of drivers.
    private static let eventsMax: Int64 = 10_000

    static func committedChanges(after id: Int64?, _ db: Database) throws -> CommittedChanges {
        let newest = try StoredEvents.newestID(db)
        guard let id, newest >= id, newest - id <= eventsMax else {
            return CommittedChanges(newest: newest, drivers: .any)
        }
        guard newest > id else { return CommittedChanges(newest: newest, drivers: .these([])) }
        let drivers = try String.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT driver_id FROM driver WHERE id IN (SELECT driver FROM event WHERE id > ? AND id <= ?)
                    """),
            arguments: [id, newest])
        return CommittedChanges(newest: newest, drivers: .these(drivers.map { DriverID($0) }))
    }

    static func correctedJourneys(after id: Int64?, _ db: Database) throws -> CommittedChanges {
        let newest = try Int64.fetchOne(db.cachedStatement(sql: "SELECT max(id) FROM corrected_journey")) ?? 0
        guard let id, newest >= id, newest - id < SettingsCorrectionTable.correctedMax else {
            return CommittedChanges(newest: newest, drivers: .any)
        }
        guard newest > id else { return CommittedChanges(newest: newest, drivers: .these([])) }
        let drivers = try String.fetchAll(
            db.cachedStatement(
                sql: "SELECT driver_id FROM driver WHERE id IN (SELECT driver FROM corrected_journey WHERE id > ?)"),
            arguments: [id])
        return CommittedChanges(newest: newest, drivers: .these(drivers.map { DriverID($0) }))
    }

    static func driversAwaitingRefold(among drivers: Set<DriverID>, _ db: Database) throws -> Set<DriverID> {
        let found = try String.fetchAll(
            db,
            sql: """
                SELECT driver_id FROM driver
                WHERE rules <> ? AND driver_id IN (\(databaseQuestionMarks(count: drivers.count)))
                """,
            arguments: [Fold.rulesVersion] + StatementArguments(drivers.map(\.rawValue)))
        return Set(found.map { DriverID($0) })
    }
}
