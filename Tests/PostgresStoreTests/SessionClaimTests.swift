// Tests that a batch treats a session as a new driver's own if another instance claims it for this driver at the same
// time.

import Engine
import JourneyModel
import Postgres
import Sockets
import TestSupport
import Testing

@testable import PostgresStore

@Suite(.enabled(if: CitusCluster.named == nil, "the rows are written and locked by plain SQL"))
struct SessionClaimTests {
    private let driver = DriverID("claiming")

    /// The rows that a batch of another instance commits: a new driver, and this driver's claim of the session `s`.
    private struct Claim {
        let id: Int64
        let lane: Int16
        let driver: DriverID

        init(_ driver: DriverID) {
            self.driver = driver
            lane = Lane.of(driver.rawValue)
            id = Lane.newDriverID(in: lane)
        }

        var driverRows: String { driverRow + sessionRow }

        var driverRow: String {
            """
            INSERT INTO driver (lane, id, driver_id, version, last_seq, created_at_ms, state, rules)
            VALUES (\(lane), \(id), '\(driver.rawValue)', 1, 0, 1, 0, \(Fold.rulesVersion));
            """
        }

        var sessionRow: String {
            "INSERT INTO session (lane, driver, session_id, opened_at_ms) VALUES (\(lane), \(id), 's', 1);"
        }

        var ownerRow: String {
            """
            INSERT INTO session_owner (lane, session_id, owner_lane, owner, claimed_at_ms)
            VALUES (\(Lane.of("s")), 's', \(lane), \(id), 1);
            """
        }
    }

    enum Request: CaseIterable {
        case event, registration
    }

    /// Returns whether the store treats the session as the driver's own.
    private func isOwn(
        _ request: Request, of driver: DriverID, in store: PostgresEventStore
    ) async throws -> Bool {
        switch request {
        case .event:
            let submission = EventSubmission.sample(.sessionRestored, key: "k", session: "s")
            switch await store.append(.sample(submission, of: driver)) {
            case .stored: return true
            case .sessionNotFound: return false
            case let outcome:
                Issue.record("\(outcome)")
                return false
            }
        case .registration:
            let registration = SessionRegistration(
                sessionID: "s", driver: driver, chargerID: "c", merchantID: nil, receivedAt: .sample)
            return try await store.register(registration) == .existed
        }
    }

    /// Sends the request, and makes its batch wait before it reads `table`. During this wait, another instance commits
    /// `statements`. The session must then be the driver's own.
    private func expectOwn(
        _ request: Request, committing statements: [String], beforeReading table: String,
        in database: StoreFixture.Database
    ) async throws {
        let other = try await PostgresConnection.open(
            try database.configuration, on: StoreFixture.loops.next(), until: .inSeconds(10))
        defer { other.close() }
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            // This request makes the connection prepare its statements before the table is locked. Without it, the
            // batch would already wait in the preparation.
            let warm = EventSubmission.sample(.sessionRestored, key: "k", session: "other")
            _ = try await stores[0].appended(.sample(warm, of: DriverID("other")))
            let lock = PostgresStatement("lock", "LOCK TABLE \(table) IN ACCESS EXCLUSIVE MODE")
            _ = try await other.run([.init(.begin), .init(lock)])
            async let found = isOwn(request, of: driver, in: stores[0])
            _ = try await database.backend(waitingFor: "relation")
            let rows = statements.enumerated().map { number, sql in
                PostgresQuery(PostgresStatement("statement_\(number)", sql))
            }
            _ = try await other.run(rows + [.init(.commit)])
            #expect(try await found)
            #expect(try await stores[0].check { _, _ in }.problems == [])
        }
    }

    /// While the batch reads, another instance commits the new driver and the claim. At that moment, the batch has
    /// either read that the driver does not exist, or has not read the driver yet.
    @Test(arguments: Request.allCases)
    func `a session that is claimed between two reads of a batch is its driver's own`(_ request: Request) async throws {
        let database = try await StoreFixture.database()
        let claim = Claim(driver)
        let statements = (claim.driverRows + claim.ownerRow).split(separator: ";").map(String.init)
        try await expectOwn(request, committing: statements, beforeReading: "session_owner", in: database)
        if request == .registration {
            let charger = try await database.rows("SELECT registered_charger FROM session WHERE session_id = 's'")
            #expect(charger == ["c"])
        }
    }

    /// On Citus, the claim of a session and the row of the driver who claimed it are on different servers. A batch may
    /// therefore see the claim earlier than the row.
    @Test(arguments: Request.allCases)
    func `a batch waits for the row of a driver of whom it sees only the claim`(_ request: Request) async throws {
        let database = try await StoreFixture.database()
        let claim = Claim(driver)
        try await database.rows(claim.ownerRow)
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            async let found = isOwn(request, of: driver, in: stores[0])
            try await Task.sleep(for: .milliseconds(200))
            try await database.rows(claim.driverRows)
            #expect(try await found)
            #expect(try await stores[0].check { _, _ in }.problems == [])
        }
    }

    /// On Citus, the claim of a session and the session's row are on different servers too. A registration must wait
    /// until it sees the session's row. If it did not, the registered charger would be lost.
    @Test func `a registration waits for the row of a session of which it sees only the claim`() async throws {
        let database = try await StoreFixture.database()
        let claim = Claim(driver)
        try await database.rows(claim.driverRow + claim.ownerRow)
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            async let found = isOwn(.registration, of: driver, in: stores[0])
            try await Task.sleep(for: .milliseconds(200))
            try await database.rows(claim.sessionRow)
            #expect(try await found)
            #expect(try await stores[0].check { _, _ in }.problems == [])
        }
        #expect(try await database.rows("SELECT registered_charger FROM session WHERE session_id = 's'") == ["c"])
    }

    /// The session is registered but has no event. Another instance deletes it after the batch has read the session's
    /// owner, and before the batch reads the driver and the session.
    @Test func `an event opens its session again if it is deleted between two reads of a batch`() async throws {
        let database = try await StoreFixture.database()
        let claim = Claim(driver)
        try await database.rows(claim.driverRows + claim.ownerRow)
        let deletion = [
            "UPDATE driver SET version = version + 1 WHERE id = \(claim.id)",
            "DELETE FROM session WHERE session_id = 's'", "DELETE FROM session_owner WHERE session_id = 's'",
        ]
        try await expectOwn(.event, committing: deletion, beforeReading: "driver", in: database)
        #expect(try await database.rows("SELECT count(*) FROM session WHERE session_id = 's'") == ["1"])
    }

    /// On Citus, the claim of a deleted session may stay visible for a moment after the driver is locked. The batch is
    /// therefore run again. If the second run also sees the claim, it stores the event nevertheless.
    @Test(arguments: [0, DriverGroup.conflictsBeforeLock, DriverGroup.conflictsBeforeLock + 1])
    func `a late event under the lock waits for a session of which only the claim is seen`(conflictCount: Int) async {
        let row = StoredDriver(new: driver)
        var reads = BatchReads(of: row)
        reads.owners[TextKey("s")] = row.id
        let submission = EventSubmission.sample(.sessionRestored, key: "k", session: "s")
        let request = AppendRequest.sample(submission, of: driver)
        let outcomes = await withCheckedContinuation { waiting in
            let reply = AppendReply(count: 1, waiting)
            var work = Work(.append(PreparedAppend(request), reply, index: 0), until: .inSeconds(60))
            (work.isAlone, work.conflictCount) = (true, conflictCount)
            var fold = BatchFold(reads, charging: nil, digests: nil, tailBegin: 1, tailMax: 1)
            let folded = fold.fold(DriverGroup(driver: driver, works: [work]))
            #expect(folded.isStale == (conflictCount <= DriverGroup.conflictsBeforeLock))
            work.answer(.failure(.cancelled))
        }
        #expect(outcomes.count == 1)
    }

    @Test(arguments: Request.allCases)
    func `another new driver of the owner's lane does not get the session`(_ request: Request) async throws {
        let database = try await StoreFixture.database()
        let others = (0...).lazy.map { DriverID("other-\($0)") }
        let other = try #require(others.first { Lane.of($0.rawValue) == Lane.of(driver.rawValue) })
        let claim = Claim(driver)
        try await database.rows(claim.driverRows + claim.ownerRow)
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            #expect(try await isOwn(request, of: other, in: stores[0]) == false)
            #expect(try await isOwn(request, of: driver, in: stores[0]))
        }
        #expect(try await database.rows("SELECT driver_id FROM driver") == [driver.rawValue])
    }
}
