// `EventFeed` on PostgreSQL. There is no outbox table: the feed reads the rows of events in the order of their
// positions (Events/EventPosition.swift).

package import Engine
package import JourneyModel
import Postgres

extension PostgresEventStore: EventFeed {
    package var hasConsecutiveIDs: Bool { false }

    /// The count of the events that a consumer has not read stops at this number.
    static let waitingCountMax: Int64 = 100_000

    package func storedEvents(after id: Int64, limit: Int) async throws(StoreFailure) -> [FeedEvent] {
        let end = try await settledEnd()
        let found = try await read([PostgresQuery(FeedStatements.events, [.int8(id), .int8(Int64(limit)), .int8(end)])])
        return try decoded { () throws(PostgresError) in
            var events: [FeedEvent] = []
            for row in found[0].rows {
                // While a driver's deletion is unfinished, the driver's events may still identify the person. The feed
                // stops before such an event until the deletion is complete.
                if try row.bool(2) { break }
                events.append(try Self.feedEvent(row))
            }
            return events
        }
    }

    package func position(of consumer: String) async throws(StoreFailure) -> FeedPosition {
        let end = try await settledEnd()
        let found = try await read([
            PostgresQuery(FeedStatements.position, [.text(consumer)]), PostgresQuery(FeedStatements.oldest),
            PostgresQuery(FeedStatements.newest, [.int8(end)]),
        ])
        let (last, lostCount, newest) = try decoded { () throws(PostgresError) in
            // A new consumer begins before the oldest stored event. Events that were deleted before the consumer began
            // do not count as lost.
            let beforeFirst = try found[1][0].optionalInt8(0).map { $0 - 1 }
            return (
                try found[0][0].optionalInt8(0) ?? beforeFirst ?? 0, try found[0][0].int8(1),
                try found[2][0].optionalInt8(0) ?? 0
            )
        }
        let waiting = try await read([
            PostgresQuery(FeedStatements.waiting, [.int8(last), .int8(Self.waitingCountMax), .int8(end)])
        ])
        return try decoded { () throws(PostgresError) in
            FeedPosition(last: last, newest: newest, lostCount: lostCount, waitingCount: try waiting[0][0].int8(0))
        }
    }

    package func move(
        _ consumer: String, to id: Int64, losing lostCount: Int64, at now: Moment
    ) async throws(StoreFailure) {
        let parameters: [PostgresValue] = [
            .text(consumer), .int8(id), .int8(lostCount), .int8(now.millisecondsSinceEpoch),
        ]
        try await inTransaction { (connection, deadline) async throws(PostgresError) in
            _ = try await connection.run([PostgresQuery(FeedStatements.move, parameters)], until: deadline)
        }
    }

    /// Returns the receive time of the first event after position `id`; nil if there is no such event.
    package func receivedAt(ofFirstEventAfter id: Int64) async throws(StoreFailure) -> Moment? {
        let end = try await settledEnd()
        let found = try await read([PostgresQuery(FeedStatements.firstReceipt, [.int8(id), .int8(end)])])
        return try decoded { () throws(PostgresError) in
            try found[0].rows.first.map { (row) throws(PostgresError) in try row.moment(0) }
        }
    }

    private static func feedEvent(_ row: PostgresRow) throws(PostgresError) -> FeedEvent {
        FeedEvent(
            id: try row.int8(0), driver: DriverID(try row.text(1)), eventID: try row.text(3),
            name: try name(row, 4), sessionID: try row.optionalText(6), sent: try SentMembers(row, at: 7),
            occurredAt: try row.moment(14), receivedAt: try row.moment(15), metadata: try row.optionalText(16),
            settingsVersion: try row.text(17), verdict: try Verdict(row, at: 18),
            state: try JourneyColumns.state(try row.int2(21)),
            endedBy: JourneyColumns.ending(try row.optionalInt2(22)))
    }
}

extension SentMembers {
    /// The columns in the order in which `init(_:at:)` reads them.
    static let columns = """
        event.source, event.app_state, event.charger, event.merchant, event.sequence, event.details,
        CASE event.sender WHEN \(OrderedEvent.Sender.service.rawValue) THEN 'service' END
        """

    init(_ row: PostgresRow, at first: Int) throws(PostgresError) {
        self.init(
            source: try row.text(first), appState: try row.optionalText(first + 1),
            chargerID: try row.optionalText(first + 2), merchantID: try row.optionalText(first + 3),
            sequence: try row.optionalInt8(first + 4), details: try row.optionalText(first + 5),
            sender: try row.optionalText(first + 6))
    }
}

private enum FeedStatements {
    /// Parameters: the position after which to begin, the number of rows, `settledEnd`.
    static let events = PostgresStatement(
        "feed_events",
        """
        SELECT event.position, driver.driver_id, EXISTS (SELECT 1 FROM erasure WHERE erasure.driver = driver.id),
            coalesce(event.event_id, event.idempotency_key), event.name, event.session_id IS NOT NULL, event.session_id,
            \(SentMembers.columns), event.corrected_at_ms, event.received_at_ms, event.metadata,
            event.settings_version, event.transition, event.reason, event.implied, event.after_state,
            event.after_ended_by
        FROM (SELECT * FROM event WHERE position > $1::int8 AND position < \(EventPosition.end(settled: "$3"))
            ORDER BY position LIMIT $2::int8) event
        JOIN driver ON driver.id = event.driver ORDER BY event.position
        """)

    /// The consumer's position, and the number of lost events. Parameters: the consumer.
    static let position = PostgresStatement(
        "feed_position",
        "SELECT max(last_event), coalesce(max(lost_count), 0)::int8 FROM feed_consumer WHERE name = $1::text")

    static let oldest = PostgresStatement("feed_oldest", "SELECT min(position) FROM event")

    /// Parameters: `settledEnd`.
    static let newest = PostgresStatement(
        "feed_newest", "SELECT max(position) FROM event WHERE position < \(EventPosition.end(settled: "$1"))")

    /// The number of events that a consumer has not read. Parameters: the consumer's position, the number at which the
    /// count stops, `settledEnd`.
    static let waiting = PostgresStatement(
        "feed_waiting",
        """
        SELECT count(*) FROM (SELECT 1 FROM event
            WHERE position > $1::int8 AND position < \(EventPosition.end(settled: "$3"))
            ORDER BY position LIMIT $2::int8) waiting
        """)

    static let move = PostgresStatement(
        "feed_moved",
        """
        INSERT INTO feed_consumer (name, last_event, lost_count, moved_at_ms)
        VALUES ($1::text, $2::int8, $3::int8, $4::int8)
        ON CONFLICT (name) DO UPDATE SET last_event = $2::int8, lost_count = feed_consumer.lost_count + $3::int8,
            moved_at_ms = $4::int8
        WHERE feed_consumer.last_event < $2::int8
        """)

    static let firstReceipt = PostgresStatement(
        "feed_first_receipt",
        """
        SELECT received_at_ms FROM event WHERE position > $1::int8 AND position < \(EventPosition.end(settled: "$2"))
        ORDER BY position LIMIT 1
        """)
}
