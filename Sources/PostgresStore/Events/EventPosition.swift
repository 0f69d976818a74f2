// The place of an event among the events of all drivers (`event.position`). A reader that follows the positions never
// skips a committed event. This holds although several instances commit at the same time, and a transaction that began
// later may be committed first.
//
// A position consists of the number of the event's transaction and the event's place in this transaction. Transactions
// get ascending numbers, and a snapshot knows the lowest number of an unfinished transaction. Below this number, every
// transaction has ended: its events are visible, and no new ones can appear. Readers therefore stop at this number. So
// they see an event only when all transactions that began earlier have ended, which takes milliseconds. A transaction
// that is left open in any database of the server holds the readers up.
//
// A driver's events ascend in number (`event.seq`) and position together, so the feed returns them in the order of
// `seq`. The reason: a batch stores an event only if the driver still has the version that the batch has read. The
// batch's transaction gets its number after this read, and the transaction that stored the version got its number
// before the read. A batch that locks the driver's row may get its number while it waits for the row, so it compares
// the positions (`BatchReads.isBehind`).
//
// An event that was transferred from SQLite has its number in SQLite as its position. `raise` makes all later positions
// higher.
//
// The alternative, an outbox table, would need a second row for each event, an index on these rows, and deletions. A
// position costs only one integer in a row that is written anyway, and an index that grows at its end.

import Postgres

enum EventPosition {
    /// The number of low bits that count the events of one transaction.
    static let placeBits: Int64 = 16
    /// If a transaction has more events, the last ones share one position. A batch has far fewer events.
    static let placeMax: Int64 = 1 << placeBits - 1

    /// The position before the first event of this transaction.
    static let ofTransaction = """
        (SELECT pg_current_xact_id()::text::int8 + xact_offset << \(placeBits) FROM event_position)
        """
    /// Reads `ofTransaction` in the transaction that is to insert the events, after this transaction has read the
    /// drivers. The second column tells whether the offset was raised since the coordinator's last start. If it was
    /// not, `raiseForServer` must run before anything is inserted on Citus.
    ///
    /// A transaction that changes only rows of one worker flushes nothing to the coordinator's log when it commits.
    /// After a crash, the coordinator may therefore give the transaction's number to another transaction. So the offset
    /// is raised by more than the count of numbers that can be lost.
    static let begin = PostgresStatement(
        "event_position_begun",
        "SELECT \(ofTransaction), coalesce(server = \(TransactionNumber.serverSQL), false) FROM event_position")

    /// On Citus, a transaction begins by taking this lock in shared mode. `raiseForServer` thereby waits for the
    /// transactions that use the old offset, because readers know only one offset. The lock is taken before the locks
    /// of drivers, to avoid a deadlock: a transaction with a driver's lock could wait for the raise, and the raise for
    /// a transaction that waits for the driver.
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

    /// Returns the query that raises the offset of transaction numbers if a stored position is above the next one of
    /// this server. This happens after the database was copied with pg_dump into a server with lower transaction
    /// numbers, or transferred from SQLite. Every instance runs the query at its start.
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
