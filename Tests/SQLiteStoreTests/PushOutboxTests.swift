// Tests of the outbox of notifications on a real database. They test which changes of journeys are read, that each
// change is queued only once, and what removes an entry.

import Engine
import GRDB
import Identity
import JourneyModel
import Logging
import Push
import TestSupport
import Testing

@testable import SQLiteStore
@testable import SharedTables

@Suite struct PushOutboxTests {
    private let start = AccountFixture.start

    private func device(
        _ token: String = "token", activity: String? = nil, notifications: NotificationPreferences = .init()
    ) -> Device {
        Device(
            pushToken: token, platform: "ios", environment: "production", appVersion: nil,
            push: PushSettings(locale: "de-AT", notifications: notifications, liveActivityToken: activity))
    }

    /// Creates a driver with one device and stores the first `count` events of a journey. After four events, the state
    /// is SESSION_ACTIVE. After five, the state is IN_TRANSIT.
    private func driver(
        _ name: String = "driver", events count: Int, in fixture: AccountFixture, device: Device? = nil
    ) async throws -> Caller {
        let caller = Caller(driver: DriverID(name))
        _ = try await fixture.devices.put(device ?? self.device(), of: caller, from: .at(start))
        try await append(0..<count, of: caller, in: fixture)
        return caller
    }

    private func append(_ range: Range<Int>, of caller: Caller, in fixture: AccountFixture) async throws {
        let events = SampleJourney.whole(prefix: "k", session: "session-\(caller.driver)", from: start)
        for event in events[range] {
            _ = try await fixture.store.appended(.sample(event, of: caller.driver, receivedAt: event.occurredAt))
        }
    }

    private func changes(after id: Int64 = 0, in fixture: AccountFixture) async throws -> PushChanges {
        try await fixture.store.pushChanges(after: id, since: start.advanced(bySeconds: -60))
    }

    private func states(_ changes: PushChanges) -> [JourneyState] { changes.changes.map(\.after.state) }

    /// Applies `PushRules` to all changes at the time `now`, and queues the entries. Returns whether this call moved
    /// the position up to which changes are queued.
    private func queue(in fixture: AccountFixture, at now: Moment) async throws -> Bool {
        let page = try await changes(in: fixture)
        let entries = page.changes.flatMap { PushRules.entries(for: $0, at: now) }
        return try await fixture.store.queue(entries, after: 0, upTo: page.last, at: now)
    }

    // MARK: Changes

    @Test func `each change of the journey is read once, with its cause and the driver's devices`() async throws {
        let fixture = try await AccountFixture()
        _ = try await driver(events: 5, in: fixture, device: device(activity: "ab"))
        let found = try await changes(in: fixture)
        #expect(states(found) == [.nearCharger, .anchored, .sessionActive, .inTransit])
        #expect(found.last == 5 && !found.hasMore)
        let departure = try #require(found.changes.last)
        #expect(departure.before?.state == .sessionActive && departure.before?.session == departure.after.session)
        #expect(departure.occurredAt == start.advanced(bySeconds: 120) && !departure.isByServer)
        #expect(departure.after.graceDeadline == start.advanced(bySeconds: 120 + 900))
        #expect(departure.devices.map(\.hasLiveActivity) == [true])
        #expect(states(try await changes(after: 4, in: fixture)) == [.inTransit])
        #expect(states(try await changes(after: 5, in: fixture)) == [])
        await fixture.close()
    }

    @Test func `a driver without a device, a simulated one, and old events cause nothing`() async throws {
        let fixture = try await AccountFixture()
        try await append(0..<5, of: Caller(driver: DriverID("nobody")), in: fixture)
        _ = try await driver("simulated-1x-driver-1", events: 5, in: fixture)
        let found = try await changes(in: fixture)
        #expect(states(found) == [] && found.last == 10)
        _ = try await driver(events: 5, in: fixture, device: device("other"))
        let later = try await fixture.store.pushChanges(after: 0, since: start.advanced(bySeconds: 121))
        #expect(states(later) == [])
        await fixture.close()
    }

    @Test func `a late event that changes only the past is no change`() async throws {
        let fixture = try await AccountFixture()
        let caller = try await driver(events: 5, in: fixture)
        let late = EventSubmission.sample(
            .enteredChargerIntentZone, key: "late", charger: "charger-1", at: start.advanced(bySeconds: 31))
        _ = try await fixture.store.appended(
            .sample(late, of: caller.driver, receivedAt: start.advanced(bySeconds: 130)))
        #expect(states(try await changes(after: 5, in: fixture)) == [])
        await fixture.close()
    }

    @Test func `an expiry is a change by the server`() async throws {
        let fixture = try await AccountFixture()
        let caller = try await driver(events: 5, in: fixture)
        let now = start.advanced(bySeconds: 120 + 901)
        let settings = VersionedSettings(settings: Settings(), version: Settings().version)
        _ = try await fixture.store.storeExpiries(ExpiryRequest(now: now, settings: settings, driversMax: 8))
        let expiry = try #require(try await changes(after: 5, in: fixture).changes.first)
        #expect(expiry.after.endedBy == .grace && expiry.isByServer)
        #expect(expiry.occurredAt == start.advanced(bySeconds: 120 + 900))
        #expect(try await fixture.store.journey(of: caller.driver).state == .sessionEnded)
        await fixture.close()
    }

    @Test func `the change by a late event is not skipped while its refold is not complete`() async throws {
        // The refold stops after twenty of the sixty events. The pause is longer than the test.
        let fixture = try await AccountFixture(
            pace: RefoldPace(rowsPerLateEvent: 10, rowsPerPiece: 10, pauseFactor: 1_000_000, quiet: .seconds(3600)))
        let caller = try await driver(events: 4, in: fixture)
        let received = start.advanced(bySeconds: 60)
        for number in 1...60 {
            let diagnostic = EventSubmission.sample(
                .diagnostic("d"), key: "d\(number)", at: start.advanced(bySeconds: 120 + number))
            _ = try await fixture.store.appended(.sample(diagnostic, of: caller.driver, receivedAt: received))
        }
        let departure = SampleJourney.whole(prefix: "k", session: "session-\(caller.driver)", from: start)[4]
        let late = AppendRequest.sample(departure, of: caller.driver, receivedAt: received)
        let answer = Task { [store = fixture.store] in await store.append(late) }
        while try await fixture.count("refold") == 0 { await Task.yield() }
        _ = try await driver("other", events: 4, in: fixture, device: device("other"))

        // The late event is the 65th. Until its refold is complete, readers get only the changes by the events before
        // it.
        let meanwhile = try await changes(in: fixture)
        #expect(states(meanwhile) == [.nearCharger, .anchored, .sessionActive])
        #expect(meanwhile.last == 64 && !meanwhile.hasMore)
        #expect(try await changes(after: 64, in: fixture).last == 64)
        // A refold that fails may never be complete. Readers of changes therefore wait for it only until half a minute
        // after the event's receipt.
        let wait = Int(PushChangeRows.refoldWaitMilliseconds / 1000)
        let minuteBefore = received.advanced(bySeconds: -60)
        let atEnd = minuteBefore.advanced(bySeconds: wait)
        #expect(try await fixture.store.pushChanges(after: 64, since: atEnd).last == 64)
        let after = atEnd.advanced(byMilliseconds: 1)
        #expect(try await fixture.store.pushChanges(after: 64, since: after).last == 69)
        // If the clock was set back, an event's time of receipt may be more than a minute in the future. Readers do not
        // wait for the refold of such an event.
        let setBack = minuteBefore.advanced(byMilliseconds: -ServerClocks.differenceMillisecondsMax)
        #expect(try await fixture.store.pushChanges(after: 64, since: setBack).last == 64)
        let setBackFurther = setBack.advanced(byMilliseconds: -1)
        #expect(try await fixture.store.pushChanges(after: 64, since: setBackFurther).last == 69)

        try fixture.folder.copyDatabase("db", to: "copy")
        await fixture.close()
        #expect(await answer.value == .failed(.unknown("the store is closed")))
        let copy = try await AccountFixture(in: fixture.folder, database: "copy")
        var request = RefoldRequest(urgentOnly: true)
        while let next = try await copy.store.refold(request).next { request.after = next }
        let complete = try await changes(after: 64, in: copy)
        #expect(states(complete) == [.inTransit, .nearCharger, .anchored, .sessionActive] && complete.last == 69)
        let entries = complete.changes.prefix(1).flatMap { PushRules.entries(for: $0, at: received) }
        #expect(entries.map(\.kind) == [.alert(.graceEnding)])
        await copy.close()
    }

    // MARK: Queueing

    @Test func `the first call begins at the newest event`() async throws {
        let fixture = try await AccountFixture()
        let caller = try await driver(events: 3, in: fixture)
        #expect(try await fixture.store.pushPosition(at: start) == 3)
        try await append(3..<5, of: caller, in: fixture)
        #expect(try await fixture.store.pushPosition(at: start) == 3)
        await fixture.close()
    }

    @Test func `two servers queue a change once`() async throws {
        let fixture = try await AccountFixture()
        _ = try await driver(events: 4, in: fixture)
        let now = start.advanced(bySeconds: 100)
        #expect(try await queue(in: fixture, at: now))
        #expect(try await !queue(in: fixture, at: now))
        #expect(try await fixture.count("push_outbox") == 1)
        await fixture.close()
    }

    @Test func `an entry has what the notification needs`() async throws {
        let fixture = try await AccountFixture()
        _ = try await driver(events: 5, in: fixture, device: device(activity: "ab"))
        let now = start.advanced(bySeconds: 121)
        _ = try await queue(in: fixture, at: now)
        let warningAt = start.advanced(bySeconds: 120 + 900 - 180)
        let due = try await take(at: now, in: fixture)
        #expect(due.map(\.entry.kind) == [.alert(.sessionActive)])
        #expect(due.first?.device == device(activity: "ab"))
        #expect(due.first?.sessionID == "session-driver")
        #expect(due.first?.entry.expiresAt == start.advanced(bySeconds: 90 + 3600))
        // Three entries remain: two updates of the Live Activity, and the warning.
        try await finish(due, .remove, in: fixture)
        var kinds: [PushKind] = []
        for moment in [now, now, warningAt.advanced(byMilliseconds: -1), warningAt] {
            let next = try await take(at: moment, in: fixture)
            kinds += next.map(\.entry.kind)
            try await finish(next, .remove, in: fixture)
        }
        #expect(kinds == [.activityUpdate, .activityUpdate, .alert(.graceEnding)])
        await fixture.close()
    }

    /// Takes the due entries with a lease of one minute.
    private func take(at now: Moment, in fixture: AccountFixture) async throws -> [DuePush] {
        try await fixture.store.takeDuePushes(at: now, limit: 9, lease: now.advanced(bySeconds: 60))
    }

    private func finish(_ due: [DuePush], _ change: PushResult.Change, in fixture: AccountFixture) async throws {
        try await fixture.store.finish(
            due.map { PushResult(id: $0.id, device: $0.entry.device, change: change) }, at: start)
    }

    @Test func `the warning says whether its deadline still runs`() async throws {
        let fixture = try await AccountFixture()
        let caller = try await driver(events: 5, in: fixture)
        let queuedAt = start.advanced(bySeconds: 121)
        _ = try await queue(in: fixture, at: queuedAt)
        try await finish(try await take(at: queuedAt, in: fixture), .remove, in: fixture)
        let due = start.advanced(bySeconds: 120 + 900 - 180)
        #expect(try await take(at: due, in: fixture).map(\.isDeadlineRunning) == [true])
        try await append(5..<6, of: caller, in: fixture)
        #expect(try await take(at: due.advanced(bySeconds: 60), in: fixture).map(\.isDeadlineRunning) == [false])
        await fixture.close()
    }

    @Test func `a device is woken three times an hour at most`() async throws {
        let fixture = try await AccountFixture()
        let caller = try await driver(events: 4, in: fixture)
        let found = try #require(try await changes(in: fixture).changes.last)
        func wake(at minute: Int) async throws {
            let now = start.advanced(bySeconds: minute * 60)
            let wake = PushEntry(
                driver: found.driver, device: found.devices[0].device, session: found.after.session, kind: .wake,
                state: .sessionEnded, endedBy: .grace, deadline: nil, dueAt: now,
                expiresAt: now.advanced(bySeconds: 60))
            _ = try await fixture.store.queue([wake, wake], after: 100, upTo: 100, at: now)
        }
        for minute in [0, 5, 19, 20, 21, 39, 40, 59, 60] { try await wake(at: minute) }
        #expect(try await fixture.count("push_outbox") == 4)
        // A device was woken at minute 60, so a wake-up is allowed from minute 80 on. A new registration of the device
        // does not change this.
        #expect(try await fixture.devices.put(device(), of: caller, from: .at(start)) == false)
        try await wake(at: 79)
        #expect(try await fixture.count("push_outbox") == 4)
        try await wake(at: 80)
        #expect(try await fixture.count("push_outbox") == 5)
        await fixture.close()
    }

    // MARK: Outcomes

    @Test func `an entry that waits to be sent again holds back the later ones of its device`() async throws {
        let fixture = try await AccountFixture()
        let caller = try await driver(events: 4, in: fixture)
        let other = try await driver("other", events: 4, in: fixture, device: device("other"))
        try await append(4..<6, of: caller, in: fixture)
        try await append(4..<6, of: other, in: fixture)
        let now = start.advanced(bySeconds: 150)
        // This queues entries of both drivers. The warnings are due later.
        _ = try await queue(in: fixture, at: now)
        let first = try await take(at: now, in: fixture)
        #expect(first.map(\.entry.kind) == [.alert(.sessionActive), .alert(.sessionActive)])
        let again = now.advanced(bySeconds: 4)
        try await finish([first[0]], .retry(at: again), in: fixture)
        try await finish([first[1]], .remove, in: fixture)
        let next = try await take(at: now, in: fixture)
        #expect(next.map(\.entry.kind) == [.alert(.atMerchant)] && next.first?.device.pushToken == "other")
        let retried = try await take(at: again, in: fixture)
        #expect(retried.map(\.device.pushToken) == ["token"] && retried.first?.attemptCount == 1)
        let waiting = try await fixture.store.waitingPushes(at: now)
        #expect(waiting.count == 3 && waiting.oldest == now)
        await fixture.close()
    }

    @Test func `two servers take an entry once, and again after its lease`() async throws {
        let fixture = try await AccountFixture()
        _ = try await driver(events: 4, in: fixture)
        let now = start.advanced(bySeconds: 100)
        _ = try await queue(in: fixture, at: now)
        #expect(try await take(at: now, in: fixture).map(\.attemptCount) == [0])
        #expect(try await take(at: now.advanced(bySeconds: 59), in: fixture).isEmpty)
        #expect(try await take(at: now.advanced(bySeconds: 60), in: fixture).map(\.attemptCount) == [1])
        await fixture.close()
    }

    @Test func `a device that is gone is removed, unless it registered later`() async throws {
        let fixture = try await AccountFixture()
        let caller = try await driver(events: 4, in: fixture)
        let now = start.advanced(bySeconds: 100)
        _ = try await queue(in: fixture, at: now)
        let due = try await take(at: now, in: fixture)
        try await finish(due, .removeDevice(registeredBefore: start), in: fixture)
        #expect(try await fixture.count("device") == 1)
        #expect(try await fixture.count("push_outbox") == 0)
        try await finish(due, .removeDevice(registeredBefore: start.advanced(byMilliseconds: 1)), in: fixture)
        #expect(try await fixture.count("device") == 0)
        let audit = try await fixture.accounts.entries(of: caller.driver, limit: 1)
        #expect(audit.map(\.action) == [.deviceRemoved] && audit.first?.reason == "unregistered")
        await fixture.close()
    }

    @Test func `an update token that is over is removed, a newer one stays`() async throws {
        let fixture = try await AccountFixture()
        _ = try await driver(events: 4, in: fixture, device: device(activity: "ab"))
        let now = start.advanced(bySeconds: 100)
        _ = try await queue(in: fixture, at: now)
        let due = try await take(at: now, in: fixture)
        try await finish(due, .removeLiveActivity(token: "cd"), in: fixture)
        #expect(try await changes(in: fixture).changes[0].devices.map(\.hasLiveActivity) == [true])
        try await finish(due, .removeLiveActivity(token: "ab"), in: fixture)
        #expect(try await changes(in: fixture).changes[0].devices.map(\.hasLiveActivity) == [false])
        await fixture.close()
    }

    // MARK: Devices

    @Test func `a shipped client's registration keeps the settings, a new owner does not get them`() async throws {
        let fixture = try await AccountFixture()
        let quiet = device(activity: "ab", notifications: NotificationPreferences(isQuiet: true))
        let caller = try await driver(events: 4, in: fixture, device: quiet)
        let shipped = Device(pushToken: "token", platform: "ios", environment: "production", appVersion: "2")
        _ = try await fixture.devices.put(shipped, of: caller, from: .at(start))
        let kept = try #require(try await changes(in: fixture).changes.last?.devices.first)
        #expect(kept.hasLiveActivity && kept.preferences.isQuiet)
        _ = try await queue(in: fixture, at: start.advanced(bySeconds: 100))
        #expect(try await fixture.count("push_outbox") == 1)
        _ = try await fixture.devices.put(shipped, of: Caller(driver: DriverID("new")), from: .at(start))
        #expect(try await fixture.count("push_outbox") == 0)
        let stored = try await fixture.store.read { db in
            try Row.fetchOne(db, sql: "SELECT \(DeviceRows.columns) FROM device").map {
                try DeviceRows.device($0, at: 0)
            }
        }
        #expect(stored?.push == PushSettings())
        await fixture.close()
    }

    @Test func `a deletion of the driver removes what waits`() async throws {
        let fixture = try await AccountFixture()
        let caller = try await driver(events: 4, in: fixture)
        _ = try await queue(in: fixture, at: start.advanced(bySeconds: 100))
        #expect(try await fixture.count("push_outbox") == 1)
        _ = try await fixture.own.erase(caller, from: .at(start))
        #expect(try await fixture.count("push_outbox") == 0)
        await fixture.close()
    }
}
