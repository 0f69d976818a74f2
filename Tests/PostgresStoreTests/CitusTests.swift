// Tests of behaviour that only Citus has. They run only if DWELL_TEST_CITUS_URL names a cluster. If it does, the
// target's other tests use the cluster too, except those that start their own server.

import Engine
import JourneyModel
import Postgres
import Sockets
import TestSupport
import Testing

@testable import PostgresStore

@Suite(.enabled(if: CitusCluster.named != nil, "DWELL_TEST_CITUS_URL names no Citus cluster"))
struct CitusTests {
    @Test func `the migration distributes the tables of events by lane`() async throws {
        let database = try await StoreFixture.database()
        let distributed = try await database.rows(
            """
            SELECT logicalrelid, column_to_column_name(logicalrelid, partkey) FROM pg_dist_partition
            WHERE partmethod = 'h' AND logicalrelid IN (SELECT oid FROM pg_class
                WHERE relnamespace = current_schema()::regnamespace) ORDER BY logicalrelid::text
            """)
        #expect(
            distributed == ["driver|lane", "event|lane", "journey_base|lane", "session|lane", "session_owner|lane"])
        let isOnSeveral = try await database.rows(
            """
            SELECT count(DISTINCT (nodename, nodeport)) > 1 FROM citus_shards WHERE table_name = 'driver'::regclass
            """)
        #expect(isOnSeveral == ["t"], "the tests need two servers")
    }

    // MARK: One task

    private static let drivers = (0..<40).map { DriverID("one-task-\($0)") }
    /// An option for the end of a database's URL. It makes Citus reject each statement that goes to several shards.
    static let noFanOut = "%20-ccitus.multi_task_query_log_level%3Derror"

    /// With `noFanOut`, Citus itself rejects each statement that goes to more than one shard. The test therefore checks
    /// the exact statements that the store sends.
    @Test func `no statement of a driver's requests goes to more than one shard`() async throws {
        let database = try await StoreFixture.database()
        let user = try PostgresConfiguration(url: database.url + Self.noFanOut)
        try await StoreFixture.withStores(on: database, as: user) { (stores) async throws in
            let store = stores[0]
            _ = await #expect(throws: StoreFailure.self, "the setting has no effect") {
                try await store.earliestDeadline()
            }
            for round in 0..<3 {
                // Round 0 opens sessions. Round 1 adds late events. Round 2 repeats the events of round 1.
                let outcomes = await withTaskGroup(of: [EventOutcome].self) { group in
                    for driver in Self.drivers {
                        group.addTask { await store.append(Self.requests(round, of: driver)) }
                    }
                    return await group.reduce(into: []) { $0 += $1 }
                }
                #expect(outcomes.count == Self.drivers.count * 4)
                for outcome in outcomes {
                    switch (outcome, round) {
                    case (.stored, 0...1), (.replayed, 2): break
                    default: Issue.record("round \(round): \(outcome)")
                    }
                }
            }
            try await Self.readAndRegister(store)
        }
        #expect(try await database.rows("SELECT count(*) FROM event") == ["\(Self.drivers.count * 8)"])
        #expect(try await database.rows("SELECT count(*) FROM session_owner") == ["\(Self.drivers.count * 2)"])
    }

    private static func requests(_ round: Int, of driver: DriverID) -> [AppendRequest] {
        (0..<4).map { index in
            // The events of rounds 1 and 2 occur before those of round 0.
            let at = Moment.sample.advanced(bySeconds: (round == 0 ? 100 : 0) + index)
            let key = "\(min(round, 1))-\(index)"
            return .sample(
                .sample(.sessionRestored, key: key, session: "s-\(driver.rawValue)", at: at), of: driver)
        }
    }

    private static func readAndRegister(_ store: PostgresEventStore) async throws {
        _ = try await store.committedChanges(after: nil, among: Set(drivers))
        _ = try await store.driversAwaitingRefold(among: Set(drivers))
        for driver in drivers {
            let registration = SessionRegistration(
                sessionID: "r-\(driver.rawValue)", driver: driver, chargerID: "charger", merchantID: nil,
                receivedAt: .sample)
            #expect(try await store.register(registration) == .created)
            #expect(try await store.register(registration) == .existed)
            let request = requests(0, of: driver)[0]
            #expect(try await store.lookUp(request.submission, of: driver) != nil)
            _ = try await store.journey(of: driver)
            _ = try await store.changes(of: driver, after: 0)
            #expect(try await store.sessions(of: driver, limit: 10, after: nil)?.sessions.count == 2)
            guard
                case .found = try await store.timeline(of: "s-\(driver.rawValue)", of: driver, limit: 10, after: nil)
            else {
                Issue.record("no timeline")
                return
            }
            let expiry = ExpiryRequest(
                now: .sample.advanced(bySeconds: 100_000), settings: VersionedSettings(Settings()), driversMax: 1)
            _ = try await store.expire(driver, expiry).get()
        }
    }

    // MARK: The feed

    /// The test runs PREPARE TRANSACTION on a worker, which is a server other than the coordinator. While this
    /// transaction is prepared, the feed must not return an event that was stored after it.
    ///
    /// If a transaction writes on several servers, each worker prepares it, and commits it after the coordinator's
    /// commit. If the coordinator crashes between the two commits, the transaction may stay prepared.
    ///
    /// Citus itself ends a prepared transaction whose name contains the coordinator's group number. This test uses
    /// another group number.
    @Test func `readers of the feed wait for transactions that are prepared on another server`() async throws {
        let database = try await StoreFixture.database()
        let other = try await database.rows(
            """
            SELECT format('host=%s port=%s dbname=%s user=%s', nodename, nodeport, current_database(), current_user)
            FROM pg_dist_node WHERE noderole = 'primary' AND shouldhaveshards AND groupid > 0 LIMIT 1
            """)[0]
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            let store = stores[0]
            let append = { (key: String) in
                _ = try await store.appended(
                    .sample(.sample(.diagnostic("d"), key: key), of: DriverID("driver-\(key)")))
            }
            try await append("first")
            #expect(try await store.storedEvents(after: 0, limit: 10).map(\.eventID) == ["first"])
            let name = "citus_77_\(UInt32.random(in: .min ... .max))_1_1"
            try await PostgresServer.run(
                "BEGIN; CREATE TABLE \(name) (id int8); PREPARE TRANSACTION '\(name)'", at: other)
            do {
                try await append("second")
                #expect(try await store.storedEvents(after: 0, limit: 10).map(\.eventID) == ["first"])
            } catch {
                Issue.record("\(error)")
            }
            try await PostgresServer.run("ROLLBACK PREPARED '\(name)'", at: other)
            #expect(try await store.storedEvents(after: 0, limit: 10).map(\.eventID) == ["first", "second"])
        }
    }
}
