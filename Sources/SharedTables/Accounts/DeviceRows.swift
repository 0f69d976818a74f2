// Devices and their push tokens. A push token identifies one device. It is stored once, for the driver who registered
// the device last. When a device's row is deleted, its waiting notifications are deleted too.

package import Identity
package import JourneyModel

package enum DeviceRows {
    /// The columns that `device(_:at:)` reads.
    package static let columns =
        "push_token, platform, environment, app_version, locale, notifications, live_activity_token"

    package static func device(_ row: SQLRow, at index: Int) throws -> Device {
        try Device(
            pushToken: row[index], platform: row[index + 1], environment: row[index + 2], appVersion: row[index + 3],
            push: PushSettings(
                locale: row[index + 4], notifications: preferences(row[index + 5]),
                liveActivityToken: row[index + 6]))
    }

    /// Unreadable preferences count as the default.
    private static func preferences(_ json: String?) -> NotificationPreferences {
        guard let json, let value = try? JSONValue.parse(Array(json.utf8)),
            case .success(let preferences) = NotificationPreferences.read(value)
        else { return NotificationPreferences() }
        return preferences
    }

    static func put(
        _ device: Device, of caller: Caller, from origin: RequestOrigin, _ digests: KeyedHashes,
        _ db: any SQLTransaction
    ) throws -> DevicePut {
        var session: SignInSessionRow?
        if let sid = caller.signInSession {
            session = try SignInSessionRows.row(of: sid, driver: caller.driver, db)
            guard session != nil else { return .sessionEnded }
        }
        let driver =
            if let session { session.driver } else {
                try DriverRows.rowOrNew(of: caller, at: origin.at, digests, db)
            }
        let owner = try Int64.fetchOne(
            db, sql: "SELECT driver FROM device WHERE push_token = ?", arguments: [device.pushToken])
        // If the device was registered for another driver until now, its old row is deleted. The old row's waiting
        // notifications and settings therefore do not reach the new driver.
        if let owner, owner != driver {
            try db.execute(sql: "DELETE FROM device WHERE push_token = ?", arguments: [device.pushToken])
        }
        try write(device, driver: driver, session: session?.id, at: origin.at, db)
        if let push = device.push { try write(push, of: device.pushToken, db) }
        guard owner != driver else { return .replaced }
        try AuditRows.add(.deviceAdded, .done, driver: driver, sid: caller.signInSession, from: origin, db)
        if let owner {
            try AuditRows.add(.deviceRemoved, .done, reason: "moved", ofAnother: owner, at: origin.at, db)
        }
        return .added
    }

    private static func write(
        _ device: Device, driver: Int64, session: Int64?, at now: Moment, _ db: any SQLTransaction
    ) throws {
        try db.execute(
            sql: """
                INSERT INTO device (push_token, driver, session, platform, environment, app_version, updated_at_ms)
                VALUES (?, ?, ?, ?, ?, ?, ?)
                ON CONFLICT (push_token) DO UPDATE SET driver = excluded.driver, session = excluded.session,
                    platform = excluded.platform, environment = excluded.environment,
                    app_version = excluded.app_version, updated_at_ms = excluded.updated_at_ms
                """,
            arguments: [
                device.pushToken, driver, session, device.platform, device.environment, device.appVersion, now,
            ])
        // This device counts as the newest, whatever its time: if the clock was set back, other devices may have later
        // times.
        try db.execute(
            sql: """
                DELETE FROM device WHERE id IN (
                    SELECT id FROM device WHERE driver = ?
                    ORDER BY (push_token = ?) DESC, updated_at_ms DESC, id DESC
                    LIMIT 9223372036854775807 OFFSET ?)
                """,
            arguments: [driver, device.pushToken, AccountRules.devicesPerDriverMax])
    }

    private static func write(_ push: PushSettings, of pushToken: String, _ db: any SQLTransaction) throws {
        let notifications = push.notifications == NotificationPreferences() ? nil : push.notifications.json
        try db.execute(
            sql: "UPDATE device SET locale = ?, notifications = ?, live_activity_token = ? WHERE push_token = ?",
            arguments: [push.locale, notifications, push.liveActivityToken, pushToken])
    }

    static func remove(
        _ pushToken: String, of caller: Caller, from origin: RequestOrigin, _ db: any SQLTransaction
    ) throws {
        guard let driver = try DriverRows.row(of: caller.driver, db) else { return }
        let removed = try db.execute(
            sql: "DELETE FROM device WHERE push_token = ? AND driver = ?", arguments: [pushToken, driver])
        guard removed > 0 else { return }
        try AuditRows.add(.deviceRemoved, .done, driver: driver, sid: caller.signInSession, from: origin, db)
    }

    /// Removes a device whose push token was rejected by the push service as unregistered. Keeps the device if it
    /// registered again at `moment` or later.
    package static func removeUnregistered(
        _ device: Int64, registeredBefore moment: Moment, at now: Moment, _ db: any SQLTransaction
    ) throws {
        let driver = try Int64.fetchOne(
            db, sql: "DELETE FROM device WHERE id = ? AND updated_at_ms < ? RETURNING driver",
            arguments: [device, moment.millisecondsSinceEpoch])
        guard let driver else { return }
        try AuditRows.add(.deviceRemoved, .done, reason: "unregistered", ofAnother: driver, at: now, db)
    }
}
