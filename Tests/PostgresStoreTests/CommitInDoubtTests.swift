// Tests of connections that are lost during COMMIT. The connection is lost at one of these two moments:
//
// - Before the transaction is committed: a deferred trigger sleeps within the COMMIT.
// - After the transaction is committed on the primary, but before the answer: the COMMIT waits for a standby that does
//   not exist.

import Engine
import JourneyModel
import Postgres
import Sockets
import TestSupport
import Testing

@testable import PostgresStore

struct CommitInDoubtTests {
    private let driver = DriverID("doubt")
    private let request = AppendRequest.sample(
        .sample(.enteredChargerIntentZone, key: "k", session: nil), of: DriverID("doubt"))

    @Test(arguments: [false, true])
    func `an event that was committed without an answer is found and answered as stored`(isKnown: Bool) async throws {
        let database = try await StoreFixture.databaseOnOwnServer()
        defer { database.server?.stop() }
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            // A known driver has a row that can be locked; a new driver has none.
            if isKnown { _ = await stores[0].append(.sample(.sample(.chargerTargeted, key: "first"), of: driver)) }
            try await database.setStandby("nobody")
            async let outcome = stores[0].append(request)
            let pid = try await database.backend(waitingFor: "SyncRep")
            try await database.rows("SELECT pg_terminate_backend(\(pid))")
            // The store has lost its connection, but has found the event in the database. It now waits until the
            // standby has the event too.
            _ = try await database.backend(waitingFor: "SyncRep")
            try await database.setStandby("")
            guard case .stored(let event) = await outcome else {
                Issue.record("\(await outcome)")
                return
            }
            #expect(event.verdict == .applied && event.journey.state == .nearCharger)
            guard case .replayed = await stores[0].append(request) else {
                Issue.record("no repeat")
                return
            }
        }
        #expect(try await database.rows("SELECT count(*) FROM event WHERE idempotency_key = 'k'") == ["1"])
    }

    /// Two servers try to store the same event at the same time, and both lose their connections. Both later find the
    /// event in the database. The server that has not stored it must answer that it is a repeat.
    ///
    /// The driver is new, so both servers insert the driver's row. The second insert therefore waits for the first
    /// server's transaction.
    @Test func `of two servers in doubt about one event, one has stored it`() async throws {
        let database = try await StoreFixture.databaseOnOwnServer()
        defer { database.server?.stop() }
        try await StoreFixture.withStores(2, on: database) { (stores) async throws in
            try await database.setStandby("nobody")
            async let first = stores[0].append(request)
            let committed = try await database.backend(waitingFor: "SyncRep")
            async let second = stores[1].append(request)
            let waiting = try await database.backend(waitingFor: "transactionid")
            try await database.rows("SELECT pg_terminate_backend(\(waiting))")
            try await database.rows("SELECT pg_terminate_backend(\(committed))")
            try await database.setStandby("")
            guard case (.stored, .replayed) = await (first, second) else {
                Issue.record("\(await (first, second))")
                return
            }
        }
        #expect(try await database.rows("SELECT count(*) FROM event WHERE idempotency_key = 'k'") == ["1"])
    }

    /// The same event is in the batch twice, as when a client repeats an event in one batch request.
    @Test func `of two copies in a batch in doubt, one is a repeat`() async throws {
        let database = try await StoreFixture.databaseOnOwnServer()
        defer { database.server?.stop() }
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            try await database.setStandby("nobody")
            async let outcomes = stores[0].append([request, request])
            let pid = try await database.backend(waitingFor: "SyncRep")
            try await database.rows("SELECT pg_terminate_backend(\(pid))")
            try await database.setStandby("")
            let found = await outcomes
            guard found.count == 2, case (.stored, .replayed) = (found[0], found[1]) else {
                Issue.record("\(found)")
                return
            }
        }
    }

    @Test(.enabled(if: CitusCluster.named == nil, "Citus has no triggers on distributed tables"))
    func `an event whose commit was cut is stored by the next attempt`() async throws {
        let database = try await StoreFixture.database()
        try await database.slowCommits(of: "event")
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            async let outcome = stores[0].append(request)
            let pid = try await database.backend(waitingFor: "PgSleep")
            _ = try await database.rows("DELETE FROM slow")
            try await database.rows("SELECT pg_terminate_backend(\(pid))")
            guard case .stored = await outcome else {
                Issue.record("\(await outcome)")
                return
            }
        }
        #expect(try await database.rows("SELECT count(*), max(seq) FROM event") == ["1|1"])
    }

    /// While a COMMIT waits for the standby, its backend may be terminated. Other sessions then see the event, although
    /// the standby does not have it. A crash of the database server has the same effect.
    @Test func `a repeat is not acknowledged before the standby has the event`() async throws {
        let database = try await StoreFixture.databaseOnOwnServer()
        defer { database.server?.stop() }
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            try await database.setStandby("nobody")
            async let outcome = stores[0].append(request)
            let pid = try await database.backend(waitingFor: "SyncRep")
            try await database.rows("SELECT pg_terminate_backend(\(pid))")
            _ = try await database.backend(waitingFor: "SyncRep")
            try await StoreFixture.withStores(on: database, requestSeconds: 1) { (others) async throws in
                guard case .failed(.unavailable) = await others[0].append(request) else {
                    Issue.record("a repeat was acknowledged")
                    return
                }
                await #expect(throws: StoreFailure.self) {
                    try await others[0].lookUp(request.submission, of: driver)
                }
            }
            try await database.setStandby("")
            guard case .stored = await outcome, case .replayed = await stores[0].append(request),
                case .replayed? = try await stores[0].lookUp(request.submission, of: driver)
            else {
                Issue.record("\(await outcome)")
                return
            }
        }
        #expect(try await database.rows("SELECT count(*) FROM event") == ["1"])
    }

    /// The store that gets the repeat has already committed another event on the same connection. That commit does not
    /// prove that the standby has the repeated event.
    @Test func `a repeat is not acknowledged because of an earlier commit of the connection`() async throws {
        let database = try await StoreFixture.databaseOnOwnServer()
        defer { database.server?.stop() }
        let earlier = AppendRequest.sample(.sample(.diagnostic("d"), key: "earlier"), of: DriverID("earlier"))
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            try await StoreFixture.withStores(on: database, requestSeconds: 1) { (others) async throws in
                _ = await others[0].append(earlier)
                _ = try await others[0].lookUp(earlier.submission, of: DriverID("earlier"))
                try await database.setStandby("nobody")
                async let outcome = stores[0].append(request)
                let pid = try await database.backend(waitingFor: "SyncRep")
                try await database.rows("SELECT pg_terminate_backend(\(pid))")
                _ = try await database.backend(waitingFor: "SyncRep")
                let repeated = await others[0].append(request)
                if case .failed(.unavailable) = repeated {} else { Issue.record("\(repeated)") }
                await #expect(throws: StoreFailure.self) {
                    try await others[0].lookUp(request.submission, of: driver)
                }
                try await database.setStandby("")
                _ = await outcome
            }
        }
        #expect(try await database.rows("SELECT count(*) FROM event WHERE idempotency_key = 'k'") == ["1"])
    }

    /// A batch that has only repeats and events of locked drivers writes nothing, so its COMMIT waits for no standby.
    /// The repeat is in one batch with an event of a locked driver, or follows it on the same connection.
    @Test(arguments: [false, true])
    func `a repeat is not acknowledged because of a batch that wrote nothing`(isSameBatch: Bool) async throws {
        let database = try await StoreFixture.databaseOnOwnServer()
        defer { database.server?.stop() }
        let requests = { @Sendable (key: String) in
            AppendRequest.sample(.sample(.diagnostic("d"), key: key), of: DriverID("locked"))
        }
        let other = try await PostgresConnection.open(
            try database.configuration, on: StoreFixture.loops.next(), until: .inSeconds(10))
        defer { other.close() }
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            _ = await stores[0].append(requests("first"))
            let lock = PostgresStatement("lock", "SELECT 1 FROM driver WHERE driver_id = 'locked' FOR UPDATE")
            _ = try await other.run([.init(.begin), .init(lock)])
            try await database.setStandby("nobody")
            async let outcome = stores[0].append(request)
            let pid = try await database.backend(waitingFor: "SyncRep")
            try await database.rows("SELECT pg_terminate_backend(\(pid))")
            _ = try await database.backend(waitingFor: "SyncRep")
            try await StoreFixture.withStores(on: database, requestSeconds: 1) { (others) async throws in
                var outcomes: [EventOutcome] = []
                if isSameBatch {
                    outcomes = await others[0].append([requests("second"), request])
                } else {
                    outcomes.append(await others[0].append(requests("second")))
                    outcomes.append(await others[0].append(request))
                }
                for outcome in outcomes {
                    guard case .failed(.unavailable) = outcome else {
                        Issue.record("\(outcome)")
                        continue
                    }
                }
            }
            try await database.setStandby("")
            _ = await outcome
            guard case .replayed = await stores[0].append(request) else {
                Issue.record("no repeat")
                return
            }
        }
    }

    /// After the connection was lost, an instance of a newer release has refolded the driver. The older instance must
    /// not touch this driver, so it cannot find out whether its batch stored the event.
    @Test(arguments: [false, true])
    func `an event in doubt of a driver of a newer release is answered as unknown`(isInDoubt: Bool) async throws {
        var row = StoredDriver(new: driver)
        row.rules = Fold.rulesVersion + 1
        let reads = BatchReads(of: row)
        let outcomes = await withCheckedContinuation { waiting in
            let reply = AppendReply(count: 1, waiting)
            var work = Work(.append(PreparedAppend(request), reply, index: 0), until: .inSeconds(60))
            if isInDoubt { work.batchesInDoubt = [1] }
            var fold = BatchFold(reads, charging: nil, digests: nil, tailBegin: 1, tailMax: 1)
            let folded = fold.fold(DriverGroup(driver: driver, works: [work]))
            work.answer(folded.outcomes.first ?? .failure(.cancelled))
        }
        let reason = "the journey was folded by the rules of a newer release"
        #expect(outcomes == [.failed(isInDoubt ? .unknown(reason) : .unavailable(reason))])
    }

    @Test func `only an event that may be stored is answered as unknown`() async throws {
        let database = try await StoreFixture.databaseOnOwnServer()
        defer { database.server?.stop() }
        let other = AppendRequest.sample(.sample(.chargerTargeted, key: "other"), of: DriverID("other"))
        try await StoreFixture.withStores(on: database, requestSeconds: 2) { (stores) async throws in
            try await database.setStandby("nobody")
            async let outcome = stores[0].append(request)
            _ = try await database.backend(waitingFor: "SyncRep")
            try await database.server?.pause()
            guard case .failed(.unknown) = await outcome else {
                Issue.record("\(await outcome)")
                return
            }
            guard case .failed(.unavailable) = await stores[0].append(other) else {
                Issue.record("an event that was never sent is certainly not stored")
                return
            }
        }
        try await database.server?.resume()
        try await database.setStandby("")
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            guard case .replayed = await stores[0].append(request), case .stored = await stores[0].append(other)
            else {
                Issue.record("the events after the outage")
                return
            }
        }
        #expect(try await database.rows("SELECT count(*) FROM event") == ["2"])
    }
}
