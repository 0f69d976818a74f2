// The table of sessions. A session_id belongs only to the driver that first opened or registered it.

import Engine
import JourneyModel

struct SessionRow {
    var id: Int64
    /// Row number in `driver`.
    var driver: Int64
    var isRegistered: Bool
}

final class SessionTable {
    private let find: PreparedStatement
    private let add: PreparedStatement
    private let register: PreparedStatement
    private let forgetUnused: PreparedStatement
    private let findRegisteredCharger: PreparedStatement

    /// The maximum number of unused sessions among a driver's newest `recentMax` sessions. A session is unused if it
    /// was registered but has no event.
    static let unusedMax = 100
    private static let recentMax = 200

    init(on connection: OpaquePointer) throws(SQLiteError) {
        find = try PreparedStatement(
            "SELECT id, driver, registered_at_ms IS NOT NULL FROM session WHERE session_id = ?1", on: connection)
        add = try PreparedStatement(
            "INSERT INTO session (session_id, driver, opened_at_ms) VALUES (?1, ?2, ?3)", on: connection)
        register = try PreparedStatement(
            """
            UPDATE session SET registered_at_ms = ?2, registered_charger = ?3, registered_merchant = ?4 WHERE id = ?1
            """, on: connection)
        findRegisteredCharger = try PreparedStatement(
            "SELECT registered_charger FROM session WHERE id = ?1 AND registered_charger IS NOT NULL", on: connection)
        // Deletes unused sessions, except the newest ?3 and those that the driver's journey or `journey_base` names.
        // The driver's newest session is never deleted, because SQLite might give its row number to a later session.
        forgetUnused = try PreparedStatement(
            """
            DELETE FROM session WHERE id IN (
                SELECT recent.id FROM
                    (SELECT id, registered_at_ms FROM session WHERE driver = ?1 ORDER BY id DESC LIMIT ?2) AS recent
                WHERE recent.registered_at_ms IS NOT NULL
                    AND NOT EXISTS (SELECT 1 FROM event WHERE event.session = recent.id)
                    AND NOT EXISTS (SELECT 1 FROM driver
                        WHERE driver.id = ?1 AND recent.id IN (driver.session, driver.previous_session))
                    AND NOT EXISTS (SELECT 1 FROM journey_base WHERE journey_base.driver = ?1
                        AND recent.id IN (journey_base.session, journey_base.previous_session))
                ORDER BY recent.id DESC LIMIT -1 OFFSET ?3)
            """, on: connection)
    }

    func row(of sessionID: String) throws(SQLiteError) -> SessionRow? {
        try find.first { (bindings) throws(SQLiteError) in
            try bindings.set(1, sessionID)
        } read: { row in
            SessionRow(id: row.integer(0), driver: row.integer(1), isRegistered: row.integer(2) != 0)
        }
    }

    func registeredCharger(of session: Int64) throws(SQLiteError) -> String? {
        try findRegisteredCharger.first { (bindings) throws(SQLiteError) in
            try bindings.set(1, session)
        } read: { row in
            row.text(0)
        }
    }

    func open(_ sessionID: String, of driver: Int64, at now: Moment) throws(SQLiteError) -> Int64 {
        try add.inserted { (bindings) throws(SQLiteError) in
            try bindings.set(1, sessionID)
            try bindings.set(2, driver)
            try bindings.set(3, now.millisecondsSinceEpoch)
        }
    }

    func register(_ session: Int64, at now: Moment, chargerID: String?, merchantID: String?) throws(SQLiteError) {
        try register.run { (bindings) throws(SQLiteError) in
            try bindings.set(1, session)
            try bindings.set(2, now.millisecondsSinceEpoch)
            try bindings.set(3, chargerID)
            try bindings.set(4, merchantID)
        }
    }

    /// Examines the driver's newest `recentMax` sessions. If more than `unusedMax` of them are unused, deletes the
    /// oldest unused ones above this number. The limit protects against a driver who registers sessions without end.
    func forgetUnusedBeyondMax(of driver: Int64) throws(SQLiteError) {
        try forgetUnused.run { (bindings) throws(SQLiteError) in
            try bindings.set(1, driver)
            try bindings.set(2, Int64(Self.recentMax))
            try bindings.set(3, Int64(Self.unusedMax))
        }
    }
}
