// One step of retention in the writer's transaction. For each driver with old events, raises the floor and then deletes
// the events below the floor.
//
// A driver's floor is a corrected event time in milliseconds. The fold starts at the floor with a stored journey
// (`journey_base`), and reads no events below the floor. Deleting those events therefore cannot change the fold's
// results.

import Engine
import GRDB
import JourneyModel

enum RetentionHorizon {
    /// Raises the floor of each driver in `events`, then deletes those `events` that are below the floors. Returns the
    /// number of deleted events.
    static func delete(_ events: [AgedEvent], _ db: Database) throws -> Int {
        var highest: [Int64: Moment] = [:]
        for event in events {
            highest[event.driver] = max(highest[event.driver] ?? event.correctedAt, event.correctedAt)
        }
        let floors = try highest.reduce(into: [Int64: Moment]()) { floors, driver in
            floors[driver.key] = try raise(driver.key, above: driver.value, db)
        }
        let gone = events.filter { event in floors[event.driver].map { event.correctedAt < $0 } ?? false }
        let drivers = Dictionary(grouping: gone, by: \.driver)
        let lasts = try drivers.reduce(into: [Int64: Int64?]()) { lasts, driver in
            lasts[driver.key] = try unlink(driver.value.map(\.id), from: driver.key, db)
        }
        let keys = try EventKeyTable(db)
        let statement = try db.cachedStatement(sql: "DELETE FROM event_row WHERE id = ?")
        var count = 0
        for event in gone {
            try keys.remove(event.id)
            try statement.execute(arguments: [event.id])
            count += db.changesCount
        }
        for (driver, last) in lasts {
            try setEnd(of: driver, at: last, without: drivers[driver].map { Set($0.map(\.id)) } ?? [], db)
        }
        return count
    }

    /// Removes the events from the driver's chain. Returns the driver's last remaining event; nil if none remains.
    private static func unlink(_ events: [Int64], from driver: Int64, _ db: Database) throws -> Int64? {
        let chain = try EventChain(db)
        // Another process that uses this file may already have deleted an event.
        let links = try events.compactMap { try chain.link($0) }
        return try chain.unlink(links, from: DriverEvents.end(of: driver, db))
    }

    /// Replaces the end of the chain in the driver's row if it refers to a deleted event. The new end is computed from
    /// the remaining events.
    private static func setEnd(
        of driver: Int64, at last: Int64?, without deleted: Set<Int64>, _ db: Database
    ) throws {
        guard try DriverEvents.end(of: driver, db).climb.contains(where: deleted.contains) else { return }
        let bytes = try EventChain(db).end(at: last).bytes
        try db.cachedStatement(sql: "UPDATE driver SET chain = ? WHERE id = ?")
            .execute(arguments: [bytes.isEmpty ? nil : bytes.data, driver])
    }

    /// Raises the driver's floor to the millisecond after `moment`, and returns the floor. The floor stays at or below
    /// the driver's next deadline, because the expiry event for that deadline is not stored yet.
    ///
    /// Returns nil if the driver is unknown, or must first be refolded by the current rules. Without this refold, the
    /// journey at the floor would come from other rules, and no later refold could correct it. A later run of retention
    /// deletes the events.
    private static func raise(_ driver: Int64, above moment: Moment, _ db: Database) throws -> Moment? {
        let find = try db.cachedStatement(
            sql: """
                SELECT floor_at_ms, next_deadline_ms, head_corrected_at_ms FROM driver
                WHERE id = ? AND rules = \(Fold.rulesVersion)
                """)
        guard let row = try Row.fetchOne(find, arguments: [driver]) else { return nil }
        let old = StoredEvents.moment(row[0])
        var floor = moment.advanced(byMilliseconds: 1)
        if let deadline = StoredEvents.moment(row[1]) { floor = min(floor, deadline) }
        if let old, old >= floor { return old }
        try keepBase(driver, from: old, to: floor, db)
        // If the driver's last event (the head) is below the floor, no event is left in the fold. The driver then has
        // no head.
        let losesHead = StoredEvents.moment(row[2]).map { $0 < floor } ?? false
        let update = try db.cachedStatement(
            sql: """
                UPDATE driver SET floor_at_ms = ?2, head_event = iif(?3, NULL, head_event),
                    head_corrected_at_ms = iif(?3, NULL, head_corrected_at_ms)
                WHERE id = ?1
                """)
        try update.execute(arguments: [driver, floor.millisecondsSinceEpoch, losesHead])
        return floor
    }

    /// Stores in `journey_base` the journey after the last event below the new floor. If no event lies between the old
    /// floor and the new one, keeps the stored journey, or stores IDLE if no journey is stored.
    private static func keepBase(_ driver: Int64, from old: Moment?, to floor: Moment, _ db: Database) throws {
        let keep = try db.cachedStatement(
            sql: """
                INSERT INTO journey_base (driver, state, session, target_charger, next_target_charger,
                    grace_deadline_ms, hard_deadline_ms, ended_by, previous_session)
                SELECT driver, after_state, after_session, after_target_charger, after_next_target_charger,
                    after_grace_deadline_ms, after_hard_deadline_ms, after_ended_by, after_previous_session
                FROM \(DriverEvents.listedSQL()) CROSS JOIN event_kind ON event_kind.id = event.kind
                WHERE TRUE
                ORDER BY \(FoldOrder.descending)
                LIMIT 1
                ON CONFLICT (driver) DO UPDATE SET state = excluded.state, session = excluded.session,
                    target_charger = excluded.target_charger, next_target_charger = excluded.next_target_charger,
                    grace_deadline_ms = excluded.grace_deadline_ms, hard_deadline_ms = excluded.hard_deadline_ms,
                    ended_by = excluded.ended_by, previous_session = excluded.previous_session
                """)
        let times = (old?.millisecondsSinceEpoch ?? .min)...(floor.millisecondsSinceEpoch - 1)
        var events = try DriverEvents(of: driver, .backward, times: times, db)
        try keep.execute(arguments: [DriverEvents.list(try events.next(1))])
        guard db.changesCount == 0 else { return }
        let begin = try db.cachedStatement(
            sql: "INSERT INTO journey_base (driver, state) VALUES (?, ?) ON CONFLICT DO NOTHING")
        try begin.execute(arguments: [driver, JourneyState.idle.code])
    }
}
