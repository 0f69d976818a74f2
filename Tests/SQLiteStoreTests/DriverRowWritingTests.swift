// Tests that a transaction writes a driver's row only once. Reads in the transaction, and rollbacks, must give the same
// results as if each event wrote the row.

import Dispatch
import Engine
import GRDB
import JourneyModel
import TestSupport
import Testing

@testable import SQLiteStore

struct DriverRowWritingTests {
    private let folder: ScratchFolder
    private let driver = DriverID("driver")
    private let events = SampleJourney.whole(prefix: "k", session: "s")

    init() throws {
        folder = try ScratchFolder()
    }

    private func requests(_ range: Range<Int>) -> [AppendRequest] {
        events[range].map { .sample($0, of: driver) }
    }

    @Test func `a row is written once for all events of a transaction`() async throws {
        let store = try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
        try await store.execute(
            """
            CREATE TABLE written (state INTEGER);
            CREATE TRIGGER count_writes AFTER UPDATE ON driver BEGIN INSERT INTO written VALUES (new.state); END
            """)
        let outcomes = await store.append(requests(0..<8))
        #expect(outcomes.allSatisfy { if case .stored = $0 { true } else { false } })
        let states = try await store.read { db in try Int64.fetchAll(db, sql: "SELECT state FROM written") }
        #expect(states == [JourneyState.sessionEnded.code])
        await store.close()
    }

    /// The writer's queue contains, in this order: events of one driver, an account change, an expiry, and another
    /// event of the driver.
    @Test func `others in the same transaction see the row as it stands`() async throws {
        let store = try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
        _ = await store.append(requests(0..<1))
        let (hasBegun, gate) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        async let held: Void = store.change { _ in
            hasBegun.signal()
            gate.wait()
        }
        await withCheckedContinuation { continuation in
            DispatchQueue.global().async {
                hasBegun.wait()
                continuation.resume()
            }
        }
        // The `behind` arguments queue the following requests in this order.
        async let first = appended(requests(1..<5), behind: 0, store)
        async let seen = changed(behind: 4, store) { db in
            try Int64.fetchOne(db, sql: "SELECT state FROM driver WHERE driver_id = 'driver'")
        }
        async let expired = expired(at: .sample.advanced(bySeconds: 86_400), behind: 5, store)
        async let last = appended(requests(5..<6), behind: 69, store)
        await line(70, store)
        gate.signal()
        try await held
        #expect(await first.count == 4)
        #expect(try await seen == JourneyState.inTransit.code)
        #expect(try await expired.drivers == [driver])
        // The expiry has ended the session. The late event says that the driver entered the merchant's zone before the
        // deadline, so the session continues.
        guard case .stored(let stored) = await last.first else {
            Issue.record("not stored")
            return
        }
        #expect(stored.journey.state == .atMerchant)
        let alone = try SQLiteEventStore(path: folder.file("alone"), nowMilliseconds: 0)
        for request in requests(0..<6) { _ = try await alone.appended(request) }
        #expect(try await store.journey(of: driver) == alone.journey(of: driver))
        await store.close()
        await alone.close()
    }

    @Test func `an event that is refused alone takes nothing of its driver's row along`() async throws {
        let store = try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
        try await store.execute(
            """
            CREATE TRIGGER poison AFTER INSERT ON event_row WHEN new.key = 'poison'
            BEGIN SELECT RAISE(ABORT, 'poison'); END
            """)
        let poison = EventSubmission.sample(
            .chargerTargeted, key: "poison", charger: "another", at: .sample.advanced(bySeconds: 75))
        let outcomes = await store.append(requests(0..<3) + [.sample(poison, of: driver)] + requests(3..<5))
        let areStored = outcomes.map { if case .stored = $0 { true } else { false } }
        #expect(areStored == [true, true, true, false, true, true])
        #expect(try await store.journey(of: driver).state == .inTransit)
        #expect(try await store.journey(of: driver).targetChargerID == "charger-1")
        guard case .all(let changes) = try await store.changes(of: driver, after: 0) else {
            Issue.record("not all changes are told")
            return
        }
        #expect(changes.map(\.journey.state) == [.nearCharger, .anchored, .sessionActive, .inTransit])
        await store.close()
    }

    /// The test changes the row without the writer's knowledge. The next event overwrites this change only if the
    /// writer still has the row in its cache.
    @Test func `signing in keeps the drivers in the writer's cache`() async throws {
        let fixture = try await AccountFixture()
        _ = await fixture.store.append(requests(0..<1))
        try await fixture.store.change(keepsDriverCache: true) { db in
            try db.execute(sql: "UPDATE driver SET last_correction_ms = 77")
        }
        _ = try await fixture.signInWithApple()
        _ = await fixture.store.append(requests(1..<2))
        let corrections = try await fixture.store.read { db in
            try Int64?.fetchAll(db, sql: "SELECT last_correction_ms FROM driver WHERE driver_id = 'driver'")
        }
        #expect(corrections == [nil])
        await fixture.close()
    }

    /// A prepared statement has a buffer of 1,536 bytes for an event's texts. A long `metadata` leaves too little room
    /// for the other texts.
    @Test(arguments: [0, 1, 1000, 1400, 1536, 1537, 8000]) func `texts of any length are stored to the byte`(
        _ length: Int
    ) async throws {
        let store = try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
        let metadata = String(repeating: "\u{E9}", count: length / 2) + String(repeating: "x", count: length % 2)
        for number in 0..<2 {
            let event = EventSubmission.sample(
                .chargerTargeted, key: "key-\(number)", eventID: "event-\(number)", charger: "charger",
                metadata: metadata)
            _ = try await store.appended(.sample(event, of: driver))
        }
        let rows = try await store.read { db in
            try Row.fetchAll(db, sql: "SELECT idempotency_key, event_id, occurred_at, metadata FROM event ORDER BY id")
                .map { row in (0..<4).map { row[$0] as String } }
        }
        let occurredAt = "\(Moment.sample.millisecondsSinceEpoch). as text"
        #expect(rows == (0..<2).map { ["key-\($0)", "event-\($0)", occurredAt, metadata] })
        await store.close()
    }

    // MARK: Requests in a fixed order in the writer's queue

    private func line(_ waiting: Int, _ store: SQLiteEventStore) async {
        while store.writesWaiting < waiting { await Task.yield() }
    }

    private func appended(
        _ requests: [AppendRequest], behind waiting: Int, _ store: SQLiteEventStore
    ) async -> [EventOutcome] {
        await line(waiting, store)
        return await store.append(requests)
    }

    private func changed<Outcome: Sendable>(
        behind waiting: Int, _ store: SQLiteEventStore, _ change: @escaping @Sendable (Database) throws -> Outcome
    ) async throws -> Outcome {
        await line(waiting, store)
        return try await store.change(keepsDriverCache: true, change)
    }

    private func expired(
        at now: Moment, behind waiting: Int, _ store: SQLiteEventStore
    ) async throws -> StoredExpiries {
        await line(waiting, store)
        let settings = VersionedSettings(settings: Settings(), version: Settings().version)
        return try await store.storeExpiries(ExpiryRequest(now: now, settings: settings, driversMax: 64))
    }
}

extension SQLiteEventStore {
    fileprivate func execute(_ sql: String) async throws {
        try await change { db in try db.execute(sql: sql) }
    }
}
