// Tests of reads of journeys, changes, sessions and their events.

import Engine
import JourneyModel
import Postgres
import TestSupport
import Testing

@testable import PostgresStore

struct JourneyReadingTests {
    private let driver = DriverID("reader")
    private let events = SampleJourney.whole(prefix: "e", session: "session")

    private func with(_ body: @Sendable (PostgresEventStore) async throws -> Void) async throws {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(on: database) { (stores) async throws in try await body(stores[0]) }
    }

    @Test func `a driver without events has a new journey and no sessions`() async throws {
        try await with { (store) async throws in
            #expect(try await store.journey(of: driver) == Journey())
            let newest = JourneyChange(id: 0, journey: Journey(), cause: nil)
            #expect(try await store.changes(of: driver, after: nil) == .newest(newest))
            #expect(try await store.changes(of: driver, after: 0) == .all([]))
            #expect(try await store.sessions(of: driver, limit: 5, after: nil)?.sessions == [])
            #expect(try await store.sessions(of: driver, limit: 5, after: "unknown") == nil)
            #expect(
                try await store.timeline(of: "session", of: driver, limit: 5, after: nil) == .sessionNotFound)
            #expect(try await store.earliestDeadline() == nil)
            #expect(try await store.driversAwaitingRefold(among: [driver]) == [])
        }
    }

    private func sleep(seconds: Int) -> PostgresQuery {
        PostgresQuery(PostgresStatement("sleep \(seconds)", "SELECT 1 FROM pg_sleep(\(seconds))"))
    }

    /// A call that times out closes its connection. A read may wait five seconds for a connection, so the time limit of
    /// its call must begin after this wait.
    @Test func `a read that has waited for a connection has the time of any other`() async throws {
        try await with { (store) async throws in
            _ = try await store.read([sleep(seconds: 0)])
            let others = (0..<2).map { _ in Task { _ = try await store.read([sleep(seconds: 4)]) } }
            // The other reads take both connections.
            try await Task.sleep(for: .milliseconds(500))
            let late = try await store.read([sleep(seconds: 3)])
            #expect(late.map(\.rowCount) == [1])
            for other in others { try await other.value }
        }
    }

    @Test func `changes follow each other by the numbers of the events that caused them`() async throws {
        try await with { (store) async throws in
            for submission in events { _ = await store.append(.sample(submission, of: driver)) }
            guard case .all(let changes) = try await store.changes(of: driver, after: 0) else {
                Issue.record("no changes")
                return
            }
            #expect(changes.map(\.id) == [2, 3, 4, 5, 6, 7])
            #expect(
                changes.map(\.journey.state)
                    == [.nearCharger, .anchored, .sessionActive, .inTransit, .atMerchant, .sessionEnded])
            #expect(changes.map { $0.cause?.eventID } == (1...6).map { "e\($0)" })
            #expect(changes.last?.journey.sessionID == "session")
            #expect(changes.last?.journey.endedBy == .verified)
            #expect(try await store.changes(of: driver, after: 5) == .all(Array(changes.suffix(2))))
            #expect(try await store.changes(of: driver, after: 7) == .all([]))
            #expect(try await store.changes(of: driver, after: 8) == .newest(changes[5]), "a number of the future")
            #expect(try await store.journey(of: driver).state == .sessionEnded)
        }
    }

    @Test func `the reader for streams names the drivers that have moved since the last read`() async throws {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(2, on: database) { (stores) async throws in
            let (store, other) = (stores[0], DriverID("other"))
            let first = try await store.committedChanges(after: nil, among: [driver])
            #expect(first.drivers == .any)
            let quiet = try await store.committedChanges(after: first.newest, among: [driver, other])
            #expect(quiet.drivers == .these([]))
            _ = await stores[1].append(.sample(events[0], of: driver))
            let moved = try await store.committedChanges(after: quiet.newest, among: [driver, other])
            #expect(moved.drivers == .these([driver]), "stored by the other instance")
            let again = try await store.committedChanges(after: moved.newest, among: [driver, other])
            #expect(again.drivers == .these([]))
            _ = await stores[1].append(.sample(events[0], of: other))
            #expect(try await store.committedChanges(after: again.newest, among: [driver]).drivers == .these([]))
            #expect(try await store.committedChanges(after: 2, among: [driver]).drivers == .any, "an old mark")
        }
    }

    @Test func `sessions are listed with their journeys, latest first`() async throws {
        try await with { (store) async throws in
            let (start, later) = (Moment.sample, Moment.sample.advanced(bySeconds: 10_000))
            let registration = SessionRegistration(
                sessionID: "registered", driver: driver, chargerID: "c", merchantID: "m", receivedAt: start)
            #expect(try await store.register(registration) == .created)
            for submission in events {
                _ = await store.append(.sample(submission, of: driver, receivedAt: start.advanced(bySeconds: 5000)))
            }
            // The second journey stops at SESSION_ACTIVE. The event of a third session, which the test appends below,
            // ends it.
            let second = SampleJourney.whole(prefix: "f", session: "second", from: later)
            for submission in second.prefix(4) {
                _ = await store.append(.sample(submission, of: driver, receivedAt: later.advanced(bySeconds: 500)))
            }
            let page = try await store.sessions(of: driver, limit: 2, after: nil)
            #expect(page?.sessions.map(\.sessionID) == ["second", "session"])
            #expect(page?.hasMore == true)
            #expect(page?.sessions.map { $0.journey?.state } == [.sessionActive, .sessionEnded])
            let rest = try await store.sessions(of: driver, limit: 2, after: "session")
            let expected = SessionSummary(
                sessionID: "registered", openedAt: start, registeredAt: start, chargerID: "c", merchantID: "m")
            #expect(rest == SessionPage(sessions: [expected], hasMore: false))
            let third = EventSubmission.sample(
                .exclusiveActivatedByWeb, key: "third", session: "third", at: later.advanced(bySeconds: 100),
                previousState: .anchored)
            _ = await store.append(.sample(third, of: driver, receivedAt: later.advanced(bySeconds: 500)))
            let both = try await store.sessions(of: driver, limit: 2, after: nil)?.sessions
            #expect(both?.map(\.sessionID) == ["third", "second"])
            #expect(both?.map { $0.journey?.state } == [.sessionActive, .sessionEnded])
            #expect(both?.last?.journey?.endedBy == .superseded)
        }
    }

    /// Adds `count` registered sessions: s1, s2 and so on. Groups of `together` sessions have the same opening time.
    private func addSessions(_ count: Int, together: Int = 1, to database: StoreFixture.Database) async throws {
        try await database.rows(
            """
            INSERT INTO session (lane, driver, session_id, opened_at_ms, registered_at_ms)
            SELECT lane, id, 's' || opened, opened / \(together), opened FROM driver, generate_series(1, \(count)) opened
            """)
    }

    @Test(.enabled(if: CitusCluster.named == nil, "Citus does not number the rows of one statement in order"))
    func `sessions opened at the same time are listed page by page`() async throws {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            _ = await stores[0].append(.sample(events[0], of: driver))
            try await addSessions(50, together: 9, to: database)
            for limit in [1, 7, 49, 50] {
                var listed: [String] = []
                var hasMore = true
                while hasMore {
                    let page = try #require(
                        try await stores[0].sessions(of: driver, limit: limit, after: listed.last))
                    listed += page.sessions.map(\.sessionID)
                    hasMore = page.hasMore && !page.sessions.isEmpty
                }
                #expect(listed == (1...50).reversed().map { "s\($0)" }, "\(limit)")
            }
        }
    }

    @Test(.enabled(if: CitusCluster.named == nil, "the workers of Citus count the rows that they read"))
    func `a page of sessions reads few of a driver's many sessions`() async throws {
        let database = try await StoreFixture.database()
        let count = 2_000
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            _ = await stores[0].append(.sample(events[0], of: driver))
        }
        try await addSessions(count, to: database)
        let before = try await database.fetchedRows(of: "session")
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            for cursor in [nil, "s1500", "s500"] {
                let page = try await stores[0].sessions(of: driver, limit: 20, after: cursor)
                #expect(page?.sessions.count == 20)
            }
            let detail = try await stores[0].driver(driver, sessions: 20, events: 20)
            #expect(detail?.sessions.count == 20)
        }
        #expect(try await database.fetchedRows(of: "session") - before < count / 2)
    }

    @Test func `a session's events are listed in order, page by page`() async throws {
        try await with { (store) async throws in
            for submission in events.reversed() { _ = await store.append(.sample(submission, of: driver)) }
            guard case .found(let all) = try await store.timeline(of: "session", of: driver, limit: 10, after: nil)
            else {
                Issue.record("no timeline")
                return
            }
            #expect(all.events.map(\.idempotencyKey) == ["e3", "e4", "e5", "e6", "e7"])
            #expect(all.events.map(\.verdict) == [.applied, .applied, .applied, .applied, .none])
            #expect(all.events.first?.sent.source == "ios_native")
            #expect(all.session.journey?.state == .sessionEnded)
            guard
                case .found(let part) = try await store.timeline(
                    of: "session", of: driver, limit: 2, after: all.events[1].id)
            else {
                Issue.record("no page")
                return
            }
            #expect(part.events == Array(all.events[2...3]) && part.hasMore)
            #expect(try await store.timeline(of: "session", of: driver, limit: 2, after: 99) == .cursorNotFound)
            #expect(
                try await store.timeline(of: "session", of: DriverID("another"), limit: 2, after: nil)
                    == .sessionNotFound)
        }
    }

    @Test(.enabled(if: CitusCluster.named == nil, "the workers of Citus count the rows that they read"))
    func `a page of a session's events reads few of its many events`() async throws {
        let database = try await StoreFixture.database()
        let count = 2_000
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            for submission in events { _ = await stores[0].append(.sample(submission, of: driver)) }
            let more = (1...count).map { number in
                let at = Moment.sample.advanced(bySeconds: 1000 + number)
                return AppendRequest.sample(
                    .sample(.diagnostic("ping"), key: "ping\(number)", session: "session", at: at), of: driver)
            }
            _ = await stores[0].append(more)
        }
        let before = try await database.fetchedRows(of: "event")
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            var cursor: Int64?
            for _ in 0..<3 {
                guard
                    case .found(let page) = try await stores[0].timeline(
                        of: "session", of: driver, limit: 20, after: cursor)
                else {
                    Issue.record("no page")
                    return
                }
                #expect(page.events.count == 20 && page.hasMore)
                cursor = page.events.last?.id
            }
        }
        #expect(try await database.fetchedRows(of: "event") - before < count / 2)
    }

    @Test func `registered sessions without events are limited`() async throws {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            for number in 0..<110 {
                let registration = SessionRegistration(
                    sessionID: "s\(number)", driver: driver, chargerID: nil, merchantID: nil,
                    receivedAt: .sample.advanced(bySeconds: number))
                #expect(try await stores[0].register(registration) == .created)
            }
        }
        #expect(try await database.rows("SELECT count(*) FROM session") == ["100"])
        #expect(try await database.rows("SELECT count(*) FROM session_owner") == ["100"])
        #expect(
            try await database.rows(
                "SELECT min(opened_at_ms) = \(Moment.sample.advanced(bySeconds: 10).millisecondsSinceEpoch) FROM session"
            ) == ["t"])
    }
}
