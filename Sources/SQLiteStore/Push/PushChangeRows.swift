// Reads the changes of journeys that may cause notifications, from the column `recent_changes` of the drivers with new
// events (RecentChanges.swift). A late event that changes only the past adds no change to this column, and so causes no
// notification.

import Engine
import GRDB
import Identity
import JourneyModel
import Push
import SharedTables

import struct Foundation.Data

enum PushChangeRows {
    /// Maximum number of events per read. Reading this many events takes a few milliseconds.
    static let eventsMax: Int64 = 5_000
    /// How long `changes` waits for the refold of a late event, in milliseconds since the event's receipt. Most refolds
    /// take less than a second, but a refold that fails may never be complete.
    ///
    /// While it waits, `changes` leaves out the changes by this late event and by all events with higher numbers. After
    /// the wait, it skips the late event, whose own change then causes no notification.
    ///
    /// The time is half the maximum age of a change, so changes that had to wait are still young enough for
    /// notifications.
    static let refoldWaitMilliseconds = PushRules.ageMillisecondsMax / 2

    static func changes(after id: Int64, since: Moment, _ db: Database) throws -> PushChanges {
        var newest = try StoredEvents.newestID(db)
        if let cause = try firstCause(after: id, since: since, db) { newest = cause - 1 }
        let last = min(newest, id + eventsMax)
        guard last > id else { return PushChanges(last: id, hasMore: false, changes: []) }
        let drivers = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT id, driver_id, recent_changes FROM driver WHERE id IN (
                        SELECT driver FROM event WHERE id > ? AND id <= ? AND received_at_ms >= ?)
                    AND EXISTS (SELECT 1 FROM device WHERE device.driver = driver.id) ORDER BY id
                    """),
            arguments: [id, last, since.millisecondsSinceEpoch])
        let changes = try drivers.filter { !DriverID($0[1]).isSimulated }.flatMap { row in
            try self.changes(of: row[0], (row[2] as Data?).map { [UInt8]($0) } ?? [], in: (id + 1)...last, db)
        }
        return PushChanges(last: last, hasMore: last < newest, changes: changes)
    }

    /// Returns the number of the first late event after `id` whose refold `changes` must await; nil if there is none.
    /// `changes` does not wait if the event is older than `refoldWaitMilliseconds`, or if the driver has no device.
    ///
    /// A complete refold adds its change to `recent_changes` under the number of the late event. If `changes` had
    /// already passed this number, it would miss the change.
    ///
    /// Leaves out an event whose receive time is in the future because the clock was set back. The wait for its refold
    /// would have no limit.
    private static func firstCause(after id: Int64, since: Moment, _ db: Database) throws -> Int64? {
        let now = since.advanced(byMilliseconds: PushRules.ageMillisecondsMax)
        return try Int64.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT min(refold.cause) FROM refold CROSS JOIN event ON event.id = refold.cause
                    WHERE refold.cause > ? AND received_at_ms BETWEEN ? AND ?
                    AND EXISTS (SELECT 1 FROM device WHERE device.driver = refold.driver)
                    """),
            arguments: [
                id, now.advanced(byMilliseconds: -refoldWaitMilliseconds).millisecondsSinceEpoch,
                ServerClocks.latest(at: now).millisecondsSinceEpoch,
            ])
    }

    private static func changes(
        of driver: Int64, _ bytes: [UInt8], in events: ClosedRange<Int64>, _ db: Database
    ) throws -> [PushChange] {
        let recent = RecentChanges(bytes: bytes).changes
        guard recent.contains(where: { events.contains($0.event) }) else { return [] }
        let devices = try Row.fetchAll(
            db.cachedStatement(sql: "SELECT id, \(DeviceRows.columns) FROM device WHERE driver = ? ORDER BY id"),
            arguments: [driver]
        ).map { row in
            let device = try DeviceRows.device(row, at: 1)
            return PushTarget(
                device: row[0], platform: device.platform,
                hasLiveActivity: device.platform == "ios" && device.push?.liveActivityToken != nil,
                preferences: device.push?.notifications ?? .init())
        }
        var before: PushChange.Phase?
        var changes: [PushChange] = []
        for change in recent {
            let after = PushChange.Phase(change)
            if events.contains(change.event), let cause = try cause(change.event, of: driver, db) {
                changes.append(
                    PushChange(
                        driver: driver, before: before, after: after, occurredAt: cause.at,
                        isByServer: cause.isByServer,
                        devices: devices))
            }
            before = after
        }
        return changes
    }

    private static func cause(_ event: Int64, of driver: Int64, _ db: Database) throws -> (
        at: Moment, isByServer: Bool
    )? {
        try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT corrected_at_ms, origin FROM event JOIN event_kind ON event_kind.id = event.kind
                    WHERE event.id = ? AND driver = ?
                    """),
            arguments: [event, driver]
        ).map { (Moment(millisecondsSinceEpoch: $0[0]), $0[1]) }
    }
}

extension PushChange.Phase {
    fileprivate init(_ change: RecentChanges.Change) {
        self.init(
            state: change.state, session: change.session.map { .row($0) }, graceDeadline: change.graceDeadline,
            hardDeadline: change.hardDeadline, endedBy: change.endedBy)
    }
}
