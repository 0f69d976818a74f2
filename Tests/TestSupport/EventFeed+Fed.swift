// Reading the feed of events, for tests of both databases.

package import Engine

extension EventFeed {
    /// Reads the events after `id` repeatedly, until there are `count` of them or ten seconds have passed. On
    /// PostgreSQL, the feed does not show an event until all older transactions have ended. Such a transaction may
    /// belong to another test or to autovacuum.
    package func fed(_ count: Int, after id: Int64 = 0, limit: Int = 10_000) async throws -> [FeedEvent] {
        let end = ContinuousClock.now + .seconds(10)
        var events = try await storedEvents(after: id, limit: limit)
        while events.count < count, .now < end {
            try await Task.sleep(for: .milliseconds(10))
            events = try await storedEvents(after: id, limit: limit)
        }
        return events
    }
}
