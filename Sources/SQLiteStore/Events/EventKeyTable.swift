// The table `event_key`, which finds the stored event with a given idempotency key. It is a hash table with open
// addressing. EventKeyHash computes a key's place.
//
// An event is listed at its computed place or, if another event is listed there, at the next free place. No place from
// the computed place to the event is ever free, so a search for the event can end at the first free place.
//
// The table lists every event up to the number `event_key_progress.listed_through`. The writer keeps the keys of newer
// events in memory until it moves them here (KeyMove.swift).
//
// Before this move, other code may delete a newer event or change its key. `remove` and `add` then note the event's
// number in `event_key_early`, and the move skips the event.
//
// Not Sendable: used only on the queue of its connection.

import GRDB
import GRDBSQLite

final class EventKeyTable {
    let hash: EventKeyHash
    private let findEvent: PreparedStatement
    private let isKeyOfEvent: PreparedStatement
    private let findKeyOfEvent: PreparedStatement
    private let addAt: PreparedStatement
    private let move: PreparedStatement
    private let remove: PreparedStatement
    private let connection: OpaquePointer
    /// `noteEarly` and `addLater` are prepared at their first use, because databases from before migration 27 lack the
    /// tables that they use.
    private var noteEarly: PreparedStatement?
    private var addLater: PreparedStatement?
    /// Prepared at its first use, because only `dwell check` uses it.
    private var compareKeys: PreparedStatement?

    init(on connection: OpaquePointer) throws(SQLiteError) {
        self.connection = connection
        hash = try EventKeyHash(on: connection)
        // Migration 27 renamed the column `event` to `number`. `dwell check` also reads older databases.
        let isRenamed = try PreparedStatement(
            "SELECT 1 FROM pragma_table_info('event_key') WHERE name = 'number'", on: connection
        ).first({ _ throws(SQLiteError) in }, read: { _ in true })
        let number = isRenamed == true ? "number" : "event"
        findEvent = try PreparedStatement("SELECT \(number) FROM event_key WHERE place = ?1", on: connection)
        isKeyOfEvent = try PreparedStatement(
            "SELECT 1 FROM event_row WHERE id = ?1 AND driver = ?2 AND key = ?3", on: connection)
        findKeyOfEvent = try PreparedStatement("SELECT driver, key FROM event_row WHERE id = ?1", on: connection)
        addAt = try PreparedStatement(
            "INSERT INTO event_key (place, \(number)) VALUES (?1, ?2) ON CONFLICT DO NOTHING", on: connection)
        move = try PreparedStatement("UPDATE event_key SET place = ?2 WHERE place = ?1", on: connection)
        remove = try PreparedStatement("DELETE FROM event_key WHERE place = ?1", on: connection)
    }

    /// Creates an `EventKeyTable` on the connection of a GRDB read or write that is in progress. The database must have
    /// the table `event_key`.
    convenience init(_ db: Database) throws {
        try self.init(on: db.openConnection)
    }

    /// Calls `read` with the event at `place` and at each following place, up to the first free place. Stops when
    /// `read` returns a value, and returns this value.
    func first<Value>(
        from place: Int64, _ read: (Int64) throws(SQLiteError) -> Value?
    ) throws(SQLiteError) -> Value? {
        var place = place
        while let event = try event(at: place) {
            if let value = try read(event) { return value }
            place += 1
        }
        return nil
    }

    /// Lists an event. Throws `.twoEventsWithOneKey` if the table already lists another event of the driver with this
    /// key.
    func add(_ event: Int64, under key: StoredKey, of driver: Int64) throws(SQLiteError) {
        var place = hash.place(of: key, of: driver)
        while try !add(event, at: place) {
            if let other = try self.event(at: place), try isKey(key, of: other, of: driver) {
                throw SQLiteError.twoEventsWithOneKey
            }
            place += 1
        }
        try noteEarly(event)
    }

    /// Lists an event whose key the writer kept in memory. Does nothing if the event is already listed. Also does
    /// nothing if `event_key_early` has the event, because other code has changed or deleted it.
    func addLater(_ entry: PlacedEvents.Entry) throws(SQLiteError) {
        let addLater = try prepared(
            \.addLater,
            """
            INSERT INTO event_key (place, number)
            SELECT ?1, ?2 WHERE NOT EXISTS (SELECT 1 FROM event_key_early WHERE number = ?2) ON CONFLICT DO NOTHING
            """)
        var place = entry.place
        while true {
            let isAdded = try addLater.changes { (bindings) throws(SQLiteError) in
                try bindings.set(1, place)
                try bindings.set(2, entry.event)
            }
            if isAdded { return }
            guard let other = try event(at: place), other != entry.event else { return }
            place += 1
        }
    }

    /// Removes an event from the table, or notes that the writer must not list it later. Must be called before the
    /// event's row is deleted or gets another key.
    func remove(_ event: Int64) throws(SQLiteError) {
        try noteEarly(event)
        guard var gap = try place(ofListed: event) else { return }
        try remove.run { (bindings) throws(SQLiteError) in try bindings.set(1, gap) }
        // A search stops at a gap. If the search for a following event begins at or before the gap, it would miss the
        // event. Such an event is moved into the gap, and its old place becomes the new gap.
        var place = gap + 1
        while let next = try self.event(at: place) {
            if let beginning = try beginning(of: next), beginning <= gap {
                try move.run { (bindings) throws(SQLiteError) in
                    try bindings.set(1, place)
                    try bindings.set(2, gap)
                }
                gap = place
            }
            place += 1
        }
    }

    /// Returns the place at which the hash table lists the event; nil if a search for the event's key does not find it.
    func place(ofListed event: Int64) throws(SQLiteError) -> Int64? { try search(forKeyOf: event)?.place }

    /// A search for the key of a stored event.
    struct Search {
        /// The place at which the search begins.
        var beginning: Int64
        /// The place at which the search finds the event; nil if the search does not find the event.
        var place: Int64?
        /// The other events that the search passes.
        var others: [Int64] = []
    }

    /// Returns nil if the event does not exist.
    func search(forKeyOf event: Int64) throws(SQLiteError) -> Search? {
        guard var place = try beginning(of: event) else { return nil }
        var search = Search(beginning: place)
        while let found = try self.event(at: place) {
            if found == event {
                search.place = place
                break
            }
            search.others.append(found)
            place += 1
        }
        return search
    }

    func haveSameKey(_ one: Int64, _ other: Int64) throws(SQLiteError) -> Bool {
        let compareKeys = try prepared(
            \.compareKeys,
            """
            SELECT 1 FROM event_row AS one
            JOIN event_row AS other ON other.id = ?2 AND other.driver = one.driver AND other.key = one.key
            WHERE one.id = ?1
            """)
        let found: Bool? = try compareKeys.first { (bindings) throws(SQLiteError) in
            try bindings.set(1, one)
            try bindings.set(2, other)
        } read: { _ in
            true
        }
        return found ?? false
    }

    /// Returns the computed place of the event's key; nil if the event does not exist.
    private func beginning(of event: Int64) throws(SQLiteError) -> Int64? {
        try findKeyOfEvent.first { (bindings) throws(SQLiteError) in
            try bindings.set(1, event)
        } read: { row in
            let driver = row.integer(0)
            return row.withBytes(1) { hash.place(of: $0, of: driver) }
        }
    }

    private func event(at place: Int64) throws(SQLiteError) -> Int64? {
        try findEvent.first { (bindings) throws(SQLiteError) in
            try bindings.set(1, place)
        } read: { row in
            row.integer(0)
        }
    }

    func isKey(_ key: StoredKey, of event: Int64, of driver: Int64) throws(SQLiteError) -> Bool {
        let found: Bool? = try isKeyOfEvent.first { (bindings) throws(SQLiteError) in
            try bindings.set(1, event)
            try bindings.set(2, driver)
            try key.bind(to: bindings, at: 3)
        } read: { _ in
            true
        }
        return found ?? false
    }

    private func noteEarly(_ event: Int64) throws(SQLiteError) {
        let noteEarly = try prepared(
            \.noteEarly,
            """
            INSERT INTO event_key_early (number)
            SELECT ?1 WHERE ?1 > (SELECT listed_through FROM event_key_progress WHERE id = 1) ON CONFLICT DO NOTHING
            """)
        try noteEarly.run { (bindings) throws(SQLiteError) in try bindings.set(1, event) }
    }

    private func prepared(
        _ statement: ReferenceWritableKeyPath<EventKeyTable, PreparedStatement?>, _ sql: String
    ) throws(SQLiteError) -> PreparedStatement {
        if let statement = self[keyPath: statement] { return statement }
        let new = try PreparedStatement(sql, on: connection)
        self[keyPath: statement] = new
        return new
    }

    private func add(_ event: Int64, at place: Int64) throws(SQLiteError) -> Bool {
        try addAt.changes { (bindings) throws(SQLiteError) in
            try bindings.set(1, place)
            try bindings.set(2, event)
        }
    }
}

extension SQLiteError {
    /// Has the same code as the error of a unique index, SQLITE_CONSTRAINT_UNIQUE.
    static let twoEventsWithOneKey = SQLiteError(
        extendedCode: SQLITE_CONSTRAINT | (8 << 8), message: "two events of a driver with one key")
}

extension EventKeyTable {
    /// A WITH clause that defines `listed (place, event)`: the events listed from the place ?1 up to the next free
    /// place. For queries on read connections.
    static let listedSQL = """
        WITH RECURSIVE listed (place, event) AS (
            SELECT place, number FROM event_key WHERE place = ?1
            UNION ALL
            SELECT next.place, next.number FROM listed JOIN event_key AS next ON next.place = listed.place + 1)
        """
}
