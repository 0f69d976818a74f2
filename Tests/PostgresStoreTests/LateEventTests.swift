// Tests of late events: how many stored events are folded again and written, and what the driver's rate limit is
// charged.

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

    /// The charges of drivers whose rate limits are off.
    private static let unlimited = RefoldCharges(
        admission: LocalRateLimiter(limits: noLimits), limits: noLimits)
    private static let noLimits = RateLimits(sessionEvents: 0, preSessionEvents: 0)

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
            // This diagnostic event changes no state. The refold therefore stops at the next event, whose stored
            // journey stays the same.
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
                // The journey after the 300th event is the same, whatever events come before it.
                let name: EventName = number == 300 ? .chargerTargeted : .diagnostic("ping")
                return request(name, "\(number)", at: number)
            }
            _ = await stores[0].append(events)
        }
        let before = try await database.fetchedRows(of: "event")
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
        let read = try await database.fetchedRows(of: "event") - before
        #expect(read < count / 2)
        #expect(
            try await database.rows("SELECT count(*), max(seq), count(*) FILTER (WHERE after_state = 0) FROM event")
                == ["\(count + 3)|\(count + 3)|\(count + 3)"])
    }

    /// Expects that all of the events are stored.
    private func store(_ requests: [AppendRequest], in store: PostgresEventStore) async {
        for outcome in await store.append(requests) {
            guard case .stored = outcome else {
                Issue.record("\(outcome)")
                return
            }
        }
    }

    /// After the first 100 events of the same time, each further one is charged to a rate limit. If the limit is off,
    /// these events must not each need a batch of their own.
    ///
    /// If they did, 500 events would need 400 batches. Each batch reads the stored events, so the request would exceed
    /// its time limit.
    @Test func `events of one time and without a limit share batches`() async throws {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(on: database, charging: Self.unlimited) { (stores) async throws in
            await store((0..<500).map { request(.chargerTargeted, "same-\($0)", at: 0) }, in: stores[0])
        }
        let rows = try await database.rows("SELECT count(*), count(DISTINCT batch) < 20 FROM event")
        #expect(rows == ["500|t"])
    }

    /// A batch reads all stored events after its earliest late event. These suffice to fold the batch's other late
    /// events too, so the 300 late events do not need 300 batches.
    @Test(arguments: [120, 1_500])
    func `late events in any order share batches`(laterCount: Int) async throws {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(on: database, charging: Self.unlimited) { (stores) async throws in
            let later = (0..<laterCount).map { request(.diagnostic("ping"), "later-\($0)", at: 1_000 + $0) }
            await store(later, in: stores[0])
            await store((0..<300).map { request(.chargerTargeted, "late-\($0)", at: 900 - $0) }, in: stores[0])
        }
        let rows = try await database.rows(
            "SELECT count(*), count(DISTINCT batch) < 20 FROM event WHERE idempotency_key LIKE 'late-%'")
        #expect(rows == ["300|t"])
    }

    /// The late events lie between stored events, so a batch must read more stored events than it reads at first.
    @Test func `late events between many others share batches`() async throws {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(on: database, charging: Self.unlimited) { (stores) async throws in
            await store((0..<3_000).map { request(.diagnostic("ping"), "stored-\($0)", at: 10 * $0) }, in: stores[0])
            let late = (0..<200).map { request(.diagnostic("ping"), "late-\($0)", at: 29_905 - 140 * $0) }
            await store(late, in: stores[0])
        }
        let rows = try await database.rows(
            "SELECT count(*), count(DISTINCT batch) < 20 FROM event WHERE idempotency_key LIKE 'late-%'")
        #expect(rows == ["200|t"])
    }

    private final class Permits: RefoldCharging {
        private let max: Int
        private let askedCount = Mutex(0)

        init(_ max: Int) { self.max = max }

        func permitsRefold(_ claim: AdmissionClaim, sharingTime: Int) -> Bool {
            askedCount.withLock { count in
                count += 1
                return count <= max
            }
        }

        func charge(_ claim: AdmissionClaim, rowCount: Int) {}
    }

    /// A service has one limit for all its drivers. While this driver's refold is written in parts, another driver's
    /// event may use up the limit. The store must keep both the event and its refold, or neither.
    @Test func `a refold in parts is not committed without its event`() async throws {
        var permitted = 0
        while try await !isStored(permitting: permitted) {
            permitted += 1
            try #require(permitted < 20)
        }
        #expect(permitted > 1, "the limit was asked more than once")
    }

    /// Appends a late event before 1,200 stored events, under a limit of `permitted` refolds. Returns whether the event
    /// was stored. If not, expects that no stored event was folded again.
    private func isStored(permitting permitted: Int) async throws -> Bool {
        let database = try await StoreFixture.database()
        let outcome = try await StoreFixture.withStores(on: database, charging: Permits(permitted), tailMax: 500) {
            (stores) async throws in
            _ = await stores[0].append((1...1_200).map { request(.diagnostic("ping"), "later-\($0)", at: $0) })
            return await stores[0].append(request(.enteredChargerIntentZone, "late", at: 0))
        }
        let isStored = if case .stored = outcome { true } else { false }
        #expect(isStored || outcome == .rateLimited)
        let rows = try await database.rows("SELECT count(*) FROM event WHERE after_state = 1")
        #expect(rows == [isStored ? "1201" : "0"])
        return isStored
    }

    /// For each of the three late events, the store reads another part of the driver's events. The rate limit refuses
    /// all three, so the store writes nothing.
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

    /// The deadlines of both drivers have passed. The expiry of the late event's driver must wait for the refold. The
    /// other driver's expiry must be stored at once.
    @Test(.enabled(if: CitusCluster.named == nil, "Citus has no triggers on distributed tables"))
    func `the deadlines of other drivers do not wait for a long refold`() async throws {
        let database = try await StoreFixture.database()
        try await refoldsRun("PERFORM pg_sleep(5)", in: database)
        let other = DriverID("other")
        let expiry = ExpiryRequest(
            now: .sample.advanced(bySeconds: 900_000), settings: VersionedSettings(Settings()), driversMax: 8)
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            await store((1...1_200).map { request(.diagnostic("ping"), "later-\($0)", at: $0) }, in: stores[0])
            for driver in [self.driver, other] {
                let events = SampleJourney.whole(
                    prefix: "s", session: driver.rawValue, from: .sample.advanced(bySeconds: 2_000))
                await store(events.prefix(4).map { .sample($0, of: driver) }, in: stores[0])
            }
            async let late = stores[0].append(request(.enteredChargerIntentZone, "late", at: 0))
            _ = try await database.backend(waitingFor: "PgSleep")
            let begin = ContinuousClock.now
            let stored = try await stores[0].storeExpiries(expiry)
            #expect(stored.drivers == [other] && stored.failures.count == 1)
            #expect(.now - begin < .seconds(3))
            guard case .stored = await late else {
                Issue.record("\(await late)")
                return
            }
            #expect(try await stores[0].storeExpiries(expiry).drivers == [driver])
        }
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

    /// The driver is folded again because the rules have changed, not because of the event.
    @Test(.enabled(if: CitusCluster.named == nil, "Citus has no triggers on distributed tables"))
    func `an event is not charged for a refold by new rules that takes too long`() async throws {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            await store((1...1_200).map { request(.diagnostic("ping"), "earlier-\($0)", at: $0) }, in: stores[0])
        }
        try await database.rows("UPDATE event SET after_state = 1; UPDATE driver SET rules = rules - 1")
        try await refoldsRun("RAISE EXCEPTION 'too slow' USING ERRCODE = 'query_canceled'", in: database)
        let charging = Charging()
        try await StoreFixture.withStores(on: database, requestSeconds: 1, charging: charging) {
            (stores) async throws in
            let outcome = await stores[0].append(request(.diagnostic("ping"), "late", at: 0))
            guard case .failed(.unavailable) = outcome else {
                Issue.record("\(outcome)")
                return
            }
        }
        #expect(charging.charged.withLock { $0 } == [])
    }

    @Test func `a late event before very many others is folded in parts`() async throws {
        let database = try await StoreFixture.database()
        let charging = Charging()
        try await StoreFixture.withStores(on: database, charging: charging, tailMax: 500) { (stores) async throws in
            // No event is at 1,001 seconds.
            let later = (1...2_500).map { request(.diagnostic("ping"), "later-\($0)", at: $0 > 1_000 ? $0 + 1 : $0) }
            _ = await stores[0].append(later)
            let late = request(.enteredChargerIntentZone, "early", at: 0)
            let outcomes = await stores[0].append([late, request(.diagnostic("ping"), "last", at: 3_000), late])
            guard case .stored(let event) = outcomes[0], case .stored = outcomes[1], case .replayed = outcomes[2]
            else {
                Issue.record("\(outcomes)")
                return
            }
            #expect(event.verdict == .applied && event.journey.state == .nearCharger)
            #expect(charging.charged.withLock { $0 } == [2_500])
            let exited = request(.exitedChargerIntentZone, "late", at: 1_001)
            guard case .stored(let event) = await stores[0].append(exited) else {
                Issue.record("an event before fewer others")
                return
            }
            #expect(event.verdict == .applied && event.chargesRefold)
            #expect(charging.charged.withLock { $0 } == [2_500, 1_501])
        }
        let counts = "SELECT count(*), count(*) FILTER (WHERE after_state = 1), count(DISTINCT position) FROM event"
        #expect(try await database.rows(counts) == ["2503|1001|2503"])
        #expect(try await database.rows("SELECT head_seq, last_seq FROM driver") == ["2502|2503"])
    }

    @Test func `a long refold that meets the stored journey ends there`() async throws {
        let database = try await StoreFixture.database()
        let charging = Charging()
        try await StoreFixture.withStores(on: database, charging: charging, tailBegin: 1, tailMax: 100) {
            (stores) async throws in
            let pings = (1...1_000).map { request(.diagnostic("ping"), "later-\($0)", at: $0 > 350 ? $0 + 1 : $0) }
            let entered = request(.enteredChargerIntentZone, "entered", at: 351)
            _ = await stores[0].append(pings + [entered])
            guard case .stored(let event) = await stores[0].append(request(.enteredChargerIntentZone, "late", at: 0))
            else {
                Issue.record("the late event")
                return
            }
            #expect(event.verdict == .applied && event.journey.state == .nearCharger)
            // The refold ends at the event `entered`, because the journey stored with it does not change.
            #expect(charging.charged.withLock { $0 } == [650, 351])
        }
        #expect(try await database.rows("SELECT count(*) FILTER (WHERE after_state = 1) FROM event") == ["1002"])
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
