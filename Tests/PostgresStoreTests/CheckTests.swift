// Tests of the check of a store. The check finds no problem in rows that the store has written, and reports each row
// that a test has changed.

import Engine
import JourneyModel
import TestSupport
import Testing

@testable import PostgresStore

struct CheckTests {
    private static let end = Moment.sample.advanced(bySeconds: 900_000)

    private static func check(_ store: PostgresEventStore) async throws -> JourneyCheckReport {
        try await store.check { _, _ in }
    }

    @Test func `what two instances have stored is what the events make of it`() async throws {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(2, on: database) { (stores) async throws in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 1...20 {
                    group.addTask {
                        var random = SeededRandom(seed: UInt64(number))
                        let events = RandomJourney.events(from: .sample, sessionPrefix: "c\(number)-", &random)
                        for event in events.shuffled(using: &random) {
                            let store = stores[Int.random(in: 0...1, using: &random)]
                            _ = try await store.appended(.random(event, of: DriverID("check-\(number)")))
                        }
                    }
                }
                try await group.waitForAll()
            }
            let request = ExpiryRequest(now: Self.end, settings: VersionedSettings(Settings()), driversMax: 64)
            _ = try await stores[0].storeExpiries(request)
            let report = try await Self.check(stores[1])
            #expect(report.problems == [])
            let count = try await database.rows("SELECT count(*) FROM event")
            #expect(report.drivers == 20 && ["\(report.events)"] == count)
            let inParts = try await StoreFixture.withStores(on: database, tailMax: 1) { (stores) async throws in
                try await Self.check(stores[0])
            }
            #expect(inParts == report)
        }
    }

    /// The check reads a driver's events in parts of five. A part is longer if further events have the same second as
    /// its fifth event. The parts here are the events 1 to 5, 6 to 12 and 13 to 17, and an empty part.
    @Test func `a divergence is named in whatever part of a driver's events it is`() async throws {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(on: database, tailMax: 4) { (stores) async throws in
            let store = stores[0]
            let requests = (1...17).map { number in
                let sharesSecond = (10...12).contains(number)
                return AppendRequest.sample(
                    .sample(
                        .diagnostic("ping"), key: "ping-\(number)",
                        at: .sample.advanced(bySeconds: sharesSecond ? 100 : 10 * number), isWholeSecond: sharesSecond),
                    of: DriverID("d"))
            }
            _ = await store.append(requests)
            let whole = try await Self.check(store)
            #expect(whole.problems == [] && whole.events == 17)
            let atPlaces = [1, 5, 6, 12, 13, 17].map { number in
                (
                    change: "UPDATE event SET transition = 2, reason = 3 WHERE seq = \(number)",
                    undo: "UPDATE event SET transition = 0, reason = NULL", problem: "event \(number): is stored as"
                )
            }
            let exchange = "UPDATE event SET second_place = 2 - second_place WHERE seq IN (10, 12)"
            let inSecond = (change: exchange, undo: exchange, problem: "event 12: and others of its second")
            for (change, undo, problem) in atPlaces + [inSecond] {
                _ = try await database.rows(change)
                let report = try await Self.check(store)
                #expect(report.problems.count == 1 && report.events == 17)
                #expect(report.problems.allSatisfy { $0.contains(problem) }, "\(report.problems)")
                _ = try await database.rows(undo)
            }
            #expect(try await Self.check(store) == whole)

            // The settings of all events in the first part are missing. The other parts must still be checked.
            _ = try await database.rows("UPDATE event SET settings_version = 'missing' WHERE seq <= 5")
            let rest = try await Self.check(store)
            #expect(rest.events == 12 && rest.problems == ["5 events were stored with settings that are missing"])
        }
    }

    /// The deletion gives the driver's row and events new ids. After its first piece, about half of the events still
    /// have the old ids.
    @Test func `a driver whose deletion is in progress is counted and not folded`() async throws {
        let database = try await StoreFixture.database()
        let driver = DriverID("drv_marta")
        try await StoreFixture.withStores(on: database, digests: ErasureTests.digests) { (stores) async throws in
            let store = stores[0]
            for request in ErasureTests.requests(900, of: driver, word: "marta") { _ = await store.append([request]) }
            _ = try await store.appended(.sample(.sample(.chargerTargeted, key: "o", charger: "c"), of: DriverID("o")))
            let row = try #require(
                try await ErasureTests.begin(driver, pseudonym: "erased-1", at: Self.end, in: store))
            let during = try await Self.check(store)
            #expect(during.problems == [])
            #expect(during.drivers == 1 && during.events == 1 && during.erasing == 1)
            try await store.completeErasure(of: row)
            let after = try await Self.check(store)
            #expect(after.problems == [])
            let count = try await database.rows("SELECT count(*) FROM event")
            #expect(after.drivers == 2 && after.erasing == 0 && ["\(after.events)"] == count)
        }
    }

    @Test(arguments: [
        ("UPDATE event SET transition = 2, reason = 3 WHERE seq = 1", "the fold gives applied"),
        ("UPDATE event SET after_state = 4 WHERE seq = 1", "after it, the fold gives"),
        ("UPDATE event SET closed_session_id = 'other' WHERE seq = 2", "closing another session"),
        ("UPDATE driver SET state = 4", "its row differs from the fold"),
        ("UPDATE driver SET head_seq = 1", "does not reference its last event"),
        ("UPDATE driver SET last_seq = 2", "its last event has the number 3, its row says 2"),
        ("UPDATE driver SET last_seq = 9", "its last event has the number 3, its row says 9"),
        ("DELETE FROM event WHERE seq = 2", "event 3: the event with the number before is missing"),
        ("UPDATE event SET position = 1 WHERE seq = 3", "event 3: its position is lower"),
        (
            "UPDATE event SET position = (SELECT position FROM event WHERE seq = 2 OFFSET 0) WHERE seq = 3",
            "several events"
        ),
        ("UPDATE event SET position = 9000000000000000000 WHERE seq = 3", "no transaction has had yet"),
        ("DELETE FROM driver", "events have no driver"),
        ("DELETE FROM settings_version", "settings that are missing"),
        ("DELETE FROM session", "a session that their driver does not have"),
        ("DELETE FROM session_owner", "not listed under their driver"),
        ("INSERT INTO session_owner VALUES (1, 'x', 1, 1, 1)", "rows of session_owner have no session"),
        ("UPDATE driver SET floor_at_ms = 0", "have a floor without its journey"),
        ("INSERT INTO journey_base (lane, driver, state) VALUES (1, 1, 0)", "have no driver with a floor"),
        (
            "INSERT INTO account (driver, role, created_at_ms) VALUES (1, 'driver', 1)",
            "1 rows of account have no driver"
        ),
    ])
    func `what is changed by hand is named`(change: String, problem: String) async throws {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(on: database, tailMax: 1) { (stores) async throws in
            let store = stores[0]
            let names: [(EventName, String?)] = [
                (.enteredChargerIntentZone, nil), (.anchorDwellComplete, nil), (.exclusiveActivatedByWeb, "s"),
            ]
            for (index, (name, session)) in names.enumerated() {
                let at = Moment.sample.advanced(bySeconds: 10 * index)
                _ = try await store.appended(
                    .sample(.sample(name, key: "k\(index)", session: session, at: at), of: DriverID("d")))
            }
            #expect(try await Self.check(store).problems == [])
            _ = try await database.rows(change)
            let problems = try await Self.check(store).problems
            #expect(problems.contains { $0.contains(problem) }, "\(problems)")
        }
    }
}
