// Tests that the server enforces deadlines (contract, section 1), also after a restart. Each expiry is stored once,
// with the time of its deadline. The clock is manual; Tests/Integration/session.bats tests the scheduler in the built
// binary.

import Engine
import GRDB
import JourneyModel
import Logging
import TestSupport
import Testing

@testable import SQLiteStore

struct DeadlineTests {
    private let folder: ScratchFolder
    private let clock = ManualClock()
    private let driver = DriverID("driver")

    init() throws {
        folder = try ScratchFolder()
    }

    private func open(_ name: String = "db") throws -> SQLiteEventStore {
        try SQLiteEventStore(path: folder.file(name), nowMilliseconds: 0)
    }

    private func keeping(_ store: SQLiteEventStore, settings: Settings = Settings()) -> ExpiryScheduler {
        let versioned = VersionedSettings(settings: settings, version: settings.version)
        return ExpiryScheduler(
            store: store, settings: CurrentSettings(versioned), clock: { [clock] in clock.now },
            logger: Logger(label: "test"))
    }

    /// Stores the first `count` events of a whole journey, all received now. After five events the state is IN_TRANSIT.
    ///
    /// The activation is 90 s and the departure 120 s after the start of the journey. The grace deadline is 900 s after
    /// the departure, and the hard deadline is 3600 s after the activation.
    private func begin(_ store: SQLiteEventStore, _ driver: DriverID? = nil, count: Int = 5) async throws {
        let driver = driver ?? self.driver
        for event in journey(of: driver).prefix(count) {
            _ = try await store.appended(.sample(event, of: driver, receivedAt: clock.now))
        }
    }

    private func journey(of driver: DriverID) -> [EventSubmission] {
        SampleJourney.whole(prefix: "k", session: "session-of-\(driver)")
    }

    private static let grace = Moment.sample.advanced(bySeconds: 1020)
    private static let hard = Moment.sample.advanced(bySeconds: 3690)

    private func expiries(_ store: SQLiteEventStore, _ driver: DriverID? = nil) async throws -> [Expiry] {
        let driver = driver ?? self.driver
        guard
            case .found(let timeline) = try await store.timeline(
                of: "session-of-\(driver)", of: driver, limit: 500, after: nil)
        else { return [] }
        return timeline.events.filter { $0.sent.source == "server" }.map {
            Expiry(name: $0.name, at: $0.occurredAt, transition: $0.verdict.transition, state: $0.state)
        }
    }

    struct Expiry: Hashable {
        var name: EventName
        var at: Moment
        var transition = Verdict.Transition.applied
        var state = JourneyState.sessionEnded
    }

    // MARK: Due expiries

    @Test func `a session past its grace deadline is ended by a stored event at the deadline`() async throws {
        let store = try open()
        try await begin(store)
        #expect(try await store.earliestDeadline() == Self.grace)
        clock.advance(byMilliseconds: Self.grace.milliseconds(since: clock.now))
        try await keeping(store).storeDueExpiries()
        #expect(try await expiries(store) == [], "a client event of this very millisecond would still come before")

        clock.advance(byMilliseconds: 1)
        try await keeping(store).storeDueExpiries()
        try await keeping(store).storeDueExpiries()
        #expect(try await expiries(store) == [Expiry(name: .gracePeriodExpired, at: Self.grace)])
        #expect(try await store.journey(of: driver).state == .sessionEnded)
        #expect(try await store.earliestDeadline() == nil)
        await store.close()
    }

    @Test func `the hard deadline ends a session at the merchant's, under the settings of its start`() async throws {
        let store = try open()
        try await begin(store, count: 6)
        clock.advance(bySeconds: 3691)
        try await keeping(store, settings: Settings(gracePeriodSeconds: 60, hardTimeoutSeconds: 120)).storeDueExpiries()
        #expect(try await expiries(store) == [Expiry(name: .hardTimeoutExpired, at: Self.hard)])
        await store.close()
    }

    @Test func `what is due is stored in parts, for every driver`() async throws {
        let store = try open()
        let drivers = (0..<(ExpiryScheduler.driversMax * 2 + 3)).map { DriverID("driver-\($0)") }
        for driver in drivers { try await begin(store, driver) }
        clock.advance(bySeconds: 1021)
        #expect(try await keeping(store).storeDueExpiries() == [])
        for driver in drivers {
            #expect(try await expiries(store, driver) == [Expiry(name: .gracePeriodExpired, at: Self.grace)])
        }
        await store.close()
    }

    @Test func `a driver whose row cannot be read keeps nobody else waiting`() async throws {
        let store = try open()
        for name in ["a", "b", "c"] { try await begin(store, DriverID(name)) }
        try await DatabaseQueue(path: folder.file("db")).write { db in
            try db.execute(sql: "UPDATE driver SET state = 99 WHERE driver_id = 'b'")
        }
        clock.advance(bySeconds: 1021)
        #expect(try await keeping(store).storeDueExpiries().count == 1)
        for name in ["a", "c"] {
            #expect(try await expiries(store, DriverID(name)) == [Expiry(name: .gracePeriodExpired, at: Self.grace)])
        }
        await store.close()
    }

    // MARK: Restarts and instances

    @Test func `a deadline that passed while the server was down is stored after the start`() async throws {
        let before = try open()
        try await begin(before)
        await before.close()
        clock.advance(bySeconds: 86_400)
        let after = try open()
        try await keeping(after).storeDueExpiries()
        #expect(try await expiries(after) == [Expiry(name: .gracePeriodExpired, at: Self.grace)])
        await after.close()
    }

    @Test func `a crash loses no deadline, before its expiry is stored or after`() async throws {
        let store = try open()
        try await begin(store)
        try folder.copyDatabase("db", to: "before")
        clock.advance(bySeconds: 1021)
        try await keeping(store).storeDueExpiries()
        try folder.copyDatabase("db", to: "after")
        for name in ["before", "after"] {
            let recovered = try open(name)
            try await keeping(recovered).storeDueExpiries()
            #expect(try await expiries(recovered) == [Expiry(name: .gracePeriodExpired, at: Self.grace)], "\(name)")
            await recovered.close()
        }
        await store.close()
    }

    @Test func `two instances on one database store each expiry once`() async throws {
        let stores = [try open(), try open()]
        let drivers = (0..<100).map { DriverID("driver-\($0)") }
        for (index, driver) in drivers.enumerated() { try await begin(stores[index % 2], driver) }
        clock.advance(bySeconds: 1021)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for store in stores { group.addTask { try await keeping(store).storeDueExpiries() } }
            try await group.waitForAll()
        }
        for driver in drivers {
            #expect(try await expiries(stores[0], driver) == [Expiry(name: .gracePeriodExpired, at: Self.grace)])
        }
        #expect(try await stores[1].eventCount() == 6 * drivers.count)
        for store in stores { await store.close() }
    }

    // MARK: Events that arrive late

    @Test func `a late event from before the deadline reopens what was closed too early`() async throws {
        let store = try open()
        try await begin(store)
        clock.advance(bySeconds: 1200)
        try await keeping(store).storeDueExpiries()

        let merchant = journey(of: driver)[5]
        let late = try await store.appended(.sample(merchant, of: driver, receivedAt: clock.now))
        guard case .stored(let event) = late else { throw Unexpected(description: "\(late)") }
        #expect(event.verdict == .applied)
        #expect(event.journey.state == .atMerchant)
        let stale = Expiry(name: .gracePeriodExpired, at: Self.grace, transition: .none, state: .atMerchant)
        #expect(try await expiries(store) == [stale])

        #expect(try await store.earliestDeadline() == Self.hard, "the hard deadline runs again")
        clock.advance(bySeconds: 3600)
        try await keeping(store).storeDueExpiries()
        #expect(try await expiries(store) == [stale, Expiry(name: .hardTimeoutExpired, at: Self.hard)])
        await store.close()
    }

    @Test func `a deadline that a late event moved passes where it is now`() async throws {
        let store = try open()
        try await begin(store)
        clock.advance(bySeconds: 1200)
        try await keeping(store).storeDueExpiries()
        // This late departure is ten seconds earlier than the stored departure. The fold therefore rejects the stored
        // departure now.
        let departed = EventSubmission.sample(
            .departedCharger, key: "earlier", session: "session-of-driver", at: .sample.advanced(bySeconds: 110))
        _ = try await store.appended(.sample(departed, of: driver, receivedAt: clock.now))
        let moved = Moment.sample.advanced(bySeconds: 1010)
        #expect(
            try await expiries(store) == [
                Expiry(name: .gracePeriodExpired, at: moved),
                Expiry(name: .gracePeriodExpired, at: Self.grace, transition: .none),
            ])
        await store.close()
    }

    // MARK: Events after a deadline

    @Test func `an event after the deadline brings the expiry with it, before itself`() async throws {
        let store = try open()
        try await begin(store)
        clock.advance(bySeconds: 4000)
        let arrival = EventSubmission.sample(
            .enteredChargerIntentZone, key: "next", at: .sample.advanced(bySeconds: 2000))
        let outcome = try await store.appended(.sample(arrival, of: driver, receivedAt: clock.now))
        guard case .stored(let event) = outcome else { throw Unexpected(description: "\(outcome)") }
        #expect(event.verdict == Verdict(.applied, implied: .reset))
        #expect(try await expiries(store) == [Expiry(name: .gracePeriodExpired, at: Self.grace)])
        try await keeping(store).storeDueExpiries()
        #expect(try await store.eventCount() == 7)
        await store.close()
    }

    @Test func `a late activation brings the expiry that it would have had`() async throws {
        let store = try open()
        let events = journey(of: driver)
        let restored = EventSubmission.sample(
            .sessionRestored, key: "later", session: "session-of-driver", at: .sample.advanced(bySeconds: 5000))
        clock.advance(bySeconds: 6000)
        for event in [events[1], events[2], restored, events[3]] {
            _ = try await store.appended(.sample(event, of: driver, receivedAt: clock.now))
        }
        #expect(try await expiries(store) == [Expiry(name: .hardTimeoutExpired, at: Self.hard)])
        #expect(try await store.journey(of: driver).state == .sessionEnded)
        await store.close()
    }
}
