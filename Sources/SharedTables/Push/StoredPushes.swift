// Implements the protocols of the push outbox for both stores. Each store adds only `newestPosition` and `pushChanges`.

package import Engine
package import JourneyModel
package import Push

/// What a store must implement for push notifications: `newestPosition`, and `pushChanges` of `PushStore`. Both read
/// the store's own tables of events.
package protocol PushTables: SQLDatabase, PushStore, PushQueueStatistics {
    /// Returns the position of the newest event; 0 if there is none.
    func newestPosition(_ db: any SQLTransaction) throws -> Int64
}

extension PushTables {
    package func pushPosition(at now: Moment) async throws(StoreFailure) -> Int64 {
        if let stored = try await read({ db in try Self.pushPosition(db) }) { return stored }
        return try await change { db in
            if let stored = try Self.pushPosition(db) { return stored }
            let newest = try newestPosition(db)
            try Self.movePush(to: newest, at: now, db)
            return newest
        }
    }

    package func queue(
        _ entries: [PushEntry], after base: Int64, upTo last: Int64, at now: Moment
    ) async throws(StoreFailure) -> Bool {
        try await change { db in
            guard try Self.pushPosition(db) ?? 0 <= base else { return false }
            for entry in entries { try PushOutboxRows.add(entry, at: now, db) }
            try Self.movePush(to: last, at: now, db)
            return true
        }
    }

    package func takeDuePushes(
        at now: Moment, limit: Int, lease: Moment
    ) async throws(StoreFailure) -> [DuePush] {
        // The search runs outside the transaction that takes the entries. If a device has many entries, the search
        // takes tens of milliseconds. Inside the transaction, it would block SQLite's writer, and events would wait.
        let due = try await read { db in try PushOutboxRows.due(at: now, limit: limit, db) }
        if due.isEmpty { return [] }
        return try await change { db in
            try PushOutboxRows.take(due, at: now, lease: lease, db)
        }
    }

    package func finish(_ results: [PushResult], at now: Moment) async throws(StoreFailure) {
        try await change { db in
            for result in results { try PushOutboxRows.finish(result, at: now, db) }
        }
    }

    package func waitingPushes(at now: Moment) async throws(StoreFailure) -> WaitingPushes {
        try await read { db in
            let row = try SQLRow.fetchOne(
                db, sql: "SELECT count(*), min(due_at_ms) FROM push_outbox WHERE due_at_ms <= ?", arguments: [now])
            guard let row else { return WaitingPushes(count: 0) }
            return try WaitingPushes(count: row[0], oldest: row[1])
        }
    }

    private static func pushPosition(_ db: any SQLTransaction) throws -> Int64? {
        try Int64.fetchOne(
            db, sql: "SELECT last_event FROM feed_consumer WHERE name = ?", arguments: [PushConsumer.consumer])
    }

    private static func movePush(to id: Int64, at now: Moment, _ db: any SQLTransaction) throws {
        try db.execute(
            sql: """
                INSERT INTO feed_consumer (name, last_event, lost_count, moved_at_ms) VALUES (?1, ?2, 0, ?3)
                ON CONFLICT (name) DO UPDATE SET last_event = ?2, moved_at_ms = ?3
                """,
            arguments: [PushConsumer.consumer, id, now])
    }
}
