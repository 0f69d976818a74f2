// Tests of the deletion of a driver's events and sessions. The deletion runs in pieces and can be resumed. For some
// time after a deletion, the driver's events do not create the driver again.

import Crypto
import Engine
import Identity
import JourneyModel
import SharedTables
import TestSupport
import Testing

@testable import PostgresStore

struct ErasureTests {
    static let digests = KeyedHashes(secret: SymmetricKey(data: Array(repeating: 1 as UInt8, count: 32)))

    private static func tombstone(_ driver: DriverID, at now: Moment, _ db: any SQLTransaction) throws {
        try db.execute(
            sql: "INSERT INTO erased_driver (driver_digest, erased_at_ms) VALUES (?, ?)",
            arguments: [digests.driver(driver), now.millisecondsSinceEpoch])
    }

    /// Begins the deletion of a driver's events, but not of the account (`Erasing` deletes both). Returns the id of the
    /// driver's row, or nil if the driver has no row.
    static func begin(
        _ driver: DriverID, pseudonym: String, at now: Moment, in store: PostgresEventStore
    ) async throws -> Int64? {
        try await store.change { (db: any SQLTransaction) -> Int64? in
            let row = try Int64.fetchOne(
                db, sql: "SELECT id FROM driver WHERE driver_id = ?", arguments: [driver.rawValue])
            if let row {
                try store.beginErasure(of: row, digest: digests.driver(driver), pseudonym: pseudonym, db)
            } else {
                try store.collideWithAdding(driver, at: now, db)
            }
            try tombstone(driver, at: now, db)
            try db.execute(
                sql: "INSERT INTO audit (at_ms, action, outcome, reason, driver) VALUES (?, 'erased', 'done', 'r', ?)",
                arguments: [now.millisecondsSinceEpoch, row])
            if let row { _ = try store.eraseFirstRows(of: row, db) }
            return row
        }
    }

    /// Returns `count` requests of a driver. All texts that a client can choose contain `word`, so a search for `word`
    /// finds what the deletion has missed.
    static func requests(_ count: Int, of driver: DriverID, word: String) -> [AppendRequest] {
        (0..<count).map { index in
            let names: [EventName] = [
                .enteredChargerIntentZone, .anchorDwellComplete, .exclusiveActivatedByWeb, .diagnostic("\(word)_seen"),
            ]
            let name = names[index % names.count]
            var submission = EventSubmission.sample(
                name, key: "\(word)-\(index)", eventID: index % 2 == 0 ? "\(word)-event-\(index)" : nil,
                session: name.requiresSession ? "\(word)-session-\(index / 4)" : nil, charger: "\(word)-charger",
                merchant: "\(word)-merchant", at: .sample.advanced(bySeconds: index / 3),
                sequence: 15_550_000_000 + Int64(index % 5), source: "\(word)-source",
                metadata: "{\"name\":\"\(word)\"}")
            submission.details = "{\"detail\":\"\(word)\"}"
            return AppendRequest.sample(submission, of: driver)
        }
    }

    private static func order(_ store: PostgresEventStore, _ database: StoreFixture.Database) async throws -> [String] {
        try await database.rows("SELECT seq, transition, after_state FROM event ORDER BY \(EventStatements.ascending)")
    }

    @Test func `nothing of the driver is left, and the order of the events is`() async throws {
        let database = try await StoreFixture.database()
        let driver = DriverID("drv_marta")
        try await StoreFixture.withStores(on: database, digests: Self.digests) { (stores) async throws in
            let store = stores[0]
            for request in Self.requests(1400, of: driver, word: "marta") { _ = await store.append([request]) }
            let other = DriverID("drv_other")
            _ = try await store.appended(.sample(.sample(.chargerTargeted, key: "o", charger: "c"), of: other))
            let before = try await Self.order(store, database)
            let place = try await store.fed(before.count).count
            #expect(place == before.count)
            let row = try #require(
                try await Self.begin(driver, pseudonym: "erased-1", at: .sample.advanced(bySeconds: 9000), in: store))
            // The first piece has rewritten only some of the events. Until the deletion is complete, the feed returns
            // nothing.
            #expect(try await store.unfinished() == [row])
            #expect(try await store.storedEvents(after: 0, limit: 10) == [])
            #expect(try await store.leftovers(ofReceipt: "r")?.isEmpty == false)
            try await store.completeErasure(of: row)
            #expect(try await store.unfinished() == [])
            #expect(try await store.find(["marta", "1555000"]) == [])
            #expect(try await store.leftovers(ofReceipt: "r") == [])
            #expect(try await store.leftovers(ofReceipt: "unknown") == nil)
            #expect(try await Self.order(store, database) == before)
            let fed = try await store.fed(before.count)
            #expect(fed.count == before.count)
            #expect(Set(fed.map(\.eventID)).count == fed.count)
            #expect(fed.last?.sent.chargerID == "c")
            // The remaining rows are consistent: each event's session has a row of the event's driver, and this driver
            // owns the session.
            let unnamed = try await database.rows(
                """
                WITH owned AS MATERIALIZED (SELECT session_id, owner FROM session_owner),
                known AS MATERIALIZED (
                    SELECT session.driver, session.session_id FROM session
                    JOIN owned ON owned.session_id = session.session_id AND owned.owner = session.driver)
                SELECT count(*) FROM event LEFT JOIN known
                    ON known.driver = event.driver AND known.session_id = event.session_id
                WHERE event.session_id IS NOT NULL AND known.driver IS NULL
                """)
            #expect(unnamed == ["0"])
        }
    }

    /// The table is new and has no statistics, so PostgreSQL's planner does not know that the driver has many events.
    /// Even so, the plan must not read all of them for each rewritten event.
    @Test func `a piece reads few rows beside those that it rewrites`() async throws {
        let database = try await StoreFixture.database()
        let driver = DriverID("drv_marta")
        let count = 2000
        try await StoreFixture.withStores(on: database, digests: Self.digests) { (stores) async throws in
            for request in Self.requests(count, of: driver, word: "marta") { _ = await stores[0].append([request]) }
            let row = try #require(
                try await Self.begin(
                    driver, pseudonym: "erased-1", at: .sample.advanced(bySeconds: 9000), in: stores[0]))
            let read = try await stores[0].change { (db: any SQLTransaction) -> Int64? in
                var progress = try ErasureProgress(of: row, db)
                _ = try progress?.advance(db)
                return try Int64.fetchOne(
                    db,
                    sql: """
                        SELECT CAST(idx_tup_fetch + seq_tup_read AS int8) FROM pg_stat_xact_user_tables
                        WHERE relname = 'event'
                        """)
            }
            #expect(try #require(read) < 10 * count)
        }
    }

    @Test func `a deletion that was interrupted is completed by another instance`() async throws {
        let database = try await StoreFixture.database()
        let driver = DriverID("drv_marta")
        let row = try await StoreFixture.withStores(on: database, digests: Self.digests) { (stores) async throws in
            for request in Self.requests(900, of: driver, word: "marta") { _ = await stores[0].append([request]) }
            return try await Self.begin(
                driver, pseudonym: "erased-1", at: .sample.advanced(bySeconds: 9000), in: stores[0])
        }
        try await StoreFixture.withStores(2, on: database, digests: Self.digests) { (stores) async throws in
            let row = try #require(row)
            #expect(try await stores[1].unfinished() == [row])
            // Both stores complete the same deletion, as two instances do if they start at the same time.
            async let first: Void = stores[0].completeErasure(of: row)
            async let second: Void = stores[1].completeErasure(of: row)
            _ = try await (first, second)
            #expect(try await stores[0].find(["marta"]) == [])
            #expect(try await stores[0].leftovers(ofReceipt: "r") == [])
        }
    }

    @Test func `an expiry that is stored during a deletion has the new ids`() async throws {
        let database = try await StoreFixture.database()
        let driver = DriverID("drv_marta")
        try await StoreFixture.withStores(on: database, digests: Self.digests) { (stores) async throws in
            let store = stores[0]
            for request in Self.requests(603, of: driver, word: "marta") { _ = await store.append([request]) }
            #expect(try await store.journey(of: driver).hardDeadline != nil)
            let row = try #require(
                try await Self.begin(driver, pseudonym: "erased-1", at: .sample.advanced(bySeconds: 9000), in: store))
            let expiry = ExpiryRequest(
                now: .sample.advanced(bySeconds: 900_000), settings: VersionedSettings(Settings()), driversMax: 8)
            #expect(try await store.storeExpiries(expiry).drivers.map { $0.rawValue.hasPrefix("erased-1") } == [true])
            try await store.completeErasure(of: row)
            #expect(try await store.find(["marta"]) == [])
            #expect(try await store.leftovers(ofReceipt: "r") == [])
        }
    }

    @Test func `an event does not create a driver who was just deleted, and later it does`() async throws {
        let database = try await StoreFixture.database()
        let driver = DriverID("drv_marta")
        let now = Moment.sample.advanced(bySeconds: 3600)
        try await StoreFixture.withStores(2, on: database, digests: Self.digests) { (stores) async throws in
            _ = try await stores[0].appended(.sample(.sample(.chargerTargeted, key: "k"), of: driver))
            _ = try await Self.begin(driver, pseudonym: "erased-1", at: now, in: stores[0])
            for store in stores {
                let outcome = await store.append(.sample(.sample(.chargerTargeted, key: "l"), of: driver))
                guard case .failed(.driverErased) = outcome else {
                    Issue.record("\(outcome)")
                    continue
                }
                await #expect(throws: StoreFailure.driverErased) {
                    try await store.register(
                        SessionRegistration(
                            sessionID: "s", driver: driver, chargerID: nil, merchantID: nil, receivedAt: now))
                }
            }
            let later = AppendRequest.sample(
                .sample(.chargerTargeted, key: "m"), of: driver, receivedAt: now.advanced(bySeconds: 61))
            guard case .stored = try await stores[1].appended(later) else {
                Issue.record("not stored")
                return
            }
        }
    }

    /// A tombstone is the row that records a driver's deletion. The event's batch reads before the tombstone is
    /// committed, and then waits for the deletion's transaction. After this wait, the batch must find the tombstone.
    @Test func `an event that waits for a deletion of its unknown driver finds the tombstone`() async throws {
        let database = try await StoreFixture.database()
        let driver = DriverID("drv_marta")
        let now = Moment.sample.advanced(bySeconds: 3600)
        try await StoreFixture.withStores(on: database, digests: Self.digests) { (stores) async throws in
            let (begun, ready) = AsyncStream.makeStream(of: Void.self)
            let (waiting, isWaiting) = AsyncStream.makeStream(of: Void.self)
            async let deletion: Void = stores[0].change { (db: any SQLTransaction) in
                try stores[0].collideWithAdding(driver, at: now, db)
                try Self.tombstone(driver, at: now, db)
                ready.yield()
                // Polls until the event's batch waits for this transaction's row.
                let end = ContinuousClock.now + .seconds(10)
                while try SQLRow.fetchOne(db, sql: "SELECT 1 FROM pg_locks WHERE NOT granted LIMIT 1") == nil,
                    .now < end
                {}
                isWaiting.yield()
            }
            for await _ in begun { break }
            let outcome = await stores[0].append(
                .sample(.sample(.chargerTargeted, key: "k"), of: driver, receivedAt: now))
            for await _ in waiting { break }
            try await deletion
            guard case .failed(.driverErased) = outcome else {
                Issue.record("\(outcome)")
                return
            }
            #expect(try await database.rows("SELECT driver_id FROM driver") == [])
        }
    }

    @Test func `of deletions and events of unknown drivers at the same time, no driver is left`() async throws {
        let database = try await StoreFixture.database()
        let now = Moment.sample.advanced(bySeconds: 3600)
        let count = 60
        try await StoreFixture.withStores(2, on: database, digests: Self.digests) { (stores) async throws in
            await withTaskGroup(of: Void.self) { group in
                for number in 0..<count {
                    let driver = DriverID("drv_\(number)")
                    group.addTask {
                        for event in 0..<4 {
                            let request = AppendRequest.sample(
                                .sample(.chargerTargeted, key: "\(event)"), of: driver, receivedAt: now)
                            switch await stores[event % 2].append(request) {
                            case .stored, .failed(.driverErased): break
                            case let outcome: Issue.record("\(outcome)")
                            }
                        }
                    }
                    group.addTask {
                        do {
                            _ = try await Self.begin(
                                driver, pseudonym: "erased-\(number)", at: now, in: stores[number % 2])
                        } catch { Issue.record("\(error)") }
                    }
                }
            }
            #expect(try await database.rows("SELECT count(*) FROM erased_driver") == ["\(count)"])
            #expect(try await database.rows("SELECT driver_id FROM driver WHERE driver_id LIKE 'drv%'") == [])
        }
    }

    /// In a large installation, reading a whole table takes longer than a request may take. The time limit of a request
    /// must therefore not apply to the search.
    @Test func `the search reads tables for longer than a request may take`() async throws {
        let database = try await StoreFixture.database()
        _ = try await database.rows(
            """
            CREATE TABLE large (number int8, word text, bytes bytea);
            INSERT INTO large SELECT number, 'word ' || number, convert_to('byte ' || number, 'UTF8')
                FROM generate_series(1, 300000) number;
            """)
        let texts = (0..<20).map { "missing \($0)" } + ["word 299999", "byte 299998"]
        try await StoreFixture.withStores(on: database, requestSeconds: 1) { (stores) async throws in
            #expect(
                try await stores[0].find(texts) == [
                    ErasureFinding(identifier: 21, location: "large.bytes"),
                    ErasureFinding(identifier: 20, location: "large.word"),
                ])
        }
    }
}

extension PostgresEventStore {
    fileprivate func unfinished() async throws -> [Int64] {
        try await read { (db: any SQLTransaction) in try self.unfinishedErasures(nil, db) }
    }
}
