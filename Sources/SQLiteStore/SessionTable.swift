// Whose a session is. A session_id belongs to the driver that opened or registered it first, and to nobody else.

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

    init(on connection: OpaquePointer) throws(SQLiteError) {
        find = try PreparedStatement(
            "SELECT id, driver, registered_at_ms IS NOT NULL FROM session WHERE session_id = ?1", on: connection)
        add = try PreparedStatement(
            "INSERT INTO session (session_id, driver, opened_at_ms) VALUES (?1, ?2, ?3)", on: connection)
        register = try PreparedStatement(
            "UPDATE session SET registered_at_ms = ?2, charger = ?3, merchant = ?4 WHERE id = ?1", on: connection)
    }

    func row(of sessionID: String) throws(SQLiteError) -> SessionRow? {
        try find.first { (bindings) throws(SQLiteError) in
            try bindings.set(1, sessionID)
        } read: { row in
            SessionRow(id: row.integer(0), driver: row.integer(1), isRegistered: row.integer(2) != 0)
        }
    }

    func open(_ sessionID: String, of driver: Int64, at now: Moment) throws(SQLiteError) -> Int64 {
        try add.inserted { (bindings) throws(SQLiteError) in
            try bindings.set(1, sessionID)
            try bindings.set(2, driver)
            try bindings.set(3, now.millisecondsSinceEpoch)
        }
    }

    func register(_ session: Int64, at now: Moment, charger: Int64?, merchant: Int64?) throws(SQLiteError) {
        try register.run { (bindings) throws(SQLiteError) in
            try bindings.set(1, session)
            try bindings.set(2, now.millisecondsSinceEpoch)
            try bindings.set(3, charger)
            try bindings.set(4, merchant)
        }
    }
}
