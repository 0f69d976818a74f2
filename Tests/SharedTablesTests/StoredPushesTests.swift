// Tests of the outbox of notifications on both databases: who takes an entry, the order of entries, and what removes an
// entry.

import Engine
import Identity
import JourneyModel
import Push
import TestSupport
import Testing

@testable import SharedTables

struct StoredPushesTests {
    private let start = Sample.now

    /// A store without events. PushOutboxTests (SQLite) and PushChangeTests (PostgreSQL) test the changes of journeys.
    private struct Outbox: PushTables {
        let store: any SQLDatabase

        func newestPosition(_ db: any SQLTransaction) throws -> Int64 { 7 }

        func pushChanges(after id: Int64, since: Moment) async throws(StoreFailure) -> PushChanges {
            PushChanges(last: id, hasMore: false, changes: [])
        }

        func change<Outcome: Sendable>(
            effects: @escaping @Sendable (Outcome) -> ChangeEffects,
            _ change: @escaping @Sendable (any SQLTransaction) throws -> Outcome
        ) async throws(StoreFailure) -> Outcome {
            try await store.change(effects: effects, change)
        }

        func read<Value: Sendable>(
            _ value: @escaping @Sendable (any SQLTransaction) throws -> Value
        ) async throws(StoreFailure) -> Value {
            try await store.read(value)
        }

        /// Adds a device of a driver without events.
        func addDevice(_ token: String, of driver: DriverID, at now: Moment) async throws -> (driver: Int64, id: Int64)
        {
            let device = Device(
                pushToken: token, platform: "ios", environment: "production", appVersion: nil,
                push: PushSettings(locale: "de-AT", notifications: .init(), liveActivityToken: "ab"))
            let digests = try Sample.digests()
            return try await change { db in
                let origin = RequestOrigin(address: "192.0.2.7", requestID: "r", userAgent: nil, at: now)
                _ = try DeviceRows.put(device, of: Caller(driver: driver), from: origin, digests, db)
                let row = try SQLRow.fetchOne(
                    db, sql: "SELECT driver, id FROM device WHERE push_token = ?", arguments: [token])
                return (try row?[0] ?? 0, try row?[1] ?? 0)
            }
        }

        /// Takes the due entries with a lease of one minute.
        func take(at now: Moment) async throws -> [DuePush] {
            try await takeDuePushes(at: now, limit: 9, lease: now.advanced(bySeconds: 60))
        }

        func finish(_ due: [DuePush], _ change: PushResult.Change, at now: Moment) async throws {
            try await finish(due.map { PushResult(id: $0.id, device: $0.entry.device, change: change) }, at: now)
        }
    }

    private func entry(
        _ device: (driver: Int64, id: Int64), _ kind: PushKind = .alert(.sessionActive), deadline: Moment? = nil,
        due: Moment? = nil
    ) -> PushEntry {
        PushEntry(
            driver: device.driver, device: device.id, session: nil, kind: kind, state: .sessionActive, endedBy: nil,
            deadline: deadline, dueAt: due ?? start, expiresAt: start.advanced(bySeconds: 3600))
    }

    @Test(arguments: TestedDatabase.allCases)
    func `the position begins at the newest event, and one server moves it`(_ database: TestedDatabase) async throws {
        try await database.with { store in
            let outbox = Outbox(store: store)
            let device = try await outbox.addDevice("token", of: DriverID("ada"), at: start)
            #expect(try await outbox.pushPosition(at: start) == 7)
            let (one, other) = (entry(device), entry(device, .activityEnd))
            #expect(try await outbox.queue([one, other], after: 7, upTo: 9, at: start))
            #expect(try await !outbox.queue([one], after: 7, upTo: 9, at: start))
            #expect(try await outbox.pushPosition(at: start) == 9)
            #expect(try await store.count("push_outbox") == 2)
            let moved = await withTaskGroup(of: Bool.self) { group in
                for _ in 0..<8 {
                    group.addTask { (try? await outbox.queue([one], after: 9, upTo: 12, at: self.start)) == true }
                }
                return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            #expect(moved == 1)
            #expect(try await store.count("push_outbox") == 3)
        }
    }

    @Test(arguments: TestedDatabase.allCases)
    func `an entry comes back as it was queued, of each device the first`(_ database: TestedDatabase) async throws {
        try await database.with { store in
            let outbox = Outbox(store: store)
            let ada = try await outbox.addDevice("a", of: DriverID("ada"), at: start)
            let bea = try await outbox.addDevice("b", of: DriverID("bea"), at: start)
            var ended = entry(ada)
            ended.endedBy = .grace
            let warning = entry(bea, .alert(.graceEnding), deadline: start.advanced(bySeconds: 5))
            let later = entry(bea, due: start.advanced(bySeconds: 1))
            _ = try await outbox.queue([ended, entry(ada, .activityEnd), warning, later], after: 7, upTo: 9, at: start)
            let due = try await outbox.take(at: start)
            #expect(due.map(\.entry) == [ended, warning])
            #expect(due.map(\.device.pushToken) == ["a", "b"] && due.map(\.sessionID) == [nil, nil])
            #expect(due.first?.device.push?.locale == "de-AT")
            // The journey has no session and no deadline.
            #expect(due.map(\.isDeadlineRunning) == [true, false])
            #expect(due.map(\.isInOtherSession) == [false, false])
            let waiting = try await outbox.waitingPushes(at: start)
            #expect(waiting == WaitingPushes(count: 3, oldest: start))
            #expect(try await outbox.take(at: start).isEmpty)
            #expect(try await outbox.take(at: start.advanced(bySeconds: 60)).map(\.attemptCount) == [1, 1])
        }
    }

    @Test(arguments: TestedDatabase.allCases)
    func `several servers take an entry once`(_ database: TestedDatabase) async throws {
        try await database.with { store in
            let outbox = Outbox(store: store)
            for name in ["a", "b", "c"] {
                let device = try await outbox.addDevice(name, of: DriverID(name), at: start)
                _ = try await outbox.queue([entry(device)], after: 100, upTo: 1, at: start)
            }
            let taken = try await withThrowingTaskGroup(of: [DuePush].self) { group in
                for _ in 0..<6 { group.addTask { try await outbox.take(at: self.start) } }
                return try await group.reduce(into: []) { $0 += $1.map(\.device.pushToken) }
            }
            #expect(taken.sorted() == ["a", "b", "c"])
        }
    }

    @Test(arguments: TestedDatabase.allCases)
    func `outcomes remove entries, tokens and devices`(_ database: TestedDatabase) async throws {
        try await database.with { store in
            let outbox = Outbox(store: store)
            let device = try await outbox.addDevice("token", of: DriverID("ada"), at: start)
            _ = try await outbox.queue([entry(device), entry(device), entry(device)], after: 7, upTo: 9, at: start)
            let again = start.advanced(bySeconds: 4)
            try await outbox.finish(try await outbox.take(at: start), .retry(at: again), at: start)
            #expect(try await outbox.take(at: start).isEmpty)
            let retried = try await outbox.take(at: again)
            #expect(retried.map(\.attemptCount) == [1])
            try await outbox.finish(retried, .removeLiveActivity(token: "cd"), at: start)
            #expect(try await store.count("device WHERE live_activity_token = 'ab'") == 1)
            let next = try await outbox.take(at: again)
            try await outbox.finish(next, .removeLiveActivity(token: "ab"), at: start)
            #expect(try await store.count("device WHERE live_activity_token IS NULL") == 1)
            let last = try await outbox.take(at: again)
            try await outbox.finish(last, .removeDevice(registeredBefore: start), at: start)
            #expect(try await store.count("device") == 1)
            _ = try await outbox.queue([entry(device)], after: 9, upTo: 9, at: start)
            try await outbox.finish(last, .removeDevice(registeredBefore: again), at: start)
            #expect(try await store.count("device") == 0)
            // The entry of the removed device is gone too.
            #expect(try await store.count("push_outbox") == 0)
            #expect(try await store.count("audit WHERE action = 'device_removed' AND reason = 'unregistered'") == 1)
        }
    }

    @Test(arguments: TestedDatabase.allCases)
    func `an entry that was taken and not sent is due again, and counts no attempt`(
        _ database: TestedDatabase
    ) async throws {
        try await database.with { store in
            let outbox = Outbox(store: store)
            let device = try await outbox.addDevice("token", of: DriverID("ada"), at: start)
            let (first, second) = (entry(device), entry(device, .activityEnd))
            _ = try await outbox.queue([first, second], after: 7, upTo: 9, at: start)
            let taken = try await outbox.take(at: start)
            // If the response to `finish` is lost, the sender calls `finish` again.
            for _ in 0..<2 { try await outbox.finish(taken, .putBack, at: start) }
            let again = try await outbox.take(at: start)
            #expect(again.map(\.entry) == [first] && again.map(\.attemptCount) == [0])
        }
    }

    @Test(arguments: TestedDatabase.allCases)
    func `a device is woken three times an hour at most`(_ database: TestedDatabase) async throws {
        try await database.with { store in
            let outbox = Outbox(store: store)
            let device = try await outbox.addDevice("token", of: DriverID("ada"), at: start)
            for minute in [0, 5, 19, 20, 21, 39, 40, 59, 60] {
                let now = start.advanced(bySeconds: minute * 60)
                let wake = entry(device, .wake, due: now)
                _ = try await outbox.queue([wake, wake], after: 100, upTo: 100, at: now)
            }
            #expect(try await store.count("push_outbox") == 4)
            // The clock is set back by a day. The wakes above are now far in the future, so they do not prevent the
            // first wake below.
            //
            // A server whose clock is a minute behind queues the second wake. The first wake is only one minute ahead
            // of this clock, so it prevents the second wake.
            for second in [0, -60] {
                let now = start.advanced(bySeconds: second - 86_400)
                _ = try await outbox.queue([entry(device, .wake, due: now)], after: 100, upTo: 100, at: now)
            }
            #expect(try await store.count("push_outbox") == 5)
        }
    }

    @Test(arguments: TestedDatabase.allCases)
    func `after the clock was set back, entries do not wait for the old time`(_ database: TestedDatabase) async throws {
        try await database.with { store in
            let outbox = Outbox(store: store)
            let device = try await outbox.addDevice("token", of: DriverID("ada"), at: start)
            let other = try await outbox.addDevice("other", of: DriverID("bea"), at: start)
            let ahead = start.advanced(bySeconds: 86_400)
            let ended = entry(device, .activityEnd, due: ahead)
            let warning = entry(device, .alert(.graceEnding), due: ahead)
            _ = try await outbox.queue([entry(device, due: ahead), ended, warning], after: 7, upTo: 9, at: ahead)
            _ = try await outbox.queue([entry(other, due: ahead)], after: 9, upTo: 9, at: ahead)
            let failed = try await outbox.take(at: ahead)
            #expect(failed.map(\.entry.kind) == [.alert(.sessionActive), .alert(.sessionActive)])
            try await outbox.finish(failed.suffix(1), .retry(at: ahead.advanced(bySeconds: 60)), at: ahead)

            // When the clock was set back, one entry was reserved and one waited for its retry. The others were never
            // tried. A device gets one entry at a time.
            let taken = try await outbox.take(at: start)
            #expect(taken.map(\.device.pushToken).sorted() == ["other", "token"])
            #expect(taken.map(\.attemptCount) == [1, 1])
            #expect(try await outbox.take(at: start).isEmpty)
            try await outbox.finish(taken, .remove, at: start)
            #expect(try await outbox.take(at: start).map(\.entry) == [ended])
            #expect(try await outbox.take(at: start).isEmpty)
            // The warning waits for its deadline.
            #expect(try await outbox.take(at: ahead).map(\.entry.kind) == [.activityEnd])
        }
    }

    @Test(arguments: TestedDatabase.allCases)
    func `an entry that waits as long as a push service asks is not taken early`(
        _ database: TestedDatabase
    ) async throws {
        try await database.with { store in
            let outbox = Outbox(store: store)
            let device = try await outbox.addDevice("token", of: DriverID("ada"), at: start)
            _ = try await outbox.queue([entry(device)], after: 7, upTo: 9, at: start)
            let again = start.advanced(byMilliseconds: PushSender.retryMillisecondsMax)
            try await outbox.finish(try await outbox.take(at: start), .retry(at: again), at: start)
            // The clock of another server is a minute behind.
            #expect(try await outbox.take(at: start.advanced(bySeconds: -60)).isEmpty)
            #expect(try await outbox.take(at: again).map(\.attemptCount) == [1])
        }
    }
}
