// The place of an event among the events of all drivers (`event.position`). A reader that follows the positions never
// skips a committed event. This holds although several instances commit at the same time, and a transaction that began
// later may be committed first.
//
// A position consists of the number of the event's transaction and the event's place in this transaction. PostgreSQL
// gives ascending numbers to transactions, and a snapshot contains the lowest number of an unfinished transaction. All
// transactions below this number have ended, so all their events are visible, and no new ones can appear. Readers
// therefore stop at this number. Readers get an event only when all transactions that began earlier have ended, usually
// after milliseconds. A transaction that is left open, in any database of the server, makes the readers wait.
//
// A driver's events have ascending positions in the order of their numbers (`event.seq`), so the feed returns them in
// this order. The reason: a batch reads the driver's version, then gets its transaction number, and stores events only
// if the version is still the same. So the transaction that wrote this version had ended before the batch got its own,
// higher number. Only a batch that locks the driver's row may get its number too early: it may get the number first,
// and then wait for the row. Such a batch therefore compares its position with that of the driver's last event
// (`BatchReads.isBehind`).
//
// For an event that was transferred from SQLite, the position is the number that the event had in SQLite. `raise` makes
// all later events get higher positions than the transferred ones.
//
// The alternative, an outbox table, would need a second row for each event, an index on these rows, and deletions. A
// position costs only one integer in a row that is written anyway, and an index that grows at its end.

import Postgres

enum EventPosition {
    /// The number of low bits that count the events of one transaction.
    static let placeBits: Int64 = 16
    /// The highest place of an event in its transaction. If a transaction had more events, all further ones would get
    /// this place too. A batch has far fewer events.
    static let placeMax: Int64 = 1 << placeBits - 1

    /// The position before the first event of this transaction.
    static let ofTransaction = """
        (SELECT pg_current_xact_id()::text::int8 + xact_offset << \(placeBits) FROM event_position)
        """
    /// Reads `ofTransaction` in the transaction that is to insert the events, after this transaction has read the
    /// drivers. The second column is false if the coordinator of Citus was restarted since `raiseForServer` ran. Then
    /// `raiseForServer` must run before anything is inserted.
    ///
    /// The reason: a transaction that changes only rows of one worker does not flush the coordinator's WAL when it
    /// commits. So after a crash, the coordinator may use the transaction's number a second time, and positions would
    /// repeat. `raiseForServer` therefore adds more to `xact_offset` than the count of numbers that can be lost.
    static let begin = PostgresStatement(
        "event_position_begun",
        "SELECT \(ofTransaction), coalesce(server = \(TransactionNumber.serverSQL), false) FROM event_position")

    /// On Citus, every batch begins by taking the lock `AdvisoryLock.eventPosition` in shared mode. `raiseForServer`
    /// takes the lock in exclusive mode, and thereby waits for the batches that use the old offset. It must wait for
    /// them, because readers use only one offset. A batch takes this lock before it locks drivers. In the reverse
    /// order, a deadlock would be possible: a batch that has locked a driver would wait for the raise, and the raise
    /// would wait for another batch that waits for this driver.
    static let shareOffset = PostgresStatement(
        "event_position_shared", "SELECT 1 FROM pg_advisory_xact_lock_shared(\(lock))")

    static let raiseForServer = [
        PostgresStatement("event_position_locked", "SELECT 1 FROM pg_advisory_xact_lock(\(lock))"),
        PostgresStatement(
            "event_position_of_server",
            """
            UPDATE event_position SET xact_offset = xact_offset + \(1 << 20), server = \(TransactionNumber.serverSQL)
            WHERE server IS DISTINCT FROM \(TransactionNumber.serverSQL)
            """),
    ]

    private static let lock = AdvisoryLock.eventPosition.rawValue

    /// The lowest position that an event may still get.
    static let end = """
        (SELECT pg_snapshot_xmin(pg_current_snapshot())::text::int8 + xact_offset << \(placeBits) FROM event_position)
        """

    /// Returns SQL for the position before which a reader stops.
    ///
    /// - Parameter settled: the parameter with the result of `PostgresEventStore.settledEnd`.
    static func end(settled: String) -> String { "least(\(settled)::int8, \(end))" }

    /// The highest position that is stored; NULL if there is no event.
    static let highest = PostgresStatement("event_position_highest", "SELECT max(position) FROM event")

    /// Returns the query that raises `xact_offset` if the next transaction would get a lower position than a stored
    /// event, or than the position of a consumer of the feed. This happens after the database was copied with pg_dump
    /// into a server with lower transaction numbers, or was transferred from SQLite. Every instance runs the query at
    /// its start.
    ///
    /// - Parameter highest: the result of the statement `highest`.
    static func raise(above highest: PostgresResult) throws(PostgresError) -> PostgresQuery {
        PostgresQuery(raise, [try highest[0].optionalInt8(0).map(PostgresValue.int8) ?? .null])
    }

    private static let raise = PostgresStatement(
        "event_position_raised",
        """
        WITH highest AS (
            SELECT greatest($1::int8, (SELECT max(last_event) FROM feed_consumer), 0) >> \(placeBits) AS number),
        next AS (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::int8 AS number)
        UPDATE event_position SET xact_offset = highest.number - next.number + 1 FROM highest, next
        WHERE highest.number >= next.number + event_position.xact_offset
        """)
}
