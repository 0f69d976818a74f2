// Tests of the counts over all drivers, of the records of `dwell explain`, and of the server's queries about the state
// of the database.

import Engine
import Identity
import JourneyModel
import Postgres
import SharedTables
import TestSupport
import Testing

@testable import PostgresStore

struct OperatorReadingTests {
    private let now = Moment.sample

    private func append(
        _ name: EventName, of driver: String, session: String? = nil, minutesAgo: Int, to store: PostgresEventStore
    ) async throws {
        let at = now.advanced(bySeconds: -60 * minutesAgo)
        let submission = EventSubmission.sample(name, key: "\(driver)\(minutesAgo)", session: session, at: at)
        _ = try await store.appended(.sample(submission, of: DriverID(driver), receivedAt: at))
    }

    private func withStore(_ body: @Sendable (PostgresEventStore) async throws -> Void) async throws {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(on: database) { (stores) async throws in try await body(stores[0]) }
    }

    /// In a large installation, counting the drivers takes longer than the time limit for a statement of a request. The
    /// limit must therefore not apply to the count.
    @Test(.enabled(if: CitusCluster.named == nil, "a view takes the place of the table"))
    func `the drivers are counted for longer than a request may take`() async throws {
        let database = try await StoreFixture.database()
        let configuration = try database.configuration(statementMilliseconds: 500)
        try await StoreFixture.withStores(on: database, as: configuration) { (stores) async throws in
            try await append(.enteredChargerIntentZone, of: "a", minutesAgo: 30, to: stores[0])
            try await database.slowDown("driver")
            #expect(try await stores[0].driverCounts() == [.nearCharger: 1])
        }
    }

    /// Long reads have a connection of their own. If they used the connections of other background work, a search for
    /// drivers to refold would delay the probe of /readyz. The server would then report that it is not ready.
    @Test func `long reads make no other background work wait`() async throws {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            let store = stores[0]
            // The probe of /readyz may take two seconds, so the sleep is longer.
            let sleep = PostgresStatement("sleep", "SELECT 1 FROM pg_sleep(6)")
            let reads = (0..<3).map { _ in
                Task { _ = try? await store.readLong(PostgresQuery(sleep), seconds: 30) }
            }
            _ = try await database.backend(waitingFor: "PgSleep")
            // If more than one long read had a connection, the second read would begin during this pause.
            try await Task.sleep(for: .milliseconds(300))
            try await store.checkWritable()
            for read in reads { read.cancel() }
            for read in reads { await read.value }
        }
    }

    /// When a server stops, it waits for its background work. A long read must not delay the stop.
    @Test func `a cancelled long read ends at once`() async throws {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            let store = stores[0]
            let sleep = PostgresStatement("sleep", "SELECT 1 FROM pg_sleep(20)")
            let read = Task { () async -> StoreFailure? in
                do throws(StoreFailure) {
                    _ = try await store.readLong(PostgresQuery(sleep), seconds: 30)
                    return nil
                } catch {
                    return error
                }
            }
            _ = try await database.backend(waitingFor: "PgSleep")
            let begin = ContinuousClock.now
            read.cancel()
            #expect(await read.value == .cancelled)
            #expect(ContinuousClock.now - begin < .seconds(10))
            // The next long read gets a new connection.
            let one = PostgresStatement("one", "SELECT 1")
            #expect(try await store.readLong(PostgresQuery(one), seconds: 20).rowCount == 1)
        }
    }

    @Test func `the last hour is counted, and then only what is new`() async throws {
        try await withStore { (store) async throws in
            try await append(.chargerTargeted, of: "a", minutesAgo: 90, to: store)
            try await append(.enteredChargerIntentZone, of: "a", minutesAgo: 30, to: store)
            try await append(.anchorDwellComplete, of: "b", minutesAgo: 20, to: store)
            try await append(.diagnostic("teleport_detected"), of: "b", minutesAgo: 10, to: store)
            try await append(.diagnostic("d"), of: DriverID.simulatedPrefix + "1", minutesAgo: 5, to: store)
            #expect(try await store.driverCounts() == [.nearCharger: 1, .idle: 1])
            let first = try await store.tallies(after: nil, since: now.advanced(bySeconds: -3600))
            #expect(first.isWhole)
            #expect(
                Set(first.tallies.map(\.name)) == ["enteredChargerIntentZone", "anchorDwellComplete", "diagnostic"])
            #expect(first.tallies.map(\.count) == [1, 1, 1])
            try await append(.anchorDwellComplete, of: "a", minutesAgo: 0, to: store)
            let second = try await store.tallies(after: first.last, since: now)
            #expect(second.tallies.map(\.name) == ["anchorDwellComplete"])
            #expect(second.tallies.map(\.state) == [.anchored])
            #expect(try await store.tallies(after: second.last, since: now).tallies == [])
            #expect(try await store.storageBytes() > 0)
            #expect(try await store.settingsVersions(limit: 5).map(\.version) == [Settings().version])
            #expect(try await store.receivedAt(ofFirstEventAfter: 0) == now.advanced(bySeconds: -90 * 60))
            #expect(try await store.oldestEventReceivedAt() == now.advanced(bySeconds: -90 * 60))
            #expect(try await store.removeSimulatedDrivers(driversMax: 8).drivers == 1)
            #expect(try await store.eventCount() == 5)
        }
    }

    @Test(.enabled(if: CitusCluster.named == nil, "the workers of Citus count the rows that they read"))
    func `the page of a driver reads few of the driver's many events`() async throws {
        let database = try await StoreFixture.database()
        let (driver, count) = (DriverID("a"), 2_000)
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            let events = (1...count).map { number in
                AppendRequest.sample(
                    .sample(.diagnostic("ping"), key: "\(number)", at: now.advanced(bySeconds: number)), of: driver)
            }
            _ = await stores[0].append(events)
        }
        let before = try await database.fetchedRows(of: "event")
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            let detail = try await stores[0].driver(driver, sessions: 20, events: 50)
            #expect(detail?.events.map(\.occurredAt) == (0..<50).map { now.advanced(bySeconds: count - $0) })
        }
        #expect(try await database.fetchedRows(of: "event") - before < count / 2)
    }

    @Test(.enabled(if: CitusCluster.named == nil, "the workers of Citus count the rows that they read"))
    func `the removal of a simulated driver does not read the sessions of all drivers`() async throws {
        let database = try await StoreFixture.database()
        let (driver, count) = (DriverID(DriverID.simulatedPrefix + "1"), 20_000)
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            for event in SampleJourney.whole(prefix: "x", session: "simulated") {
                _ = try await stores[0].appended(.sample(event, of: driver))
            }
            #expect(try await database.rows("SELECT count(*) FROM session_owner") == ["1"])
            try await database.rows(
                """
                INSERT INTO session_owner (lane, session_id, owner_lane, owner, claimed_at_ms)
                SELECT 0, 's' || number, 0, 0, 0 FROM generate_series(1, \(count)) number
                """)
            let read = try await stores[0].change { (db: any SQLTransaction) -> Int64? in
                _ = try SimulatedDrivers.remove(driversMax: 8, db)
                return try Int64.fetchOne(
                    db,
                    sql: """
                        SELECT CAST(idx_tup_fetch + seq_tup_read AS int8) FROM pg_stat_xact_user_tables
                        WHERE relname = 'session_owner'
                        """)
            }
            #expect(try #require(read) < count / 2)
        }
        #expect(try await database.rows("SELECT count(*) FROM session_owner") == ["\(count)"])
    }

    @Test func `a session is found with its driver and its records`() async throws {
        try await withStore { (store) async throws in
            let driver = DriverID("a")
            for event in SampleJourney.whole(prefix: "x", session: "first")
                + SampleJourney.whole(
                    prefix: "y", session: "second", from: now.advanced(bySeconds: 600))
            {
                _ = try await store.appended(.sample(event, of: driver))
            }
            #expect(try await store.operatorTimeline(of: "second", limit: 10)?.driver == driver)
            #expect(try await store.operatorTimeline(of: "third", limit: 10) == nil)
            let all = try #require(try await store.recordedEvents(of: driver, limit: 100))
            #expect(all.events.map(\.idempotencyKey) == (0..<8).map { "x\($0)" } + (0..<8).map { "y\($0)" })
            #expect(all.isCut == false)
            #expect(all.events[0].before == Journey())
            for (event, next) in zip(all.events, all.events.dropFirst()) { #expect(event.after == next.before) }
            let last = try #require(try await store.recordedEvents(of: driver, limit: 3))
            #expect(last.events.map(\.idempotencyKey) == ["y5", "y6", "y7"] && last.isCut)
            let second = try #require(try await store.recordedEvents(ofSession: "second", limit: 100))
            // A journey begins with the first event after the end of the previous journey.
            #expect(second.events.map(\.idempotencyKey) == ["x7"] + (0..<8).map { "y\($0)" })
            #expect(try await store.recordedEvents(ofSession: "third", limit: 100) == nil)
        }
    }

    @Test func `the database can be written to and names its schema`() async throws {
        try await withStore { (store) async throws in
            try await store.checkWritable()
            let schema = try await store.schema(openedAtMilliseconds: 1)
            #expect(schema.number == PostgresMigration.all.count)
            #expect(schema.migrationsRun.first == "events")
            #expect(try await store.schema(openedAtMilliseconds: 2).migrationsRun == [])
        }
    }

    @Test func `a driver is found by id, phone number and email address`() async throws {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            let store = stores[0]
            for driver in ["found", "other"] {
                _ = try await store.appended(.sample(.sample(.chargerTargeted, key: "k"), of: DriverID(driver)))
            }
            let phone = try #require(PhoneNumber("+14155550123"))
            try await store.change { (db: any SQLTransaction) in
                let row = try Int64.fetchOne(db, sql: "SELECT id FROM driver WHERE driver_id = 'found'")
                try db.execute(
                    sql: """
                        INSERT INTO account (driver, name, email, role, created_at_ms)
                        VALUES (?, 'Marta', 'Marta@example.org', 'driver', 1)
                        """, arguments: [row])
                try db.execute(
                    sql: "INSERT INTO phone_identity (phone, driver, linked_at_ms) VALUES (?, ?, 1)",
                    arguments: [phone.e164, row])
            }
            for question in [.id(DriverID("found")), .phone(phone), DriverQuery.email("marta@EXAMPLE.org")] {
                let found = try await store.find(question)
                #expect(found.map(\.id) == [DriverID("found")])
                #expect(found.map(\.name) == ["Marta"] && found.map(\.phone) == [phone.e164])
                #expect(found.map(\.events) == [1] && found.first?.lastReceivedAt != nil)
            }
            #expect(try await store.find(DriverQuery.id(DriverID("nobody"))).isEmpty)
        }
    }

    @Test(.enabled(if: CitusCluster.named == nil, "the database of the cluster belongs to all tests"))
    func `a server that is only readable is not ready`() async throws {
        let database = try await StoreFixture.database()
        _ = try await database.rows("ALTER DATABASE \(database.name) SET default_transaction_read_only = on")
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            _ = await #expect(throws: StoreFailure.self) { try await stores[0].checkWritable() }
        }
    }
}
