// Tests of a driver's sessions and timelines. The newest session comes first. Events are in the contract's order. Pages
// have no gaps or repeats, and no data of other drivers.

import Dispatch
import Engine
import GRDB
import GRDBSQLite
import JourneyModel
import TestSupport
import Testing

@testable import SQLiteStore

struct SessionReadingTests {
    private let folder: ScratchFolder
    private let driver = DriverID("driver")

    init() throws {
        folder = try ScratchFolder()
    }

    private func open() throws -> SQLiteEventStore {
        try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
    }

    @Test(.timeLimit(.minutes(1)))
    func `a reader that is cancelled is let go at once, and the store goes on`() async throws {
        let store = try open()
        try await append(.sample(.sessionRestored, key: "k", session: "s"), store)
        // This read runs until the test signals `gate`.
        let gate = DispatchSemaphore(value: 0)
        let (started, starts) = AsyncStream<Void>.makeStream()
        let driver = driver
        let running = Task {
            try await store.read { (_: Database) in
                starts.yield()
                gate.wait()
            }
        }
        for await _ in started { break }
        running.cancel()
        await #expect(throws: StoreFailure.cancelled) { try await running.value }

        let cancelledBefore = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return try await store.journey(of: driver)
        }
        await #expect(throws: StoreFailure.cancelled) { try await cancelledBefore.value }
        #expect(try await store.eventCount() == 1)
        gate.signal()
        await store.close()
    }

    private func append(_ submission: EventSubmission, _ store: SQLiteEventStore) async throws {
        _ = try await store.appended(.sample(submission, of: driver))
    }

    @Test func `pages go from the newest session to the oldest, each session once`() async throws {
        let store = try open()
        for index in 0..<7 {
            try await append(.sample(.sessionRestored, key: "k\(index)", session: "s\(index)"), store)
            _ = try await store.appended(
                .sample(.sample(.sessionRestored, key: "k\(index)", session: "o\(index)"), of: DriverID("other")))
        }
        var names: [String] = []
        var cursor: String?
        var hasMore = true
        while hasMore {
            let page = try #require(try await store.sessions(of: driver, limit: 3, after: cursor))
            #expect(page.sessions.count == 3 || !page.hasMore)
            names += page.sessions.map(\.sessionID)
            (cursor, hasMore) = (page.sessions.last?.sessionID, page.hasMore)
        }
        #expect(names == ["s6", "s5", "s4", "s3", "s2", "s1", "s0"])
        #expect(try await store.sessions(of: driver, limit: 7, after: nil)?.hasMore == false)
        #expect(try await store.sessions(of: driver, limit: 3, after: "o3") == nil, "another driver's")
        #expect(try await store.sessions(of: driver, limit: 3, after: "never") == nil)
        #expect(try await store.sessions(of: DriverID("nobody"), limit: 3, after: nil)?.sessions == [])
        await store.close()
    }

    @Test func `a page prepares the statement that reads a session's journey once, not once for each session`()
        async throws
    {
        let store = try open()
        for index in 0..<20 {
            try await append(.sample(.sessionRestored, key: "k\(index)", session: "s\(index)"), store)
        }
        let driver = driver
        let runs = try await store.read { (db: Database) -> [Int32] in
            let page = try StoredSessions.page(of: driver, limit: 20, after: nil, db)
            #expect(page?.sessions.count == 20)
            // How often each statement that is still prepared has run.
            var runs: [Int32] = []
            var statement = sqlite3_next_stmt(db.sqliteConnection, nil)
            while let current = statement {
                runs.append(sqlite3_stmt_status(current, SQLITE_STMTSTATUS_RUN, 0))
                statement = sqlite3_next_stmt(db.sqliteConnection, current)
            }
            return runs
        }
        #expect(runs.contains(20))
        await store.close()
    }

    @Test func `a session's state is that of its last event, however the driver went on`() async throws {
        let store = try open()
        for event in SampleJourney.whole(prefix: "a", session: "ended") { try await append(event, store) }
        let later = Moment.sample.advanced(bySeconds: 600)
        let again = SampleJourney.whole(prefix: "b", session: "running", from: later)
        for event in again.prefix(5) { try await append(event, store) }
        try await append(.sample(.sessionRestored, key: "c", session: "never activated", at: later), store)
        _ = try await store.register(
            SessionRegistration(
                sessionID: "registered", driver: driver, chargerID: "c9", merchantID: "m9", receivedAt: later))
        let sessions = try #require(try await store.sessions(of: driver, limit: 10, after: nil)).sessions
        #expect(sessions.map(\.sessionID) == ["registered", "never activated", "running", "ended"])
        #expect(sessions.map(\.journey?.state) == [nil, nil, .inTransit, .sessionEnded])
        #expect(sessions[0].chargerID == "c9" && sessions[0].merchantID == "m9" && sessions[0].registeredAt == later)
        #expect(sessions[2].journey?.graceDeadline == later.advanced(bySeconds: 1020))
        await store.close()
    }

    @Test func `a timeline is in the contract's order with today's verdicts, in pages of any size`() async throws {
        let store = try open()
        let events = SampleJourney.whole(prefix: "k", session: "s")
        // Events of one millisecond are ordered by sequence. An event without a sequence comes first.
        let ties = [nil, 2, 1, 3].map { sequence in
            EventSubmission.sample(
                .diagnostic("tick"), key: "t\(sequence ?? 0)", session: "s", at: events[4].occurredAt,
                sequence: sequence)
        }
        for event in [events[5], events[3], events[1]] + ties.reversed() + [events[4], events[2], events[6]] {
            try await append(event, store)
        }
        let expected = ["k3", "k4", "t0", "t1", "t2", "t3", "k5", "k6"]
        for limit in 1...9 {
            var keys: [String] = []
            var verdicts: [Verdict] = []
            var cursor: Int64?
            var hasMore = true
            while hasMore {
                guard
                    case .found(let page) = try await store.timeline(of: "s", of: driver, limit: limit, after: cursor)
                else { throw Unexpected(description: "no page after \(cursor ?? 0)") }
                keys += page.events.map(\.eventID)
                verdicts += page.events.map(\.verdict)
                (cursor, hasMore) = (page.events.last?.id, page.hasMore)
            }
            #expect(keys == expected, "limit \(limit)")
            #expect(verdicts == [.applied, .applied, .none, .none, .none, .none, .applied, .applied])
        }
        await store.close()
    }

    @Test func `another driver's session is not there, and neither is its event a cursor`() async throws {
        let store = try open()
        try await append(.sample(.sessionRestored, key: "k", session: "mine"), store)
        _ = try await store.appended(
            .sample(.sample(.sessionRestored, key: "k", session: "theirs"), of: DriverID("other")))
        for name in ["theirs", "never", ""] {
            #expect(
                try await store.timeline(of: name, of: driver, limit: 10, after: nil) == .sessionNotFound, "\(name)")
        }
        #expect(try await store.timeline(of: "mine", of: driver, limit: 10, after: 2) == .cursorNotFound)
        #expect(try await store.timeline(of: "mine", of: driver, limit: 10, after: 99) == .cursorNotFound)
        await store.close()
    }
}
