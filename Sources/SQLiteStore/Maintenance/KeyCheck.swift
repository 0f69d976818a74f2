// Checks that no two events of a driver have the same idempotency key, and that the writer finds each event by its key.
// `dwell check` runs this check.
//
// Searches for each key as the writer does: in `event_key`, or in memory if `event_key` does not list the event. Only
// the newest events are not listed, so the check needs little memory.

import GRDB

struct KeyCheck {
    private let keys: EventKeyTable
    private let sql: String
    /// The number of the event that was examined last.
    private var last: Int64 = 0
    /// The examined events that `event_key` need not list yet.
    private var unlisted = PlacedEvents()

    /// Returns nil for a database of an old release, which has an index by key instead of the table `event_key`.
    init?(_ db: Database) throws {
        guard try db.tableExists("event_key") else { return nil }
        keys = try EventKeyTable(db)
        // Before migration 29, the column `moved_place` was missing, and an interrupted move began again. An unfinished
        // move in such a database does not show which of its events are already listed.
        let hasMovedPlace =
            try db.tableExists("event_key_progress")
            && db.columns(in: "event_key_progress").contains { $0.name == "moved_place" }
        let movedPlace = "(SELECT moved_place FROM event_key_progress WHERE event_row.id <= moving_through)"
        sql = """
            SELECT id, driver, coalesce(\(try EventReferences.isListedSQL(db)("id")), FALSE),
                coalesce(\(hasMovedPlace ? movedPlace : "NULL"), 0)
            FROM event_row WHERE id > ? ORDER BY id LIMIT ?
            """
    }

    /// Examines the next `limit` events, and appends a sentence for each problem. Returns false if no event was left.
    mutating func examine(limit: Int, _ problems: inout [String], _ db: Database) throws -> Bool {
        let rows = try Row.fetchAll(try db.cachedStatement(sql: sql), arguments: [last, limit])
        for row in rows { try examine(row[0], of: row[1], isListed: row[2], movedPlace: row[3], &problems) }
        if let end = rows.last { last = end[0] }
        return !rows.isEmpty
    }

    /// Examines one event. The event must be listed if `isListed` is true, or if its key belongs at a place of
    /// `event_key` below `movedPlace`.
    ///
    /// - Parameter movedPlace: the place that the move of keys has reached (`KeyMove.Progress.movedPlace`). The move
    ///   has already written the keys that belong at lower places. If the event is newer than all events of the move,
    ///   `movedPlace` is 0.
    private mutating func examine(
        _ event: Int64, of driver: Int64, isListed: Bool, movedPlace: Int64, _ problems: inout [String]
    ) throws {
        guard let search = try keys.search(forKeyOf: event) else { return }
        let mustBeListed = isListed || search.beginning < movedPlace
        if mustBeListed, search.place == nil {
            problems.append("driver \(driver), event \(event): is not found by its idempotency key")
        }
        for other in search.others + unlisted.events(at: search.beginning)
        where try other != event && keys.haveSameKey(event, other) {
            let events = "events \(min(event, other)) and \(max(event, other))"
            let problem = "driver \(driver), \(events): have the same idempotency key"
            if !problems.contains(problem) { problems.append(problem) }
        }
        if !mustBeListed { unlisted.add(PlacedEvents.Entry(place: search.beginning, event: event)) }
    }
}
