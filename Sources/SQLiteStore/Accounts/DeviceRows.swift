// Devices and their push tokens. A push token identifies one device and is stored only once, for the driver who last
// signed in on that phone.

import GRDB
import Identity
import JourneyModel

enum DeviceRows {
    static func put(
        _ device: Device, of caller: Caller, from origin: RequestOrigin, _ digests: KeyedHashes, _ db: Database
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
        try write(device, driver: driver, session: session?.id, at: origin.at, db)
        guard owner != driver else { return .replaced }
        try AuditRows.add(.deviceAdded, .done, driver: driver, sid: caller.signInSession, from: origin, db)
        if let owner {
            try AuditRows.add(.deviceRemoved, .done, reason: "moved", ofAnother: owner, at: origin.at, db)
        }
        return .added
    }

    private static func write(
        _ device: Device, driver: Int64, session: Int64?, at now: Moment, _ db: Database
    ) throws {
        try db.execute(
            literal: """
                INSERT INTO device (push_token, driver, session, platform, environment, app_version, updated_at_ms)
                VALUES (\(device.pushToken), \(driver), \(session), \(device.platform), \(device.environment),
                    \(device.appVersion), \(now.millisecondsSinceEpoch))
                ON CONFLICT (push_token) DO UPDATE SET driver = excluded.driver, session = excluded.session,
                    platform = excluded.platform, environment = excluded.environment,
                    app_version = excluded.app_version, updated_at_ms = excluded.updated_at_ms
                """)
        try db.execute(
            sql: """
                DELETE FROM device WHERE id IN (
                    SELECT id FROM device WHERE driver = ? ORDER BY updated_at_ms DESC, id DESC LIMIT -1 OFFSET ?)
                """,
            arguments: [driver, AccountRules.devicesPerDriverMax])
    }

    static func remove(_ pushToken: String, of caller: Caller, from origin: RequestOrigin, _ db: Database) throws {
        guard let driver = try DriverRows.row(of: caller.driver, db) else { return }
        try db.execute(
            sql: "DELETE FROM device WHERE push_token = ? AND driver = ?", arguments: [pushToken, driver])
        guard db.changesCount > 0 else { return }
        try AuditRows.add(.deviceRemoved, .done, driver: driver, sid: caller.signInSession, from: origin, db)
    }
}
