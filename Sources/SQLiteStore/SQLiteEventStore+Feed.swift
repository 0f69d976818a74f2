// `EventFeed` on SQLite. The outbox is the table of events itself (docs/decisions/outbox-is-the-event-table.md).

package import Engine
import GRDB
package import JourneyModel

extension SQLiteEventStore: EventFeed {
    package var hasConsecutiveIDs: Bool { true }

    package func storedEvents(after id: Int64, limit: Int) async throws(StoreFailure) -> [FeedEvent] {
        try await read { db in
            // During the deletion of a driver, the driver's events may still identify the person, so they are not
            // delivered. All events after them wait too, because the feed keeps the order of events.
            try Row.fetchAll(db.cachedStatement(sql: Self.feedSQL), arguments: [id, limit]).prefix { !($0[15] as Bool) }
                .map(Self.feedEvent)
        }
    }

    package func position(of consumer: String) async throws(StoreFailure) -> FeedPosition {
        try await read { db in
            let newest = try StoredEvents.newestID(db)
            let row = try Row.fetchOne(
                db.cachedStatement(sql: "SELECT last_event, lost_count FROM feed_consumer WHERE name = ?"),
                arguments: [consumer])
            guard let row else {
                // A new consumer begins at the first event that exists. Earlier events, which retention has deleted, do
                // not count as lost.
                let first = try Int64.fetchOne(db.cachedStatement(sql: "SELECT min(id) FROM event")) ?? 1
                return FeedPosition(last: first - 1, newest: newest, lostCount: 0)
            }
            return FeedPosition(last: row[0], newest: newest, lostCount: row[1])
        }
    }

    package func move(
        _ consumer: String, to id: Int64, losing lostCount: Int64, at now: Moment
    ) async throws(StoreFailure) {
        try await change { db in
            try db.execute(
                sql: """
                    INSERT INTO feed_consumer (name, last_event, lost_count, moved_at_ms) VALUES (?1, ?2, ?3, ?4)
                    ON CONFLICT (name) DO UPDATE SET last_event = ?2, lost_count = lost_count + ?3, moved_at_ms = ?4
                    WHERE last_event < ?2
                    """, arguments: [consumer, id, lostCount, now.millisecondsSinceEpoch])
        }
    }

    private static let feedSQL = """
        SELECT event.id, driver_id, coalesce(event_id, idempotency_key), name, has_session,
            (SELECT session_id FROM session WHERE session.id = event.session),
            corrected_at_ms, received_at_ms, metadata, version, transition, reason, implied, after_state,
            after_ended_by, \(ErasureProgress.isUnderWaySQL), \(SentMemberColumns.sql())
        FROM event
        CROSS JOIN driver ON driver.id = event.driver
        CROSS JOIN event_kind ON event_kind.id = event.kind
        CROSS JOIN settings_version ON settings_version.id = event.settings_version
        WHERE event.id > ? ORDER BY event.id LIMIT ?
        """

    @Sendable private static func feedEvent(_ row: Row) throws -> FeedEvent {
        FeedEvent(
            id: row[0], driver: DriverID(row[1]), eventID: row[2], name: try StoredEvents.name(row, 3),
            sessionID: row[5], sent: SentMembers(row, at: 16), occurredAt: Moment(millisecondsSinceEpoch: row[6]),
            receivedAt: Moment(millisecondsSinceEpoch: row[7]), metadata: row[8], settingsVersion: row[9],
            verdict: try StoredEvents.verdict(row, 10), state: try StoredEvents.state(row, 13),
            endedBy: StoredEvents.ending(row[14]))
    }
}
