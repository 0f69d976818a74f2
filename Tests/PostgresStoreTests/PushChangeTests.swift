// Tests how the store reads changes of journeys for notifications, and the outbox entries that are made from these
// changes.

import Engine
import Identity
import JourneyModel
import Push
import SharedTables
import TestSupport
import Testing

@testable import PostgresStore

struct PushChangeTests {
    private let start = Moment(millisecondsSinceEpoch: 1_770_091_506_000)

    @Test func `each change is read once, with its cause, and its entry names the session`() async throws {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            let store = stores[0]
            #expect(try await store.pushPosition(at: start) == 0)
            for name in ["ada", "nobody", "simulated-1x-driver-1"] {
                let driver = DriverID(name)
                let events = SampleJourney.whole(prefix: "k", session: "session-\(name)", from: start)
                for event in events[0..<5] {
                    _ = await store.append(.sample(event, of: driver, receivedAt: event.occurredAt))
                }
            }
            _ = try await database.rows(
                """
                INSERT INTO device (push_token, driver, platform, environment, updated_at_ms)
                SELECT driver_id, id, 'ios', 'production', 0 FROM driver WHERE driver_id <> 'nobody'
                """)
            let page = try await store.pushChanges(after: 0, since: start.advanced(bySeconds: -60))
            #expect(page.changes.map(\.after.state) == [.nearCharger, .anchored, .sessionActive, .inTransit])
            #expect(!page.hasMore)
            let departure = try #require(page.changes.last)
            #expect(departure.before?.state == .sessionActive && departure.after.session == .id("session-ada"))
            #expect(departure.before?.session == departure.after.session)
            #expect(departure.occurredAt == start.advanced(bySeconds: 120) && !departure.isByServer)
            #expect(departure.after.graceDeadline == start.advanced(bySeconds: 120 + 900))
            #expect(departure.devices.map(\.hasLiveActivity) == [false])
            let rest = try await store.pushChanges(after: page.last, since: start)
            #expect(rest.changes.isEmpty && rest.last == page.last)
            #expect(try await store.pushChanges(after: 0, since: start.advanced(bySeconds: 121)).changes.isEmpty)

            let now = start.advanced(bySeconds: 121)
            let entries = page.changes.flatMap { PushRules.entries(for: $0, at: now) }
            #expect(try await store.queue(entries, after: 0, upTo: page.last, at: now))
            #expect(try await store.pushPosition(at: now) == page.last)
            let due = try await store.takeDuePushes(at: now, limit: 9, lease: now.advanced(bySeconds: 60))
            #expect(due.map(\.entry.kind) == [.alert(.sessionActive)] && due.map(\.sessionID) == ["session-ada"])
            try await store.finish(
                due.map { PushResult(id: $0.id, device: $0.entry.device, change: .remove) }, at: now)
            let warningAt = start.advanced(bySeconds: 120 + 900 - 180)
            let warning = try await store.takeDuePushes(at: warningAt, limit: 9, lease: now)
            #expect(warning.map(\.isDeadlineRunning) == [true])
        }
    }
}
