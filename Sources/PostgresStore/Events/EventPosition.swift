// The place of an event among the events of all drivers (`event.position`). A reader that follows the positions never
// skips a committed event, although several instances commit at the same time, in any order.
//
// A position consists of the number of the event's transaction and the event's place in this transaction. PostgreSQL
// gives ascending numbers to transactions, and a snapshot contains the lowest number of an unfinished transaction.
//
// Readers stop at this lowest number: below it, all events are visible, and no new ones can appear. A transaction that
// is left open, in any database of the server, makes the readers wait.
//
// Among a driver's events, a higher number (`event.seq`) means a higher position. A batch first reads the driver's
// version, then gets its transaction number, and writes only if the version is unchanged. All earlier events of the
// driver therefore belong to transactions with lower numbers.
//
// A batch that locks the driver's row gets its transaction number before it waits for the row. During the wait, a
// transaction with a higher number may store events of this driver. Such a batch therefore compares its position with
// that of the driver's last event (`BatchReads.isBehind`).
//
// The position of an event that was transferred from SQLite is its number in SQLite. `raise` makes all later events get
// higher positions.
//
// The alternative, an outbox table, would need a second row for each event, an index on these rows, and deletions. A
// position costs only one integer in a row that is written anyway, and an index that grows at its end.

import Postgres

enum EventPosition {
    /// The number of low bits of a position that contain the event's place in its transaction.
    static let placeBits: Int64 = 16
    /// The highest place of an event in its transaction. In a longer transaction, all further events would share this
    /// place. A batch has far fewer events.
    static let placeMax: Int64 = 1 << placeBits - 1

    /// The position before the first event of this transaction.
    static let ofTransaction = """
        (SELECT pg_current_xact_id()::text::int8 + xact_offset << \(placeBits) FROM event_position)
        """
    /// Runs in the transaction that inserts the events, after the drivers were read. The first column is
    /// `ofTransaction`. If the second column is false, the coordinator of Citus was restarted, and `raiseForServer`
    /// must run before anything is inserted.
    ///
    /// A transaction that changes rows only on workers does not flush the coordinator's WAL. After a crash, the
    /// coordinator may therefore give out such transaction numbers a second time. `raiseForServer` raises `xact_offset`
    /// by more numbers than can be given out twice.
    static let begin = PostgresStatement(
        "event_position_begun",
        "SELECT \(ofTransaction), coalesce(server = \(TransactionNumber.serverSQL), false) FROM event_position")

    /// On Citus, every batch begins by taking the lock `AdvisoryLock.eventPosition` in shared mode. `raiseForServer`
    /// takes it in exclusive mode, and so waits for the batches with the old offset. This is necessary because readers
    /// compute `end` with a single offset.
    ///
    /// A batch takes this lock before it locks drivers. The reverse order could cause a deadlock: batch A has this
    /// lock, and waits for a driver's row. Batch B has locked the row, and waits for this lock behind `raiseForServer`.
    /// `raiseForServer` waits for batch A.
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

    /// The lowest position that an event of an unfinished or later transaction can have.
    static let end = """
        (SELECT pg_snapshot_xmin(pg_current_snapshot())::text::int8 + xact_offset << \(placeBits) FROM event_position)
        """

    /// Returns SQL for the position before which a reader stops.
    ///
    /// - Parameter settled: the parameter with the result of `PostgresEventStore.settledEnd`.
    static func end(settled: String) -> String { "least(\(settled)::int8, \(end))" }

    /// NULL if there is no event.
    static let highest = PostgresStatement("event_position_highest", "SELECT max(position) FROM event")

    /// Returns the query that raises `xact_offset` if the next transaction's position would be too low: below the
    /// position of a stored event or of a feed consumer. Every instance runs the query at its start.
    ///
    /// Positions can be too low after a transfer from SQLite, or after a copy with pg_dump into a server with lower
    /// transaction numbers.
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
