// The clauses about retention: what is deleted, what stays, and that the remaining rows do not change.

import Engine
import JourneyModel
import Logging

extension EventTablesContract {
    private static func keeping(
        _ store: any Store, _ clock: ManualClock, days: Int? = 7, forwarded: Int64 = .max
    ) -> RetentionService {
        RetentionService(
            store: store, days: days, clock: { clock.now },
            logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }),
            forwarded: { () throws(StoreFailure) in forwarded })
    }

    /// Runs rounds for up to ten seconds until `count` events are deleted. On PostgreSQL, a round skips an event until
    /// all older transactions have ended, including those of autovacuum.
    private static func deleted(_ count: Int, by keeping: RetentionService) async throws -> Int {
        try await allDeleted(count, by: keeping).events
    }

    private static func allDeleted(
        _ count: Int, by keeping: RetentionService
    ) async throws -> RetentionService.Deleted {
        let end = ContinuousClock.now + .seconds(10)
        var deleted = try await keeping.round()
        while deleted.events < count, .now < end {
            try await Task.sleep(for: .milliseconds(10))
            let further = try await keeping.round()
            deleted.events += further.events
            deleted.sessions += further.sessions
            deleted.auditLines += further.auditLines
        }
        return deleted
    }

    private static func expectEventsLeft(_ eventIDs: [String], in store: any Store) async throws {
        try expect(try await store.fed(eventIDs.count).map(\.eventID), eventIDs, "events left")
    }

    private static func sessions(of driver: DriverID, _ store: any Store) async throws -> [String]? {
        try await store.sessions(of: driver, limit: 10, after: nil)?.sessions.map(\.sessionID)
    }

    private static func register(
        _ session: String, of driver: DriverID, _ clock: ManualClock, _ store: any Store, charger: String? = nil,
        merchant: String? = nil
    ) async throws {
        _ = try await store.register(
            SessionRegistration(
                sessionID: session, driver: driver, chargerID: charger, merchantID: merchant, receivedAt: clock.now))
    }

    /// Reads the events received more than a week ago, in parts of four. Deletes nothing.
    private static func walk(_ store: any Store, _ clock: ManualClock) async throws -> (parts: Int, events: Int) {
        let cut = clock.now.advanced(bySeconds: -7 * day)
        var (parts, events) = (0, 0)
        var next: Int64? = 0
        while let after = next {
            let part = try await store.agedEvents(
                AgedEventsRequest(
                    now: clock.now, receivedBefore: cut, forwarded: .max, unforwardedBefore: cut, after: after,
                    limit: 4))
            parts += 1
            events += part.events.count
            next = part.next
        }
        return (parts, events)
    }

    static let retention: [Clause] = [
        Clause("what is older than the days is gone, and so is a session without events") { store in
            let (clock, driver) = (ManualClock(), DriverID("driver"))
            try await drive("a", of: driver, clock, to: store)
            clock.advance(bySeconds: 5 * day)
            try await drive("b", of: driver, clock, to: store)
            try expect(try await keeping(store, clock).round(), .init(), "while everything is young")
            clock.advance(bySeconds: 3 * day)
            try expect(try await allDeleted(8, by: keeping(store, clock)), .init(events: 8), "after eight days")
            try await expectEventsLeft((0..<8).map { "b\($0)" }, in: store)
            try expect(try await sessions(of: driver, store), ["session-b"], "sessions left")
            guard case .sessionNotFound = try await store.timeline(of: "session-a", of: driver, limit: 9, after: nil)
            else { throw ContractViolation(description: "session-a is found") }
            try expect(try await store.journey(of: driver).state, .sessionEnded, "the journey")
            try await drive("c", of: driver, clock, to: store)
            clock.advance(bySeconds: 5 * day)
            // The journey at the floor is in session-b. It names session-a as the previous session. Both rows stay.
            try expect(try await allDeleted(8, by: keeping(store, clock)), .init(events: 8), "the next round")
        },
        Clause("a driver of whom nothing is left stands where it stood, and goes on from there") { store in
            let (clock, driver) = (ManualClock(), DriverID("driver"))
            try await drive("a", of: driver, clock, to: store)
            try await drive("other", of: DriverID("other"), clock, to: store)
            let before = try await store.journey(of: driver)
            clock.advance(bySeconds: 30 * day)
            try expect(try await deleted(16, by: keeping(store, clock)), 16, "deleted events")
            try await expectEventsLeft([], in: store)
            try expect(try await store.journey(of: driver), before, "the journey")
            let entered = EventSubmission.sample(.enteredChargerIntentZone, key: "new", at: clock.now)
            try expect(
                try await post(entered, of: driver, to: store).verdict, Verdict(.applied, implied: .reset), "new event")
            // The late event occurred a minute before the event `new`. All older events are deleted, so the fold begins
            // with the stored journey at the floor.
            let late = EventSubmission.sample(
                .reset, key: "late", session: "s", at: clock.now.advanced(bySeconds: -60))
            let request = AppendRequest.sample(late, of: driver, receivedAt: clock.now)
            let reset = try EventStoreContract.event(try await store.appended(request), "late event")
            try expect(reset.verdict, .applied, "late event")
            try expect(
                try EventStoreContract.event(
                    try await store.appended(.sample(entered, of: driver, receivedAt: clock.now)), "repeat"
                ).verdict, .applied, "the new event after the late one")
        },
        Clause("an event that comes too late is stored without effect, and goes in its turn") { store in
            let (clock, driver) = (ManualClock(), DriverID("driver"))
            try await drive("a", of: driver, clock, to: store)
            clock.advance(bySeconds: 8 * day)
            try expect(try await deleted(8, by: keeping(store, clock)), 8, "deleted events")
            let before = try await store.journey(of: driver)
            let late = EventSubmission.sample(
                .enteredChargerIntentZone, key: "late", at: .sample.advanced(bySeconds: 10))
            let request = AppendRequest.sample(late, of: driver, receivedAt: clock.now)
            let stored = try EventStoreContract.event(try await store.appended(request), "late event")
            try expect(stored.verdict, .none, "verdict")
            try expect(stored.journey, before, "journey in the answer")
            guard case .replayed = try await store.appended(request) else {
                throw ContractViolation(description: "the repeat is not known")
            }
            try expect(try await store.journey(of: driver), before, "journey")
            clock.advance(bySeconds: 8 * day)
            try expect(try await deleted(1, by: keeping(store, clock)), 1, "deleted events")
        },
        Clause("what is not forwarded yet stays for a week more, and is counted as lost") { store in
            let (clock, driver) = (ManualClock(), DriverID("driver"))
            try await drive("a", of: driver, clock, to: store)
            clock.advance(bySeconds: 8 * day)
            let all = try await store.fed(8)
            try expect(all.count, 8, "events in the feed")
            let third = all[2].id
            try await store.move("analytics", to: third, losing: 0, at: clock.now)
            try expect(try await deleted(3, by: keeping(store, clock, forwarded: third)), 3, "forwarded ones")
            try await expectEventsLeft((3..<8).map { "a\($0)" }, in: store)
            clock.advance(bySeconds: 7 * day)
            try expect(try await deleted(5, by: keeping(store, clock, forwarded: third)), 5, "a week later")
            try await drive("b", of: driver, clock, to: store)
            // A consumer that has read nothing has lost no events.
            let new = try await store.position(of: "new")
            try expect(new.waitingCount, 8, "waiting for a new consumer")
            try expect(new.lostCount, 0, "lost to a new consumer")
            let old = try await store.position(of: "analytics")
            // With consecutive ids, the gap after the consumer's position equals the number of lost events. A store
            // without consecutive ids counts the lost events of each consumer.
            let next = try await store.fed(1, after: old.last, limit: 1)[0].id
            let lost = store.hasConsecutiveIDs ? next - old.last - 1 : old.lostCount
            try expect(lost, 5, "lost to the old consumer")
        },
        Clause("a deadline that is due and not stored holds the floor below it") { store in
            let (clock, driver) = (ManualClock(), DriverID("driver"))
            let activation = SampleJourney.whole(prefix: "a", session: "s", from: clock.now).prefix(4)
            for event in activation { try await post(event, of: driver, to: store) }
            guard let deadline = try await store.journey(of: driver).hardDeadline else {
                throw ContractViolation(description: "no deadline")
            }
            // This event occurs exactly at the deadline. The fold puts it before the expiry, so the deadline has not
            // passed.
            try await post(.sample(.diagnostic("d"), key: "d", at: deadline), of: driver, to: store)
            clock.advance(bySeconds: 9 * day)
            try expect(try await deleted(4, by: keeping(store, clock)), 4, "deleted events")
            try await expectEventsLeft(["d"], in: store)
            let expiry = ExpiryRequest(now: clock.now, settings: VersionedSettings(Settings()), driversMax: 1)
            try expect(try await store.storeExpiries(expiry).drivers, [driver], "expired drivers")
            try expect(try await store.journey(of: driver).state, .sessionEnded, "the journey")
            // The expiry was received today, so it is kept.
            try expect(try await deleted(1, by: keeping(store, clock)), 1, "the event before the expiry")
        },
        Clause("a registration that is never used goes after thirty days, whether or not events have an age") { store in
            let (clock, driver) = (ManualClock(), DriverID("driver"))
            for session in ["unused", "used"] { try await register(session, of: driver, clock, store) }
            let used = EventSubmission.sample(.diagnostic("d"), key: "k", session: "used", at: clock.now)
            try await post(used, of: driver, to: store)
            clock.advance(bySeconds: 20 * day)
            try await register("last", of: driver, clock, store)
            let keeping = keeping(store, clock, days: nil)
            clock.advance(bySeconds: 10 * day - 1)
            try expect(try await keeping.round(), .init(), "a second before")
            clock.advance(bySeconds: 2)
            try expect(try await keeping.round(), .init(sessions: 1), "after thirty days")
            try expect(try await sessions(of: driver, store), ["last", "used"], "sessions left")
        },
        Clause("an event that bears a wrong time of the server's does not keep what is behind it") { store in
            let (clock, driver) = (ManualClock(), DriverID("driver"))
            let ahead = AppendRequest.sample(
                .sample(.diagnostic("d"), key: "ahead"), of: DriverID("other"),
                receivedAt: clock.now.advanced(bySeconds: 400 * day))
            _ = try await store.appended(ahead)
            try await drive("a", of: driver, clock, to: store)
            clock.advance(bySeconds: 8 * day)
            try expect(try await deleted(8, by: keeping(store, clock)), 8, "deleted events")
            try await expectEventsLeft(["ahead"], in: store)
        },
        Clause("a part that is full of events from the future does not end the walk, and one of young events does") {
            store in
            let clock = ManualClock()
            for number in 0..<4 {
                let ahead = AppendRequest.sample(
                    .sample(.diagnostic("d"), key: "ahead\(number)"), of: DriverID("other"),
                    receivedAt: clock.now.advanced(bySeconds: 400 * day))
                _ = try await store.appended(ahead)
            }
            try await drive("a", of: DriverID("driver"), clock, to: store)
            try expect(try await store.fed(12).count, 12, "events in the feed")
            let young = try await walk(store, clock)
            try expect(young.events, 0, "old events while those of the drive are young")
            try expect(young.parts, 2, "parts read")
            clock.advance(bySeconds: 8 * day)
            try expect(try await walk(store, clock).events, 8, "old events after eight days")
        },
        Clause("a registration is kept, even if the clock was ahead when a hundred others were made") { store in
            let (clock, driver) = (ManualClock(), DriverID("driver"))
            clock.advance(bySeconds: day)
            for number in 0..<100 { try await register("ahead-\(number)", of: driver, clock, store) }
            clock.advance(bySeconds: -day)
            let new = SessionRegistration(
                sessionID: "new", driver: driver, chargerID: nil, merchantID: nil, receivedAt: clock.now)
            try expect(try await store.register(new), .created, "first")
            try await register("next", of: driver, clock, store)
            try expect(try await store.register(new), .existed, "repeat")
        },
        Clause("sessions that were opened in the future do not keep the registrations behind them") { store in
            let (clock, driver) = (ManualClock(), DriverID("driver"))
            clock.advance(bySeconds: 400 * day)
            for session in ["ahead", "ahead too"] { try await register(session, of: driver, clock, store) }
            clock.advance(bySeconds: -400 * day)
            try await register("old", of: driver, clock, store)
            clock.advance(bySeconds: 31 * day)
            try await register("young", of: driver, clock, store)
            let cut = clock.now.advanced(bySeconds: -30 * day)
            let ahead = try await store.unusedRegistrations(before: cut, at: clock.now, after: 0, limit: 2)
            try expect(ahead.numbers, [], "unused registrations of the first part")
            try expect(ahead.endsInFuture, true, "the first part ends in the future")
            guard let last = ahead.next else { throw ContractViolation(description: "the first part is the last") }
            let old = try await store.unusedRegistrations(before: cut, at: clock.now, after: last, limit: 2)
            try expect(old.numbers.count, 1, "unused registrations of the second part")
            try expect(old.next, nil, "a third part")
        },
        Clause("a registration goes with its session's events, unless the session is the driver's current one") {
            store in
            let (clock, driver) = (ManualClock(), DriverID("driver"))
            try await register(
                "session-a", of: driver, clock, store, charger: "charger-r", merchant: "merchant-r")
            try await drive("a", of: driver, clock, to: store)
            clock.advance(bySeconds: 8 * day)
            try expect(try await allDeleted(8, by: keeping(store, clock)), .init(events: 8), "deleted at first")
            guard case .found(let current) = try await store.timeline(of: "session-a", of: driver, limit: 9, after: nil)
            else { throw ContractViolation(description: "the current session is not found") }
            try expect(current.session.chargerID, "charger-r", "charger of the current session")
            // Session-a is now the driver's previous session. Its row stays, because the journey names it.
            let entered = EventSubmission.sample(.enteredChargerIntentZone, key: "next", at: clock.now)
            try await post(entered, of: driver, to: store)
            try expect(try await keeping(store, clock).round(), .init(), "deleted in the next round")
            guard case .sessionNotFound = try await store.timeline(of: "session-a", of: driver, limit: 9, after: nil)
            else { throw ContractViolation(description: "the previous session is found") }
            try expect(try await sessions(of: driver, store), [], "sessions left")
            // Session-a still belongs to the driver, so the driver can send another event of session-a. This works even
            // if the server accepts only registered sessions.
            let late = EventSubmission.sample(.diagnostic("d"), key: "late", session: "session-a", at: clock.now)
            let request = AppendRequest.sample(
                late, of: driver, receivedAt: clock.now, requiresRegisteredSession: true)
            _ = try EventStoreContract.event(try await store.appended(request), "late event")
            guard case .found(let again) = try await store.timeline(of: "session-a", of: driver, limit: 9, after: nil)
            else { throw ContractViolation(description: "the session with a new event is not found") }
            try expect(again.session.registeredAt, nil, "time of the registration")
            try expect(again.session.chargerID, nil, "charger")
            try expect(again.session.merchantID, nil, "merchant")
        },
    ]
}
