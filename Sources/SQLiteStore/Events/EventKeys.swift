// Which event has an idempotency key: the newest events in memory (NewestKeys), all others in the table `event_key`.
// An event is added to memory, in the transaction that stores it.
//
// Not Sendable: used only on the writer's queue.

final class EventKeys {
    private let table: EventKeyTable
    private let newest: NewestKeys
    private let moving: KeyMove
    private let findNumbers: PreparedStatement
    private let findUnlisted: PreparedStatement
    /// The value of `event_key_progress.listed_through` after which all events are in memory; nil before the first use.
    private var listedThrough: Int64?
    /// The highest number of an event when the last transaction was committed.
    private var committedNumber: Int64 = 0
    /// Whether memory has all events that `event_key` lacks, and no event of a transaction that was rolled back.
    private var isCurrent = false
    /// The key that was looked up last and not found. A key is looked up right before its event is added.
    private var lastNew: (driver: Int64, key: StoredKey, place: Int64)?

    init(on connection: OpaquePointer, newest: NewestKeys) throws(SQLiteError) {
        self.newest = newest
        table = try EventKeyTable(on: connection)
        moving = try KeyMove(table, newest, on: connection)
        findNumbers = try PreparedStatement(
            """
            SELECT listed_through, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'event_row'), 0)
            FROM event_key_progress WHERE id = 1
            """, on: connection)
        findUnlisted = try PreparedStatement(
            """
            SELECT id, driver, key FROM event_row
            WHERE id > ?1 AND NOT EXISTS (SELECT 1 FROM event_key_early WHERE number = event_row.id) ORDER BY id
            """, on: connection)
    }

    /// Calls `read` with the row number of each event that may have the key, until `read` returns a value. `read` must
    /// compare the driver and the key. Returns nil if `read` returned no value.
    func first<Value>(
        _ key: StoredKey, of driver: Int64, _ read: (Int64) throws(SQLiteError) -> Value?
    ) throws(SQLiteError) -> Value? {
        try bringUpToDate()
        let place = table.hash.place(of: key, of: driver)
        lastNew = nil
        for event in newest.events(at: place) {
            if let value = try read(event) { return value }
        }
        if let value = try table.first(from: place, read) { return value }
        lastNew = (driver, key, place)
        return nil
    }

    /// Returns the row number of the next event. It is higher than every number that was given before, also to events that
    /// are deleted. Must be called before the event's row is written, because it may read the rows that memory lacks.
    func nextNumber() throws(SQLiteError) -> Int64 {
        try bringUpToDate()
        return newest.lastNumber + 1
    }

    /// Adds the event that got its number from `nextNumber`. Throws `.twoEventsWithOneKey` if the driver has another event
    /// with the key.
    func add(_ event: Int64, under key: StoredKey, of driver: Int64) throws(SQLiteError) {
        let place: Int64
        if let lastNew, lastNew.driver == driver, lastNew.key == key {
            place = lastNew.place
        } else {
            place = table.hash.place(of: key, of: driver)
            let isStored = { (other: Int64) throws(SQLiteError) -> Bool? in
                try self.table.isKey(key, of: other, of: driver) ? true : nil
            }
            for other in newest.events(at: place) where try isStored(other) == true { throw .twoEventsWithOneKey }
            if try table.first(from: place, isStored) == true { throw .twoEventsWithOneKey }
        }
        lastNew = nil
        newest.add(event, at: place)
    }

    // MARK: Transactions

    /// Must be called after the rollback of a savepoint, and when other code or another connection may have changed
    /// events.
    func forget() {
        isCurrent = false
        lastNew = nil
        moving.rollBack()
    }

    /// Must be called after the rollback of a transaction. Another process may store events with the same numbers next.
    func noteRollback() {
        forget()
        newest.remove(after: committedNumber)
    }

    /// Must be called before COMMIT. Moves keys to `event_key` while a move is in progress.
    func finishTransaction() throws(SQLiteError) {
        guard isCurrent else { return }
        try moving.writePiece()
    }

    /// Must be called after COMMIT.
    func noteCommit() {
        guard isCurrent else { return }
        committedNumber = newest.lastNumber
        if let end = moving.noteCommit() { listedThrough = end }
    }

    /// Fills memory after a start. Must be called in a transaction.
    func bringUpToDate() throws(SQLiteError) {
        if isCurrent { return }
        let found = try findNumbers.first(
            { _ throws(SQLiteError) in }, read: { row in (row.integer(0), row.integer(1)) })
        guard let (through, number) = found else { throw SQLiteError.unreadable("event_key_progress") }
        if through == listedThrough {
            // After the rollback of a savepoint.
            newest.remove(after: number)
        } else {
            // The start, or another process has moved keys.
            newest.removeAll()
            moving.forget()
            listedThrough = through
            committedNumber = through
        }
        let lastNumber = max(newest.lastNumber, through)
        if lastNumber < number {
            try findUnlisted.forEach { (bindings) throws(SQLiteError) in
                try bindings.set(1, lastNumber)
            } visit: { (row) throws(SQLiteError) in
                let driver = row.integer(1)
                let place = row.withBytes(2) { table.hash.place(of: $0, of: driver) }
                newest.add(row.integer(0), at: place)
                return true
            }
        }
        newest.noteFilled(through: number)
        isCurrent = true
    }
}
