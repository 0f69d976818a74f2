// Finds the event with a given idempotency key. The newest events are listed in memory (NewestKeys), all others in the
// table `event_key`. The transaction that stores an event also adds it to memory.
//
// Not Sendable: used only on the queue of its connection.

final class EventKeys {
    private let table: EventKeyTable
    private let newest: NewestKeys
    private let moving: KeyMove
    private let findProgress: PreparedStatement
    private let findUnlisted: PreparedStatement
    /// All events in memory up to this number are committed.
    private var committedNumber: Int64 = 0
    /// If true, memory is correct for the current transaction. It has every visible event that `event_key` does not
    /// list, and no event that was rolled back.
    private var isCurrent = false
    /// The key for which `first` last found no event, with its place in `event_key`. `add` need not search for this key
    /// again.
    private var lastNew: (driver: Int64, key: StoredKey, place: Int64)?

    init(on connection: OpaquePointer, newest: NewestKeys) throws(SQLiteError) {
        self.newest = newest
        table = try EventKeyTable(on: connection)
        moving = try KeyMove(table, newest, on: connection)
        findProgress = try PreparedStatement(
            """
            SELECT listed_through, moving_through, moved_place,
                coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'event_row'), 0)
            FROM event_key_progress WHERE id = 1
            """, on: connection)
        findUnlisted = try PreparedStatement(
            """
            SELECT id, driver, key FROM event_row
            WHERE id > ?1 AND id <= ?2
                AND NOT EXISTS (SELECT 1 FROM event_key_early WHERE number = event_row.id)
            ORDER BY id
            """, on: connection)
    }

    /// Calls `read` with each event that may have the key. `read` must compare the driver and the key. Stops when
    /// `read` returns a value, and returns this value.
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

    /// Returns the row number for the next event. Numbers of deleted events are never used again.
    ///
    /// Must be called before the event's row is written. Otherwise this function could read that row into memory, and
    /// `add` would add the event again.
    func nextNumber() throws(SQLiteError) -> Int64 {
        try bringUpToDate()
        return newest.lastNumber + 1
    }

    /// Adds an event whose number `nextNumber` has returned. Throws `.twoEventsWithOneKey` if the driver already has an
    /// event with the key.
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

    /// Must be called when other code or another connection may have changed events.
    func forget() {
        isCurrent = false
        lastNew = nil
    }

    /// Removes the events of the open transaction from memory.
    ///
    /// Must be called after the rollback of a savepoint. The transaction's remaining events are then read again from
    /// their rows.
    ///
    /// Must be called before the rollback of a transaction. As soon as the transaction is rolled back, another process
    /// may store events with the same numbers.
    func noteRollback() {
        forget()
        moving.noteRollback()
        newest.remove(after: committedNumber)
    }

    /// Must be called before COMMIT. Adds events that memory lacks, so that memory has every event that this process
    /// commits. Then moves keys to `event_key`.
    ///
    /// Does nothing if this process has not used any key yet. A command that stores no events therefore does not read
    /// the rows of the newest events.
    func finishTransaction() throws(SQLiteError) {
        guard newest.lastNumber >= 0 else { return }
        try bringUpToDate()
        try moving.writePiece()
    }

    /// Must be called after COMMIT.
    func noteCommit() {
        guard isCurrent else { return }
        committedNumber = newest.lastNumber
        moving.noteCommit()
    }

    /// Reads the rows of events that memory lacks. Must be called in a transaction.
    func bringUpToDate() throws(SQLiteError) {
        if isCurrent { return }
        let found = try findProgress.first(
            { _ throws(SQLiteError) in },
            read: { row in
                let progress = KeyMove.Progress(
                    listedThrough: row.integer(0), movingThrough: row.integer(1), movedPlace: row.integer(2))
                return (progress: progress, lastNumber: row.integer(3))
            })
        guard let found else { throw SQLiteError.unreadable("event_key_progress") }
        let progress = found.progress
        if progress.listedThrough != moving.progress?.listedThrough {
            // Memory may have events that `event_key` lists by now. Either this process has just started, or another
            // process has completed a move of keys.
            moving.forget()
            newest.removeAll(listedThrough: progress.listedThrough)
            committedNumber = progress.listedThrough
        }
        if progress.isMoving {
            // All events of a move are committed.
            try readRows(through: progress.movingThrough)
            committedNumber = max(committedNumber, progress.movingThrough)
        }
        moving.goOn(from: progress)
        try readRows(through: found.lastNumber)
        isCurrent = true
    }

    private func readRows(through end: Int64) throws(SQLiteError) {
        let last = newest.lastNumber
        guard last < end else { return }
        try findUnlisted.forEach { (bindings) throws(SQLiteError) in
            try bindings.set(1, last)
            try bindings.set(2, end)
        } visit: { (row) throws(SQLiteError) in
            let driver = row.integer(1)
            let place = row.withBytes(2) { table.hash.place(of: $0, of: driver) }
            newest.add(row.integer(0), at: place)
            return true
        }
        newest.noteFilled(through: end)
    }
}
