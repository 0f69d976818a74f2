// SQLite through GRDB, with one transaction per event. The event is on disk before the response.

import Foundation
import GRDB

struct Store: Sendable {
    private let database: DatabasePool

    init(path: String) throws {
        database = try DatabasePool(path: path)
        try database.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE IF NOT EXISTS driver (driver_id TEXT PRIMARY KEY, state TEXT NOT NULL) WITHOUT ROWID;
                    CREATE TABLE IF NOT EXISTS event (
                        id INTEGER PRIMARY KEY,
                        driver_id TEXT NOT NULL,
                        event_id TEXT NOT NULL,
                        name TEXT NOT NULL,
                        session_id TEXT,
                        charger_id TEXT,
                        source TEXT,
                        app_state TEXT,
                        occurred_at_ms INTEGER NOT NULL,
                        received_at_ms INTEGER NOT NULL,
                        body TEXT NOT NULL,
                        transition TEXT NOT NULL,
                        UNIQUE (driver_id, event_id)
                    );
                    """)
        }
        // GRDB opens a pool in WAL mode with synchronous = NORMAL.
        try database.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA synchronous = FULL")
            guard try Int.fetchOne(db, sql: "PRAGMA synchronous") == 2 else { throw NotDurable() }
        }
    }

    struct NotDurable: Error {}

    /// Returns nil if another event is already stored under the event's id.
    func append(_ event: Event, of driver: String) async throws -> Answer? {
        let now = Int64(Date().timeIntervalSince1970 * 1000)
        return try await database.write { db in
            let state = try state(of: driver, db) ?? "IDLE"
            let next = Journey.next(state, event.name, hasSession: event.sessionID != nil)
            let transition = next == nil ? (Self.moves(event.name) ? "rejected" : "none") : "applied"
            let insert = try db.cachedStatement(
                sql: """
                    INSERT INTO event (driver_id, event_id, name, session_id, charger_id, source, app_state,
                        occurred_at_ms, received_at_ms, body, transition)
                    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (driver_id, event_id) DO NOTHING
                    """)
            try insert.execute(arguments: [
                driver, event.eventID, event.name, event.sessionID, event.chargerID, event.source, event.appState,
                event.occurredAtMilliseconds, now, event.body, transition,
            ])
            guard db.changesCount == 1 else { return try repeated(event, of: driver, state: state, db) }
            if let next {
                try db.cachedStatement(
                    sql: """
                        INSERT INTO driver (driver_id, state) VALUES (?, ?)
                        ON CONFLICT (driver_id) DO UPDATE SET state = excluded.state
                        """
                ).execute(arguments: [driver, next])
            }
            return Answer(
                status: "ok", eventID: event.eventID, session: .init(state: next ?? state, transition: transition))
        }
    }

    private func state(of driver: String, _ db: Database) throws -> String? {
        try String.fetchOne(
            db.cachedStatement(sql: "SELECT state FROM driver WHERE driver_id = ?"), arguments: [driver])
    }

    private func repeated(_ event: Event, of driver: String, state: String, _ db: Database) throws -> Answer? {
        let statement = try db.cachedStatement(
            sql: "SELECT name, occurred_at_ms, transition FROM event WHERE driver_id = ? AND event_id = ?")
        guard let row = try Row.fetchOne(statement, arguments: [driver, event.eventID]),
            row["name"] == event.name, row["occurred_at_ms"] == event.occurredAtMilliseconds
        else { return nil }
        return Answer(
            status: "already_processed", eventID: event.eventID,
            session: .init(state: state, transition: row["transition"]))
    }

    private static func moves(_ name: String) -> Bool {
        !["chargerTargeted", "activationRejected", "sessionRestored"].contains(name) && !name.contains("_")
    }
}
