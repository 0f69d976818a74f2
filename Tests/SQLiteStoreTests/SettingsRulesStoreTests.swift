// Tests of settings rules in the store. Rules can choose settings by charger. The store finds the charger of each event
// and stores the event with this charger's settings.
//
// The stored settings decide when a session ends. A later fold uses the stored settings even if the rules have changed.

import Engine
import GRDB
import JourneyModel
import Logging
import SharedTables
import TestSupport
import Testing

@testable import SQLiteStore

struct SettingsRulesStoreTests {
    private let folder: ScratchFolder
    private let clock = ManualClock()
    private let driver = DriverID("driver")

    init() throws {
        folder = try ScratchFolder()
    }

    /// The hard timeout is 600 s at charger-1, 1200 s at charger-2, and 3600 s everywhere else.
    private static func rules(_ text: String = both) throws -> SettingsRules {
        try SettingsRules(reading: Array(text.utf8), base: Settings(gracePeriodSeconds: 300))
    }

    private static let both = """
        {"rules": [
          {"name": "one", "reason": "r", "chargers": ["charger-1"], "settings": {"hardTimeoutSeconds": 600}},
          {"name": "two", "reason": "r", "chargers": ["charger-2"], "settings": {"hardTimeoutSeconds": 1200}}]}
        """

    private func open() throws -> SQLiteEventStore {
        try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
    }

    /// Stores an event as `Ingest` does.
    private func append(
        _ event: EventSubmission, in store: SQLiteEventStore, _ rules: SettingsRules? = nil, at now: Moment? = nil
    ) async throws {
        let rules = try rules ?? Self.rules()
        let now = now ?? clock.now
        let choice = rules.choice(for: SettingsSubject(driver: driver, appVersion: nil, at: now))
        let outcome = try await store.appended(
            AppendRequest(
                driver: driver, submission: event, receivedAt: now, settings: choice.otherwise,
                chargerSettings: choice.byCharger))
        guard case .stored = outcome else {
            Issue.record("not stored: \(outcome)")
            return
        }
    }

    private func hardTimeouts(_ store: SQLiteEventStore) async throws -> [String: Int] {
        try await store.read { db in
            let rows = try Row.fetchAll(
                db,
                sql: """
                    SELECT idempotency_key, hard_timeout_seconds FROM event
                    JOIN settings_version ON settings_version.id = event.settings_version
                    """)
            return Dictionary(uniqueKeysWithValues: rows.map { ($0[0] as String, $0[1] as Int) })
        }
    }

    private func expire(_ store: SQLiteEventStore, _ rules: SettingsRules?) async throws {
        let base = VersionedSettings(Settings(gracePeriodSeconds: 300))
        let scheduler = ExpiryScheduler(
            store: store, settings: CurrentSettings(base, rules: rules), clock: { [clock] in clock.now },
            logger: Logger(label: "test"))
        #expect(try await scheduler.storeDueExpiries().isEmpty)
    }

    private func journey(_ store: SQLiteEventStore) async throws -> Journey {
        try await store.journey(of: driver)
    }

    /// Four events of a visit. Only the first two name charger-1. The fourth, at 90 s, leads to SESSION_ACTIVE.
    private var activation: [EventSubmission] {
        Array(SampleJourney.whole(prefix: "k", session: "s").prefix(4))
    }

    // MARK: The time limit

    @Test func `a session ends at the timeout of its charger`() async throws {
        let store = try open()
        for event in activation { try await append(event, in: store) }
        let deadline = Moment.sample.advanced(bySeconds: 90 + 600)
        #expect(try await journey(store).hardDeadline == deadline)
        clock.advance(byMilliseconds: deadline.milliseconds(since: clock.now))
        try await expire(store, try Self.rules())
        #expect(try await journey(store).state == .sessionActive)
        clock.advance(byMilliseconds: 1)
        try await expire(store, try Self.rules())
        let ended = try await journey(store)
        #expect(ended.state == .sessionEnded && ended.endedBy == .hardTimeout)
        // The expiry is stored with the settings of the session's charger.
        let timeouts = try await hardTimeouts(store)
        #expect(timeouts.count == 5 && Set(timeouts.values) == [600], "\(timeouts)")
        await store.close()
    }

    @Test func `a later fold uses the settings of each event, whatever the rules are then`() async throws {
        let store = try open()
        for event in activation { try await append(event, in: store) }
        let before = try await journey(store)
        let none = try Self.rules("{}")
        // This event is older than all others, so the store refolds all of them.
        let late = EventSubmission.sample(
            .sessionRestored, key: "late", session: "other", at: Moment.sample.advanced(bySeconds: -60))
        try await append(late, in: store, none)
        #expect(try await journey(store) == before)
        // After an upgrade, a server refolds all events. This server has no settings rules.
        try await store.change { db in try db.execute(sql: "UPDATE driver SET rules = 1") }
        await store.close()
        let reopened = try open()
        var request = RefoldRequest()
        while let next = try await reopened.refold(request).next { request.after = next }
        #expect(try await journey(reopened) == before)
        let rows = try await reopened.read { db in try Int.fetchAll(db, sql: "SELECT rules FROM driver") }
        #expect(rows == [Int(Fold.rulesVersion)], "the refold is complete")
        clock.advance(byMilliseconds: (90 + 600) * 1000 + 1)
        try await expire(reopened, nil)
        #expect(try await journey(reopened).endedBy == .hardTimeout)
        await reopened.close()
    }

    // MARK: The charger

    @Test func `the registered charger comes before the event's, and that before the journey's target`() async throws {
        let store = try open()
        _ = try await store.register(
            SessionRegistration(
                sessionID: "registered", driver: driver, chargerID: "charger-2", merchantID: nil, receivedAt: clock.now)
        )
        let events: [(EventSubmission, hard: Int)] = [
            (.sample(.sessionRestored, key: "no-charger"), 3600),
            (.sample(.chargerTargeted, key: "target", charger: "charger-1"), 600),
            (.sample(.sessionRestored, key: "of-target"), 600),
            (.sample(.sessionRestored, key: "own", charger: "charger-2"), 1200),
            (.sample(.sessionRestored, key: "other-charger", charger: "charger-3"), 3600),
            (.sample(.sessionRestored, key: "registered", session: "registered", charger: "charger-1"), 1200),
            (.sample(.sessionRestored, key: "opens", session: "opened"), 600),
        ]
        for (event, _) in events { try await append(event, in: store) }
        let timeouts = try await hardTimeouts(store)
        for (event, hard) in events {
            #expect(timeouts[event.idempotencyKey] == hard, "\(event.idempotencyKey)")
        }
        await store.close()
    }

    @Test func `an event of another session does not get the charger of the session in progress`() async throws {
        let store = try open()
        for event in activation { try await append(event, in: store) }
        try await append(.sample(.sessionRestored, key: "other", session: "earlier"), in: store)
        #expect(try await hardTimeouts(store)["other"] == 3600)
        await store.close()
    }

    // MARK: History

    @Test func `the history records a change of the rules alone, with its note`() async throws {
        let store = try open()
        let settings = VersionedSettings(Settings())
        let rules = try Self.rules().recorded
        let note = SettingsChangeNote(changedBy: "Ann", reason: "winter")
        #expect(try await store.record(settings, at: clock.now))
        #expect(try await store.record(settings, rules: rules, note: note, at: clock.now))
        #expect(try await store.record(settings, rules: rules, note: note, at: clock.now))
        #expect(try await store.record(settings, at: clock.now))
        let changes = try await store.settingsHistory(limit: 10).changes
        #expect(changes.map(\.rules) == [nil, rules, nil] && changes[1].note == note)
        await store.close()
    }
}
