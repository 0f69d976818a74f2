// The clauses about the changes of journeys that cause notifications.

import Engine
import JourneyModel
import Push
import SharedTables

extension EventTablesContract {
    /// Adds an iPhone with a running Live Activity.
    private static func addDevice(of driver: DriverID, _ store: any Store) async throws {
        _ = try await store.change { db in
            try db.execute(
                sql: """
                    INSERT INTO device (push_token, driver, platform, environment, updated_at_ms, live_activity_token)
                    SELECT 'token', id, 'ios', 'production', 0, 'ab' FROM driver WHERE driver_id = ?
                    """,
                arguments: [driver.rawValue])
        }
    }

    /// Waits up to ten seconds until there are `count` changes after `id`. On PostgreSQL, a change appears only when
    /// all older transactions have ended, including those of autovacuum.
    private static func pushChanges(_ count: Int, after id: Int64, _ store: any Store) async throws -> PushChanges {
        let end = ContinuousClock.now + .seconds(10)
        var page = try await store.pushChanges(after: id, since: .sample)
        while page.changes.count < count, .now < end {
            try await Task.sleep(for: .milliseconds(10))
            page = try await store.pushChanges(after: id, since: .sample)
        }
        return page
    }

    /// Corrects the settings of all events received before `now`.
    private static func correct(to settings: Settings, at now: Moment, _ store: any Store) async throws {
        let note = SettingsChangeNote(changedBy: "Ann", reason: "wrong for a day")
        _ = try await store.record(VersionedSettings(settings), rules: nil, note: note, at: now)
        let order = CorrectionOrder(since: .sample, settings: .current)
        guard case .begun(let correction, continues: false) = try await store.begin(order, note: note, at: now) else {
            throw ContractViolation(description: "the correction did not begin")
        }
        var request = RefoldRequest(correction: correction.id, now: now)
        while true {
            let part = try await store.refold(request)
            if let failure = part.failure { throw failure }
            guard let next = part.next else { break }
            request.after = next
        }
        try await store.finish(correction: correction.id, at: now)
    }

    /// Applies the push rules one second after the event. The event happens `seconds` seconds after the start of the
    /// journey.
    private static func kinds(_ changes: [PushChange], at seconds: Int) -> [PushKind] {
        changes.flatMap { PushRules.entries(for: $0, at: .sample.advanced(bySeconds: seconds + 1)) }.map(\.kind)
    }

    static let push: [Clause] = [
        Clause("a session that ends after a correction of its settings ends the Live Activity") { store in
            let driver = DriverID("d")
            let events = SampleJourney.whole(prefix: "k", session: "s")
            for event in events[0..<6] { try await post(event, of: driver, to: store) }
            try await addDevice(of: driver, store)
            let page = try await pushChanges(5, after: 0, store)
            try expect(
                page.changes.map(\.after.state), [.nearCharger, .anchored, .sessionActive, .inTransit, .atMerchant],
                "states")
            try expect(
                page.changes.map { $0.before?.state }, [nil, .nearCharger, .anchored, .sessionActive, .inTransit],
                "states before")
            try expect(kinds(Array(page.changes.prefix(1)), at: 30), [], "notifications of the first change")

            try await correct(to: Settings(hardTimeoutSeconds: 7200), at: .sample.advanced(bySeconds: 170), store)
            try expect(
                try await store.journey(of: driver).hardDeadline, Moment.sample.advanced(bySeconds: 90 + 7200),
                "corrected deadline")
            try await post(events[6], of: driver, to: store)
            let rest = try await pushChanges(1, after: page.last, store)
            try expect(rest.changes.map(\.after.state), [.sessionEnded], "states after the correction")
            try expect(rest.changes.map(\.before), [nil], "phase before")
            try expect(kinds(rest.changes, at: 180), [.activityEnd], "notifications of the end")
        }
    ]
}
