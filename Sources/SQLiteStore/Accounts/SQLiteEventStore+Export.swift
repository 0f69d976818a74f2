// `EventExport` on SQLite: the sessions and events in a driver's export.

package import Engine
import GRDB
package import JourneyModel
package import SharedTables

extension SQLiteEventStore: EventExport {
    package func readEvents<Value: Sendable>(
        of driver: DriverID, _ value: @escaping @Sendable (any SQLTransaction) throws -> Value
    ) async throws(StoreFailure) -> Value {
        try await readOutsideRefold(of: driver) { db in try value(SQLiteTransaction(db)) }
    }

    package func exportedJourney(of driver: DriverID, _ db: any SQLTransaction) throws -> Journey {
        try StoredChanges.storedHead(of: driver, Database.of(db))?.journey ?? Journey()
    }

    package var exportedSessions: ExportList {
        Self.list(
            "sessions", keys: Self.sessionKeys,
            columns: [
                ("session_id", "session_id"), ("opened_at_ms", "opened_at_ms"),
                ("registered_at_ms", "registered_at_ms"),
                (
                    "charger_id",
                    "coalesce(registered_charger, (SELECT place_id FROM place WHERE place.id = charger))"
                ),
                (
                    "merchant_id",
                    "coalesce(registered_merchant, (SELECT place_id FROM place WHERE place.id = merchant))"
                ),
            ],
            from: "session WHERE id = ?1 AND driver = ?2",
            more: { session, now, json, db in
                let journey = try StoredSessions.journey(in: session, db)?.advanced(to: now)
                json.member("state", journey?.state.rawValue)
                json.member("ended_by", journey?.endedBy?.rawValue)
            })
    }

    package var exportedEvents: ExportList {
        Self.list(
            "events", keys: Self.eventKeys,
            columns: [
                ("event_id", "coalesce(event_id, idempotency_key)"), ("idempotency_key", "idempotency_key"),
                ("event", "name"), ("spelling", "spelling"), ("schema_version", "schema_version"),
            ] + SentMemberColumns.all + [
                ("session_id", "(SELECT session_id FROM session WHERE session.id = event.session)"),
                ("occurred_at", "occurred_at"), ("corrected_at_ms", "corrected_at_ms"), ("sent_at_ms", "sent_at_ms"),
                ("timestamp_ms", "timestamp_ms"), ("received_at_ms", "received_at_ms"), ("skew_ms", "skew_ms"),
                ("clock_rule", "clock_rule"), ("transition", "transition"), ("reason", "reason"),
                ("implied", "implied"), ("state", "after_state"), ("ended_by", "after_ended_by"),
                (
                    "settings_version",
                    "(SELECT version FROM settings_version WHERE settings_version.id = event.settings_version)"
                ),
                ("metadata", "metadata"),
            ],
            from: "event CROSS JOIN event_kind ON event_kind.id = event.kind WHERE event.id = ?1 AND driver = ?2")
    }

    /// Returns at most `limit` row numbers of the driver's rows, in the order of the export. The list begins after the
    /// row `last`, or with the first row if `last` is nil.
    private typealias Keys =
        @Sendable (_ driver: Int64, _ last: Int64?, _ limit: Int, _ db: Database) throws -> [Int64]

    private static let sessionKeys: Keys = { driver, last, limit, db in
        // The unary plus makes SQLite use the index by driver. Otherwise SQLite would scan the rows of all drivers, to
        // avoid sorting.
        try Int64.fetchAll(
            db, sql: "SELECT id FROM session WHERE driver = ? AND +id > ? ORDER BY +id LIMIT ?",
            arguments: [driver, last ?? 0, limit])
    }

    /// Returns events in the order of the driver's chain (EventChain.swift). The walk through the chain begins at the
    /// event `last`, without reading earlier events. If retention has deleted this event, the walk begins at the
    /// driver's floor. All events from the floor on come after the deleted event.
    private static let eventKeys: Keys = { driver, last, limit, db in
        let chain = try EventChain(db)
        let place = try last.flatMap { try chain.link($0)?.place }
        var begin = place?.time
        if begin == nil, last != nil {
            begin = try Int64.fetchOne(db, sql: "SELECT floor_at_ms FROM driver WHERE id = ?", arguments: [driver])
        }
        var walk = try ChainWalk(
            chain, from: DriverEvents.end(of: driver, db).last, .forward, times: (begin ?? .min)...Int64.max)
        var keys: [Int64] = []
        while keys.count < limit, let link = try walk.next() {
            if let place, link.place <= place { continue }
            keys.append(link.id)
        }
        return keys
    }

    /// Returns an export list whose rows come from a query. `ExportColumn` derives the JSON member from a column's
    /// name. `source` is the query's part after FROM, and must select the row with number ?1 of the driver ?2.
    ///
    /// `more` gets the row's number as its first argument, and writes further members of the row.
    private static func list(
        _ name: String, keys: @escaping Keys, columns: [(name: String, sql: String)], from source: String,
        more: (@Sendable (Int64, Moment, inout JSONWriter, Database) throws -> Void)? = nil
    ) -> ExportList {
        let sql = "SELECT \(columns.map(\.sql).joined(separator: ", ")) FROM \(source)"
        let members = columns.map { ExportColumn($0.name) }
        return ExportList(name: name) { driver, last, limit, db in
            try keys(driver, last.flatMap(Int64.init), limit, Database.of(db)).map(SQLValue.integer)
        } write: { keys, driver, now, bytesMin, json, db in
            let db = try Database.of(db)
            // GRDB's Row would build a dictionary of the column names for each row.
            let statement = try PreparedStatement(sql, on: db.openConnection)
            for (index, key) in zip(keys.indices, keys) {
                guard let number = Int64(key) else { continue }
                let values = try statement.first { (bindings) throws(SQLiteError) in
                    try bindings.set(1, number)
                    try bindings.set(2, driver)
                } read: { row in
                    (0..<row.count).map { row.value($0) }
                }
                guard let values else { continue }
                json.beginObject()
                json.members(members, values)
                try more?(number, now, &json, db)
                json.endObject()
                if json.bytes.count >= bytesMin { return index - keys.startIndex + 1 }
            }
            return keys.count
        }
    }
}
