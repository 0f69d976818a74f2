// Finds the changes of journeys that may cause push notifications. Reads them from the column `recent_changes` of each
// driver with new events (RecentJourneyChanges.swift). A late event that changes only the past adds no change to this
// column.

import Engine
import Identity
import JourneyModel
import Push
import SharedTables

enum PushChangeRows {
    /// Maximum number of events per read.
    static let eventsMax = 5_000

    static func changes(
        after id: Int64, before end: Int64, since: Moment, areDistributed: Bool, _ db: any SQLTransaction
    ) throws -> PushChanges {
        let page = try SQLRow.fetchOne(
            db,
            sql: """
                SELECT max(position), count(*) FROM (
                    SELECT position FROM event
                    WHERE position > ?1 AND position < \(EventPosition.end(settled: "CAST(?2 AS int8)"))
                    ORDER BY position LIMIT \(eventsMax)) page
                """,
            arguments: [id, end])
        guard let page, let last: Int64 = try page[0] else { return PushChanges(last: id, hasMore: false, changes: []) }
        let count: Int = try page[1]
        var changes: [PushChange] = []
        var driver: Driver?
        let sql = areDistributed ? causesSQL("") : causesSQL(hasDeviceSQL)
        let causes = try SQLRow.fetchAll(db, sql: sql, arguments: [id, last, since])
        let owners = areDistributed ? try deviceOwners(among: causes, db) : nil
        for row in causes {
            let number: Int64 = try row[0]
            if let owners, !owners.contains(number) { continue }
            if driver?.number != number {
                driver = try Driver(
                    number: number, isSimulated: DriverID(row[1]).isSimulated,
                    recent: RecentJourneyChanges(bytes: row[2] ?? []).changes)
            }
            guard var found = driver, !found.isSimulated else { continue }
            if let change = try found.change(by: row, db) { changes.append(change) }
            driver = found
        }
        return PushChanges(last: last, hasMore: count == eventsMax, changes: changes)
    }

    private static func causesSQL(_ condition: String) -> String {
        """
        SELECT driver.id, driver.driver_id, driver.recent_changes, event.seq, event.corrected_at_ms, event.origin
        FROM event JOIN driver ON driver.lane = event.lane AND driver.id = event.driver
        WHERE event.position > ? AND event.position <= ? AND event.received_at_ms >= ? \(condition)
        ORDER BY driver.id, event.seq
        """
    }

    private static let hasDeviceSQL = "AND EXISTS (SELECT 1 FROM device WHERE device.driver = driver.id)"

    /// Returns the drivers in `rows` that have a device. Needed only on Citus, where devices and drivers lie on
    /// different servers.
    private static func deviceOwners(among rows: [SQLRow], _ db: any SQLTransaction) throws -> Set<Int64> {
        let drivers = Set(try rows.map { try $0[0] as Int64 })
        let list = drivers.map { String($0) }.joined(separator: ",")
        return Set(
            try Int64.fetchAll(
                db,
                sql: "SELECT DISTINCT driver FROM device WHERE driver = ANY (CAST(string_to_array(?, ',') AS int8[]))",
                arguments: [list]))
    }

    private struct Driver {
        let number: Int64
        let isSimulated: Bool
        let recent: [RecentJourneyChanges.Change]
        /// Nil until the driver's first change, with which the devices are read.
        var devices: [PushTarget]?

        init(number: Int64, isSimulated: Bool, recent: [RecentJourneyChanges.Change]) {
            (self.number, self.isSimulated, self.recent) = (number, isSimulated, recent)
        }

        /// Returns the change that the row's event caused; nil if `recent` does not contain it.
        mutating func change(by row: SQLRow, _ db: any SQLTransaction) throws -> PushChange? {
            let seq: Int64 = try row[3]
            guard let index = recent.firstIndex(where: { $0.seq == seq }) else { return nil }
            let devices = try self.devices ?? PushChangeRows.devices(of: number, db)
            self.devices = devices
            return try PushChange(
                driver: number, before: index == 0 ? nil : PushChange.Phase(recent[index - 1]),
                after: .init(recent[index]), occurredAt: row[4], isByServer: row[5], devices: devices)
        }
    }

    private static func devices(of driver: Int64, _ db: any SQLTransaction) throws -> [PushTarget] {
        try SQLRow.fetchAll(
            db, sql: "SELECT id, \(DeviceRows.columns) FROM device WHERE driver = ? ORDER BY id", arguments: [driver]
        ).map { row in
            let device = try DeviceRows.device(row, at: 1)
            return try PushTarget(
                device: row[0], platform: device.platform,
                hasLiveActivity: device.platform == "ios" && device.push?.liveActivityToken != nil,
                preferences: device.push?.notifications ?? .init())
        }
    }
}

extension PushChange.Phase {
    fileprivate init(_ change: RecentJourneyChanges.Change) {
        self.init(
            state: change.state, session: change.sessionID.map { .id($0) }, graceDeadline: change.graceDeadline,
            hardDeadline: change.hardDeadline, endedBy: change.endedBy)
    }
}
