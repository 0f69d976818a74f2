// Tests of drivers that an older release has folded. They are folded again, either in the background or with their next
// late event.

import Engine
import JourneyModel
import TestSupport
import Testing

@testable import PostgresStore

struct RefoldTests {
    private static let end = Moment.sample.advanced(bySeconds: 900_000)

    /// Stores a random journey, whose events arrive in any order.
    private static func storeOld(
        _ number: Int, in database: StoreFixture.Database, _ store: PostgresEventStore
    ) async throws -> (driver: DriverID, events: [OrderedEvent]) {
        var random = SeededRandom(seed: UInt64(number))
        let events = RandomJourney.events(from: .sample, sessionPrefix: "r\(number)-", &random)
        let driver = DriverID("refold-\(number)")
        for event in events.shuffled(using: &random) { _ = try await store.appended(.random(event, of: driver)) }
        return (driver, events)
    }

    /// Changes the stored rows as if an older release had written them: other verdicts and journeys, and no expiries.
    private static func makeOld(_ database: StoreFixture.Database) async throws {
        _ = try await database.rows(
            """
            DELETE FROM event WHERE origin = 1;
            UPDATE event SET transition = 0, reason = NULL, implied = 0, after_state = 0, after_session_id = NULL,
                after_grace_deadline_ms = NULL, after_hard_deadline_ms = NULL, after_ended_by = NULL,
                closed_session_id = NULL, after_previous_session_id = NULL, after_target_charger = NULL;
            UPDATE driver SET rules = \(Fold.rulesVersion - 1), state = 0, session_id = NULL, grace_deadline_ms = NULL,
                hard_deadline_ms = NULL, last_seq = (SELECT max(seq) FROM event
                    WHERE event.lane = driver.lane AND event.driver = driver.id)
            """)
    }

    private static func arrived(
        _ driver: DriverID, _ events: [OrderedEvent], _ database: StoreFixture.Database
    ) async throws -> [OrderedEvent] {
        let keys = try await database.rows(
            """
            SELECT idempotency_key FROM event JOIN driver ON driver.lane = event.lane AND driver.id = event.driver
            WHERE driver_id = '\(driver.rawValue)' AND origin = 0 ORDER BY seq
            """)
        let byKey = Dictionary(uniqueKeysWithValues: events.map { ($0.idempotencyKey, $0) })
        return keys.compactMap { byKey[$0] }
    }

    @discardableResult
    private static func refoldAll(
        _ store: PostgresEventStore, _ request: RefoldRequest = RefoldRequest()
    ) async throws -> RefoldCounts {
        let part = try await store.refold(request, within: .seconds(600))
        #expect(part.failure == nil && part.next == nil)
        return part.counts
    }

    @Test(arguments: [2, PostgresEventStore.tailMax])
    func `all drivers are refolded one by one, and equal the fold`(tailMax: Int64) async throws {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(on: database, tailMax: tailMax) { (stores) async throws in
            let store = stores[0]
            var journeys: [(driver: DriverID, events: [OrderedEvent])] = []
            for number in 1...30 { journeys.append(try await Self.storeOld(number, in: database, store)) }
            try await Self.makeOld(database)
            #expect(
                try await store.driversAwaitingRefold(among: Set(journeys.map(\.driver))) == Set(journeys.map(\.driver))
            )
            let trial = try await store.tryRefold(.rules(since: nil), now: Self.end) { _, _ in }
            let counts = try await Self.refoldAll(store)
            #expect(counts.drivers == 30)
            #expect(counts.events == journeys.reduce(0) { $0 + $1.events.count })
            #expect(counts.movedDrivers > 0 && !counts.verdicts.isEmpty && counts.sessionsFolded > 0)
            #expect(trial.counts.events == counts.events && trial.counts.verdicts == counts.verdicts)
            #expect(trial.counts.expiries == counts.expiries)
            #expect(
                try await database.rows("SELECT DISTINCT rules FROM driver") == ["\(Fold.rulesVersion)"])
            try await StoreFixture.expireAll(store, at: Self.end)
            let stored = try await ExpectedEvent.stored(in: database)
            for (driver, events) in journeys {
                let arrived = try await Self.arrived(driver, events, database)
                #expect(arrived.count == events.count)
                #expect(stored[driver] == ExpectedEvent.all(arrived, until: Self.end), "\(driver)")
            }
        }
    }

    private static func event(_ key: String, at time: Moment) -> OrderedEvent {
        OrderedEvent(
            name: .diagnostic("d"), sessionID: nil, chargerID: nil, occurredAt: time, sequence: nil, eventID: key,
            idempotencyKey: key, origin: .client, sender: .app, previousState: nil, isWholeSecond: false,
            gracePeriodSeconds: 60, hardTimeoutSeconds: 600)
    }

    @Test func `a late event refolds its driver, and the others of its batch are stored`() async throws {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            let store = stores[0]
            let (driver, events) = try await Self.storeOld(7, in: database, store)
            try await Self.makeOld(database)
            let last = Self.event("last", at: Self.end)
            let late = Self.event("late", at: .sample.advanced(byMilliseconds: 500))
            let other = AppendRequest.sample(.sample(.chargerTargeted, key: "k"), of: DriverID("other"))
            let outcomes = await store.append([.random(last, of: driver), .random(late, of: driver), other])
            for outcome in outcomes {
                guard case .stored = outcome else {
                    Issue.record("\(outcome)")
                    continue
                }
            }
            #expect(try await store.driversAwaitingRefold(among: [driver]) == [])
            let arrived = try await Self.arrived(driver, events + [last, late], database)
            #expect(arrived.count == events.count + 2)
            #expect(try await ExpectedEvent.stored(in: database)[driver] == ExpectedEvent.all(arrived, until: Self.end))
        }
    }

    @Test func `drivers with a passed deadline are refolded first, because their expiries wait`() async throws {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            let store = stores[0]
            var journeys: [(driver: DriverID, events: [OrderedEvent])] = []
            for number in 1...20 { journeys.append(try await Self.storeOld(number, in: database, store)) }
            _ = try await database.rows("UPDATE driver SET rules = \(Fold.rulesVersion - 1)")
            let running = try await database.rows("SELECT driver_id FROM driver WHERE next_deadline_ms IS NOT NULL")
            #expect(running.count > 1 && running.count < journeys.count)
            #expect(try await store.earliestDeadline() == nil)
            let urgent = RefoldRequest(urgentOnly: true, now: Self.end)
            #expect(try await Self.refoldAll(store, urgent).drivers == running.count)
            let drivers = Set(running.map { DriverID($0) })
            #expect(
                try await store.driversAwaitingRefold(among: Set(journeys.map(\.driver)))
                    == Set(journeys.map(\.driver)).subtracting(drivers))
            #expect(try await store.earliestDeadline() != nil)
            try await StoreFixture.expireAll(store, at: Self.end)
            let stored = try await ExpectedEvent.stored(in: database)
            for (driver, events) in journeys where drivers.contains(driver) {
                let arrived = try await Self.arrived(driver, events, database)
                #expect(stored[driver] == ExpectedEvent.all(arrived, until: Self.end), "\(driver)")
            }
        }
    }

    @Test func `an event after the head, and a repeat, do not wait for the refold, which folds the event again`()
        async throws
    {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            let store = stores[0]
            let (driver, events) = try await Self.storeOld(7, in: database, store)
            try await Self.makeOld(database)
            let last = Self.event("last", at: Self.end)
            for requests in [[last, last], [events[0], last]] {
                let outcomes = await store.append(requests.map { .random($0, of: driver) })
                let repeats = outcomes.filter { if case .replayed = $0 { true } else { false } }
                #expect(repeats.count == (requests[0] == last ? 1 : 2), "\(outcomes)")
                #expect(try await store.driversAwaitingRefold(among: [driver]) == [driver])
            }
            let registration = SessionRegistration(
                sessionID: "registered", driver: driver, chargerID: nil, merchantID: nil, receivedAt: Self.end)
            #expect(try await store.register(registration) == .created)
            #expect(try await store.driversAwaitingRefold(among: [driver]) == [driver])
            #expect(try await database.rows("SELECT rules FROM driver") == ["\(StoredDriver.mixedRules)"])
            try await Self.refoldAll(store)
            #expect(try await store.driversAwaitingRefold(among: [driver]) == [])
            let arrived = try await Self.arrived(driver, events + [last], database)
            #expect(arrived.count == events.count + 1)
            #expect(try await ExpectedEvent.stored(in: database)[driver] == ExpectedEvent.all(arrived, until: Self.end))
        }
    }

    @Test func `a driver of a newer release is left alone, and an unknown correction is refused`() async throws {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            let store = stores[0]
            let event = AppendRequest.sample(.sample(.chargerTargeted, key: "k"), of: DriverID("d"))
            _ = try await store.appended(event)
            _ = try await database.rows("UPDATE driver SET rules = \(Fold.rulesVersion + 1)")
            let outcome = await store.append(.sample(.sample(.chargerTargeted, key: "l"), of: DriverID("d")))
            guard case .failed(.unavailable) = outcome else {
                Issue.record("\(outcome)")
                return
            }
            #expect(try await store.refold(RefoldRequest()).next == nil)
            await #expect(throws: StoreFailure.self) { try await store.refold(RefoldRequest(correction: 1)) }
        }
    }
}
