// Tests of late events: how many events are folded again and written, and what that costs the driver.

import Engine
import JourneyModel
import Postgres
import RateLimiting
import Synchronization
import TestSupport
import Testing

@testable import PostgresStore

struct LateEventTests {
    private final class Charging: RefoldCharging {
        let permits = Mutex(true)
        let charged = Mutex([Int]())

        func permitsRefold(_ claim: AdmissionClaim, sharingTime: Int) -> Bool { permits.withLock { $0 } }

        func charge(_ claim: AdmissionClaim, rowCount: Int) { charged.withLock { $0.append(rowCount) } }
    }

    private let driver = DriverID("late")

    private func request(_ name: EventName, _ key: String, at seconds: Int) -> AppendRequest {
        .sample(.sample(name, key: key, at: .sample.advanced(bySeconds: seconds)), of: driver)
    }

    @Test func `a late event is charged by the number of events folded again`() async throws {
        let database = try await StoreFixture.database()
        let charging = Charging()
        try await StoreFixture.withStores(on: database, charging: charging) { (stores) async throws in
            let later = (1...120).map { request(.diagnostic("ping"), "later-\($0)", at: $0) }
            for outcome in await stores[0].append(later) {
                guard case .stored(let event) = outcome else {
                    Issue.record("\(outcome)")
                    return
                }
                #expect(!event.chargesRefold)
            }
            #expect(charging.charged.withLock { $0 } == [], "in order")
            guard case .stored(let late) = await stores[0].append(request(.enteredChargerIntentZone, "late", at: 0))
            else {
                Issue.record("the late event")
                return
            }
            #expect(late.verdict == .applied && late.chargesRefold && late.journey.state == .nearCharger)
            #expect(charging.charged.withLock { $0 } == [120])
            // This diagnostic event changes no state. The refold therefore stops at the next event, after which the
            // journey equals the stored one.
            guard case .stored(let quiet) = await stores[0].append(request(.diagnostic("pong"), "quiet", at: 60)) else {
                Issue.record("the quiet event")
                return
            }
            #expect(!quiet.chargesRefold)

            charging.permits.withLock { $0 = false }
            #expect(await stores[0].append(request(.chargerTargeted, "refused", at: 1)) == .rateLimited)
            guard case .stored = await stores[0].append(request(.anchorDwellComplete, "last", at: 500)) else {
                Issue.record("an event in order")
                return
            }
        }
        let rows = try await database.rows("SELECT count(*), count(*) FILTER (WHERE after_state = 1) FROM event")
        #expect(rows == ["123|122"], "all but the last are near the charger")
    }

    @Test(.enabled(if: CitusCluster.named == nil, "the workers of Citus count the rows that they read"))
    func `a late event reads the stored events after it until the journey is the stored one`() async throws {
        let database = try await StoreFixture.database()
        let count = 3_000
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            let events = (1...count).map { number in
                // From the 300th event on, the journey does not depend on the events before it.
                let name: EventName = number == 300 ? .chargerTargeted : .diagnostic("ping")
                return request(name, "\(number)", at: number)
            }
            _ = await stores[0].append(events)
        }
        let before = try await fetched(in: database)
        let late = [
            request(.diagnostic("pong"), "quiet", at: 2_000), request(.chargerTargeted, "changing", at: 100),
            request(.anchorDwellComplete, "in order", at: count + 1),
        ]
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            for outcome in await stores[0].append(late) {
                guard case .stored = outcome else {
                    Issue.record("\(outcome)")
                    return
                }
            }
        }
        let read = try await fetched(in: database) - before
        #expect(read < count / 2)
        #expect(
            try await database.rows("SELECT count(*), max(seq), count(*) FILTER (WHERE after_state = 0) FROM event")
                == ["\(count + 3)|\(count + 3)|\(count + 3)"])
    }

    /// The three late events have different positions, so the store reads different parts of the driver's events for
    /// them. The rate limit refuses all three, so the store writes nothing.
    @Test(.timeLimit(.minutes(2)))
    func `three late events far from each other that are refused are all answered`() async throws {
        let database = try await StoreFixture.database()
        let charging = Charging()
        try await StoreFixture.withStores(on: database, charging: charging) { (stores) async throws in
            _ = await stores[0].append((1...500).map { request(.diagnostic("ping"), "\($0)", at: $0) })
            charging.permits.withLock { $0 = false }
            let late = [
                request(.chargerTargeted, "one", at: 400), request(.chargerTargeted, "two", at: 20),
                request(.chargerTargeted, "three", at: 200),
            ]
            #expect(await stores[0].append(late) == [.rateLimited, .rateLimited, .rateLimited])
        }
    }

    /// Returns how many rows of `event` PostgreSQL has fetched through indexes. PostgreSQL adds the last counts of a
    /// connection when the connection ends, so this function first waits until all connections have ended.
    private func fetched(in database: StoreFixture.Database) async throws -> Int {
        let connections =
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        while try await database.rows("\(connections) AND backend_type = 'client backend'") != ["0"] {
            try await Task.sleep(for: .milliseconds(10))
        }
        let count = try await database.rows("SELECT idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'event'")
        return try #require(Int(count.first ?? ""))
    }

    /// A limit that one charge uses up.
    private final class OneCharge: RefoldCharging {
        private let isCharged = Mutex(false)

        func permitsRefold(_ claim: AdmissionClaim, sharingTime: Int) -> Bool { isCharged.withLock { !$0 } }

        func charge(_ claim: AdmissionClaim, rowCount: Int) { isCharged.withLock { $0 = true } }
    }

    /// Makes each statement that folds stored events again run `body`.
    private func refoldsRun(_ body: String, in database: StoreFixture.Database) async throws {
        try await database.rows(
            """
            CREATE FUNCTION refolding() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \(body); RETURN NULL; END $$;
            CREATE TRIGGER refolding AFTER UPDATE ON event FOR EACH STATEMENT EXECUTE FUNCTION refolding();
            """)
    }

    @Test(.enabled(if: CitusCluster.named == nil, "Citus has no triggers on distributed tables"))
    func `a long refold may exceed the session's time limits`() async throws {
        let database = try await StoreFixture.database()
        try await refoldsRun("PERFORM pg_sleep(2)", in: database)
        var configuration = try database.configuration
        configuration.statementTimeoutMilliseconds = 1_000
        configuration.idleInTransactionTimeoutMilliseconds = 1
        try await StoreFixture.withStores(on: database, requestSeconds: 10, as: configuration) {
            (stores) async throws in
            _ = await stores[0].append((1...1_200).map { request(.diagnostic("ping"), "later-\($0)", at: $0) })
            guard case .stored(let event) = await stores[0].append(request(.enteredChargerIntentZone, "late", at: 0))
            else {
                Issue.record("the late event")
                return
            }
            #expect(event.verdict == .applied && event.journey.state == .nearCharger)
        }
        let rows = try await database.rows("SELECT count(*), count(*) FILTER (WHERE after_state = 1) FROM event")
        #expect(rows == ["1201|1201"])
    }

    @Test(.enabled(if: CitusCluster.named == nil, "Citus has no triggers on distributed tables"))
    func `a late event whose refold takes too long is charged, and then refused`() async throws {
        let database = try await StoreFixture.database()
        try await refoldsRun("RAISE EXCEPTION 'too slow' USING ERRCODE = 'query_canceled'", in: database)
        try await StoreFixture.withStores(on: database, charging: OneCharge()) { (stores) async throws in
            _ = await stores[0].append((1...1_200).map { request(.diagnostic("ping"), "later-\($0)", at: $0) })
            #expect(await stores[0].append(request(.enteredChargerIntentZone, "late", at: 0)) == .rateLimited)
        }
        #expect(try await database.rows("SELECT count(*) FROM event") == ["1200"])
    }

    @Test func `a late event before very many others is refused and charged`() async throws {
        let database = try await StoreFixture.database()
        let charging = Charging()
        try await StoreFixture.withStores(on: database, charging: charging, tailMax: 2_000) { (stores) async throws in
            // No event is at 1,001 seconds.
            let later = (1...2_500).map { request(.diagnostic("ping"), "later-\($0)", at: $0 > 1_000 ? $0 + 1 : $0) }
            _ = await stores[0].append(later)
            let outcomes = await stores[0].append([
                request(.enteredChargerIntentZone, "too early", at: 0), request(.diagnostic("ping"), "last", at: 3_000),
            ])
            guard outcomes[0] == .rateLimited, case .stored = outcomes[1] else {
                Issue.record("\(outcomes)")
                return
            }
            // One event more than the maximum is read, to find out whether there are more.
            #expect(charging.charged.withLock { $0 } == [2_001])
            let late = request(.enteredChargerIntentZone, "late", at: 1_001)
            guard case .stored(let event) = await stores[0].append(late) else {
                Issue.record("an event before fewer others")
                return
            }
            #expect(event.verdict == .applied && event.chargesRefold)
            #expect(charging.charged.withLock { $0 } == [2_001, 1_501])
        }
        #expect(try await database.rows("SELECT count(*) FROM event") == ["2502"])
    }

    @Test(arguments: [150, 1_200])
    func `the late events of one call are charged one after the other, also alone`(count: Int) async throws {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(on: database, charging: OneCharge()) { (stores) async throws in
            _ = await stores[0].append((1...count).map { request(.diagnostic("ping"), "later-\($0)", at: $0) })
            let late = [
                request(.enteredChargerIntentZone, "first", at: 0), request(.chargerTargeted, "second", at: 0),
                request(.diagnostic("ping"), "in order", at: count + 1),
            ]
            let outcomes = await stores[0].append(late)
            guard case .stored(let first) = outcomes[0], outcomes[1] == .rateLimited, case .stored = outcomes[2] else {
                Issue.record("\(outcomes)")
                return
            }
            #expect(first.verdict == .applied && first.chargesRefold)
        }
        #expect(try await database.rows("SELECT count(*), max(seq) FROM event") == ["\(count + 2)|\(count + 2)"])
    }
}
