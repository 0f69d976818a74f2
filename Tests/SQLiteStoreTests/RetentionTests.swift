// Tests of the rows that retention deletes and keeps, in a real file with a manual clock. RetentionConvergenceTests
// uses random journeys.

import Engine
import GRDB
import JourneyModel
import Logging
import TestSupport
import Testing

@testable import SQLiteStore

struct RetentionTests {
    private static let day = 86_400
    private let folder: ScratchFolder
    private let clock = ManualClock()
    private let driver = DriverID("driver")
    private let store: SQLiteEventStore

    init() throws {
        folder = try ScratchFolder(inMemory: true)
        store = try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
    }

    /// Stores an event that is received now.
    @discardableResult
    private func post(_ submission: EventSubmission, of driver: DriverID? = nil) async throws -> EventOutcome {
        try await store.appended(.sample(submission, of: driver ?? self.driver, receivedAt: clock.now))
    }

    /// Stores a journey of eight events, half a minute apart. The clock ends half a minute after the eighth event.
    private func drive(_ prefix: String, of driver: DriverID? = nil) async throws {
        for event in SampleJourney.whole(prefix: prefix, session: "session-\(prefix)", from: clock.now) {
            try await post(event, of: driver)
            clock.advance(bySeconds: 30)
        }
    }

    private func keeping(days: Int? = 7, forwarded: Int64 = .max) -> RetentionService {
        RetentionService(
            store: store, days: days, clock: { [clock] in clock.now },
            logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }),
            forwarded: { () throws(StoreFailure) in forwarded })
    }

    private func problems() throws -> [String] {
        let check = try DatabaseCheck(path: folder.file("db"))
        defer { check.close() }
        return try check.run { _ in }.problems
    }

    private func keys() async throws -> [String] {
        try await store.timeline(of: driver).map(\.idempotencyKey)
    }

    @Test func `what is older than the days is gone, what is not stays, and a session without events is gone too`()
        async throws
    {
        try await drive("a")
        clock.advance(bySeconds: 5 * Self.day)
        try await drive("b")
        #expect(try await keeping().round() == RetentionService.Deleted())
        clock.advance(bySeconds: 3 * Self.day)
        // Retention deletes the events of session-a. The stored journey at the floor names session-a, so the row of
        // session-a stays. No response shows session-a.
        #expect(try await keeping().round() == RetentionService.Deleted(events: 8))
        #expect(try await keys() == (0..<8).map { "b\($0)" })
        let sessions = try await store.sessions(of: driver, limit: 10, after: nil)
        #expect(sessions?.sessions.map(\.sessionID) == ["session-b"])
        guard case .sessionNotFound = try await store.timeline(of: "session-a", of: driver, limit: 10, after: nil)
        else { throw Unexpected(description: "session-a is found") }
        #expect(try await store.journey(of: driver).state == .sessionEnded)
        #expect(try problems() == [])
        try await drive("c")
        clock.advance(bySeconds: 5 * Self.day)
        // The stored journey at the floor is now in session-b. It names session-a as the previous session, so the row
        // of session-a stays.
        #expect(try await keeping().round() == RetentionService.Deleted(events: 8))
        #expect(try problems() == [])
        await store.close()
    }

    @Test func `a driver of whom nothing is left stands where it stood, and goes on from there`() async throws {
        try await drive("a")
        try await drive("other", of: DriverID("other"))
        let before = try await store.journey(of: driver)
        clock.advance(bySeconds: 30 * Self.day)
        #expect(try await keeping().round().events == 16)
        #expect(try await store.eventCount() == 0)
        #expect(try await store.journey(of: driver) == before)
        #expect(try problems() == [])
        let entered = EventSubmission.sample(.enteredChargerIntentZone, key: "new", at: clock.now)
        guard case .stored(let stored) = try await post(entered) else { throw Unexpected(description: "not stored") }
        #expect(stored.verdict == Verdict(.applied, implied: .reset))
        // The late event occurred a minute before the event `new`. Retention has deleted all older events, so the fold
        // begins with the stored journey.
        let late = EventSubmission.sample(.reset, key: "late", session: "s", at: clock.now.advanced(bySeconds: -60))
        guard case .stored(let reset) = try await post(late) else { throw Unexpected(description: "not stored") }
        #expect(reset.verdict == .applied)
        #expect(try await store.timeline(of: driver).map(\.verdict) == [.applied, .applied])
        #expect(try problems() == [])
        await store.close()
    }

    @Test func `an event that comes too late is stored without effect, and goes in its turn`() async throws {
        try await drive("a")
        clock.advance(bySeconds: 8 * Self.day)
        _ = try await keeping().round()
        let before = try await store.journey(of: driver)
        let late = EventSubmission.sample(
            .enteredChargerIntentZone, key: "late", at: .sample.advanced(bySeconds: 10))
        guard case .stored(let stored) = try await post(late) else { throw Unexpected(description: "not stored") }
        #expect(stored.verdict == .none && stored.journey == before)
        guard case .replayed(let again) = try await post(late) else { throw Unexpected(description: "not known") }
        #expect(again.verdict == .none)
        #expect(try await store.journey(of: driver) == before)
        #expect(try problems() == [])
        let records = try EventRecords(path: folder.file("db"))
        #expect(try records.events(of: driver, last: 5)?.events.map(\.isBelowFloor) == [true])
        records.close()
        clock.advance(bySeconds: 8 * Self.day)
        #expect(try await keeping().round().events == 1)
        await store.close()
    }

    /// The contract promises to recognize a repeat only while the event is stored. If a client sends a deleted event
    /// again, the event is new.
    @Test func `a deleted event is a new one when it is sent again, and moves nothing`() async throws {
        try await drive("a")
        let events = SampleJourney.whole(prefix: "a", session: "session-a")
        clock.advance(bySeconds: 6 * Self.day)
        guard case .replayed = try await post(events[3]) else { throw Unexpected(description: "forgotten") }
        clock.advance(bySeconds: 2 * Self.day)
        _ = try await keeping().round()
        let before = try await store.journey(of: driver)
        for event in events {
            guard case .stored(let stored) = try await post(event) else { throw Unexpected(description: "known") }
            #expect(stored.verdict == .none)
        }
        #expect(try await store.journey(of: driver) == before)
        #expect(try problems() == [])
        await store.close()
    }

    @Test func `what is not forwarded yet stays for a week more, and then goes oldest first`() async throws {
        try await drive("a")
        clock.advance(bySeconds: 8 * Self.day)
        #expect(try await keeping(forwarded: 3).round().events == 3)
        #expect(try await store.storedEvents(after: 0, limit: 10).map(\.id) == [4, 5, 6, 7, 8])
        try await store.move("analytics", to: 3, losing: 0, at: clock.now)
        clock.advance(bySeconds: 7 * Self.day)
        #expect(try await keeping(forwarded: 3).round().events == 5)
        // A consumer that has read nothing has lost no events.
        try await drive("b")
        #expect(try await store.position(of: "new") == FeedPosition(last: 8, newest: 16, lostCount: 0))
        await store.close()
    }

    @Test func `a deadline that is due and not stored holds the floor below it`() async throws {
        // The diagnostic event occurs exactly at the deadline. The fold puts it before the expiry, so the deadline
        // still runs.
        let activation = Array(SampleJourney.whole(prefix: "a", session: "s", from: clock.now).prefix(4))
        for event in activation { try await post(event) }
        let deadline = try #require(try await store.journey(of: driver).hardDeadline)
        clock.advance(bySeconds: 4000)
        try await post(.sample(.diagnostic("d"), key: "d", at: deadline))
        clock.advance(bySeconds: 9 * Self.day)
        #expect(try await keeping().round().events == 4)
        #expect(try await keys() == ["d"])
        #expect(try problems() == [])
        let expiry = ExpiryRequest(
            now: clock.now, settings: VersionedSettings(settings: Settings(), version: "v"), driversMax: 1)
        #expect(try await store.storeExpiries(expiry).drivers == [driver])
        #expect(try await store.journey(of: driver).state == .sessionEnded)
        #expect(try problems() == [])
        // The expiry stays, because the server received it today. The diagnostic event is deleted.
        #expect(try await keeping().round().events == 1)
        #expect(try await store.eventCount() == 1)
        #expect(try problems() == [])
        await store.close()
    }

    @Test func `registered sessions stay while they are young, and the last number is never given twice`() async throws
    {
        func register(_ session: String) async throws {
            _ = try await store.register(
                SessionRegistration(
                    sessionID: session, driver: driver, chargerID: nil, merchantID: nil, receivedAt: clock.now))
        }
        try await register("old")
        clock.advance(bySeconds: 6 * Self.day)
        try await register("young")
        try await register("last")
        clock.advance(bySeconds: 2 * Self.day)
        #expect(try await keeping().round().sessions == 1)
        clock.advance(bySeconds: 8 * Self.day)
        #expect(try await keeping().round().sessions == 1)
        // The row of the session `last` stays, so that no later session gets its number.
        let rows = try await store.read { db in try String.fetchAll(db, sql: "SELECT session_id FROM session") }
        #expect(rows == ["last"])
        #expect(try await store.sessions(of: driver, limit: 10, after: nil)?.sessions.isEmpty == true)
        await store.close()
    }

    @Test func `a session that only the journey needs keeps nothing of its registration, not even an old release's`()
        async throws
    {
        _ = try await store.register(
            SessionRegistration(
                sessionID: "session-a", driver: driver, chargerID: "charger-r", merchantID: "merchant-r",
                receivedAt: clock.now))
        try await drive("a")
        try await store.change { db in
            try db.execute(
                sql: "UPDATE session SET (charger, merchant) = (SELECT id, id FROM place WHERE place_id = 'charger-1')")
        }
        try await post(.sample(.enteredChargerIntentZone, key: "next", charger: "charger-2", at: clock.now))
        clock.advance(bySeconds: 8 * Self.day)
        #expect(try await keeping().round() == RetentionService.Deleted(events: 9))
        let rows = try await store.read { db in
            try Bool.fetchAll(
                db,
                sql: """
                    SELECT coalesce(
                        registered_at_ms, registered_charger, registered_merchant, charger, merchant) IS NULL
                    FROM session
                    """)
        }
        #expect(rows == [true])
        #expect(try problems() == [])
        await store.close()
    }

    @Test func `a driver who registers without end leaves a hundred unused sessions, and no place`() async throws {
        func register(_ session: Int) async throws {
            _ = try await store.register(
                SessionRegistration(
                    sessionID: "s-\(session)", driver: driver, chargerID: "charger-\(session)",
                    merchantID: "merchant-\(session)", receivedAt: clock.now))
        }
        for session in 0..<150 { try await register(session) }
        let used = EventSubmission.sample(.diagnostic("d"), key: "k", session: "s-60", at: clock.now)
        try await post(used)
        for session in 150..<1000 { try await register(session) }
        let (sessions, places) = try await store.read { db in
            (
                try Int.fetchOne(db, sql: "SELECT count(*) FROM session"),
                try Int.fetchOne(db, sql: "SELECT count(*) FROM place WHERE place_id LIKE '%-%'")
            )
        }
        #expect(sessions == SessionTable.unusedMax + 1)
        #expect(places == 0)
        let newest = try await store.sessions(of: driver, limit: 1, after: nil)?.sessions.first
        #expect(newest?.sessionID == "s-999" && newest?.chargerID == "charger-999")
        #expect(newest?.merchantID == "merchant-999")
        #expect(try problems() == [])
        await store.close()
    }

    @Test func `registrations without end leave the sessions that the journey names`() async throws {
        func register(_ session: String) async throws {
            _ = try await store.register(
                SessionRegistration(
                    sessionID: session, driver: driver, chargerID: nil, merchantID: nil, receivedAt: clock.now))
        }
        for session in ["now", "before", "base", "base-before"] { try await register(session) }
        // Retention leaves these rows when it deletes the events of all four sessions.
        try await store.change { db in
            func number(_ session: String) -> String { "(SELECT id FROM session WHERE session_id = '\(session)')" }
            try db.execute(
                sql: "UPDATE driver SET session = \(number("now")), previous_session = \(number("before"))")
            try db.execute(
                sql: """
                    INSERT INTO journey_base (driver, state, session, previous_session)
                    SELECT id, state, \(number("base")), \(number("base-before")) FROM driver
                    """)
        }
        for session in 0..<120 { try await register("s-\(session)") }
        let kept = try await store.read { db in
            try String.fetchAll(db, sql: "SELECT session_id FROM session ORDER BY id")
        }
        let newest = (0..<120).suffix(SessionTable.unusedMax).map { "s-\($0)" }
        #expect(kept == ["now", "before", "base", "base-before"] + newest)
        await store.close()
    }

    @Test func `a registration that is never used goes after thirty days, whether or not events have an age`()
        async throws
    {
        for (session, isUsed) in [("unused", false), ("used", true), ("last", false)] {
            _ = try await store.register(
                SessionRegistration(
                    sessionID: session, driver: driver, chargerID: nil, merchantID: nil, receivedAt: clock.now))
            if isUsed { try await post(.sample(.diagnostic("d"), key: session, session: session, at: clock.now)) }
        }
        let keeping = keeping(days: nil)
        clock.advance(bySeconds: 30 * Self.day - 1)
        #expect(try await keeping.round() == RetentionService.Deleted())
        clock.advance(bySeconds: 2)
        #expect(try await keeping.round() == RetentionService.Deleted(sessions: 1))
        let left = try await store.sessions(of: driver, limit: 10, after: nil)
        #expect(left?.sessions.map(\.sessionID) == ["last", "used"])
        await store.close()
    }

    @Test func `an event that bears a wrong time of the server's does not keep what is behind it`() async throws {
        let future = clock.now.advanced(bySeconds: 400 * Self.day)
        let ahead = EventSubmission.sample(.diagnostic("d"), key: "ahead")
        _ = try await store.appended(.sample(ahead, of: DriverID("other"), receivedAt: future))
        try await drive("a")
        clock.advance(bySeconds: 8 * Self.day)
        #expect(try await keeping().round().events == 8)
        #expect(try await store.eventCount() == 1)
        await store.close()
    }

    @Test func `a deletion that fails leaves floor and events as they were`() async throws {
        try await drive("a")
        clock.advance(bySeconds: 8 * Self.day)
        let part = try await store.agedEvents(
            AgedEventsRequest(
                now: clock.now, receivedBefore: clock.now, forwarded: .max, unforwardedBefore: clock.now, after: 0,
                limit: 8))
        _ = try await store.change { db in
            try db.execute(
                sql: """
                    CREATE TRIGGER refuses BEFORE DELETE ON event_row WHEN old.id = 5
                    BEGIN SELECT raise(ABORT, 'no'); END
                    """)
        }
        await #expect(throws: StoreFailure.self) { try await store.delete(part.events[...]) }
        #expect(try await store.eventCount() == 8)
        let floor = try await store.read { db in try Int64.fetchOne(db, sql: "SELECT floor_at_ms FROM driver") }
        #expect(floor == nil)
        #expect(try problems() == [])
        await store.close()
    }
}
