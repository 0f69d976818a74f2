// Reading the feed of events, for tests of both databases.

package import Engine

extension EventFeed {
    /// Waits up to ten seconds until there are `count` events after `id`, and returns them. On PostgreSQL, an event
    /// enters the feed only when all older transactions have ended, including those of other tests and of autovacuum.
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
