// Tests of corrections of settings. A trial of a correction reports the same counts as the correction. The corrected
// rows equal the fold with the new settings, and a correction can be undone.

import Engine
import JourneyModel
import Postgres
import SharedTables
import Synchronization
import TestSupport
import Testing

@testable import PostgresStore

struct CorrectionTests {
    private static let end = Moment.sample.advanced(bySeconds: 900_000)
    private static let received = Moment.sample.advanced(bySeconds: 1_000_000)
    private static let now = Moment.sample.advanced(bySeconds: 2_000_000)

    /// A statement whose result changes with every column of every event.
    private static let sum = "SELECT md5(string_agg(event::text, '' ORDER BY driver, seq)) FROM event"

    private struct Stored {
        var driver: DriverID
        var arrived: [OrderedEvent]
    }

    private static func store(_ number: Int, in store: PostgresEventStore) async throws -> Stored {
        var random = SeededRandom(seed: UInt64(number))
        let driver = DriverID("corrected-\(number)")
        let events = RandomJourney.events(from: .sample, sessionPrefix: "k\(number)-", &random)
            .shuffled(using: &random)
        for event in events { _ = try await store.appended(.random(event, of: driver)) }
        return Stored(driver: driver, arrived: events)
    }

    private static func expireAll(_ store: PostgresEventStore) async throws {
        var request = ExpiryRequest(now: end, settings: VersionedSettings(Settings()), driversMax: 64)
        repeat {
            request.after = try await store.storeExpiries(request).next
        } while request.after != nil
    }

    /// Completes a correction: a new one, or the one that was left unfinished (`continues`).
    private static func correct(
        _ order: CorrectionOrder, in store: PostgresEventStore
    ) async throws -> (counts: RefoldCounts, id: Int64, continues: Bool) {
        let outcome = try await store.begin(order, note: SettingsChangeNote(changedBy: "Ann", reason: "why"), at: now)
        guard case .begun(let correction, let continues) = outcome else {
            Issue.record("\(outcome)")
            return (RefoldCounts(), 0, false)
        }
        var counts = RefoldCounts()
        var request = RefoldRequest(correction: correction.id, now: end)
        while true {
            let part = try await store.refold(request)
            #expect(part.failure == nil)
            counts += part.counts
            guard let next = part.next else { break }
            request.after = next
        }
        try await store.finish(correction: correction.id, at: now)
        return (counts, correction.id, continues)
    }

    private static func expectFold(
        _ all: [Stored], in database: StoreFixture.Database, _ settings: Settings?
    ) async throws {
        let stored = try await ExpectedEvent.stored(in: database)
        for one in all {
            let events = one.arrived.map { event in
                var event = event
                if let settings {
                    event.gracePeriodSeconds = settings.gracePeriodSeconds
                    event.hardTimeoutSeconds = settings.hardTimeoutSeconds
                }
                return event
            }
            #expect(stored[one.driver] == ExpectedEvent.all(events, until: end), "\(one.driver)")
        }
    }

    @Test func `a correction equals the fold with its settings, the trial counts the same, and it is undone`()
        async throws
    {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(2, on: database) { (stores) async throws in
            let store = stores[0]
            var all: [Stored] = []
            for number in 1...30 { all.append(try await Self.store(number, in: store)) }
            try await Self.expireAll(store)
            try await Self.expectFold(all, in: database, nil)
            let settings = Settings(gracePeriodSeconds: 1200, hardTimeoutSeconds: 7000)
            let version = VersionedSettings(settings)
            _ = try await store.record(version, at: Self.received)

            let order = CorrectionOrder(since: Self.received, settings: .current)
            let tried = try await store.tryRefold(.correction(order), now: Self.end) { _, _ in }
            // A trial covers only the events that were received before its `now`. This `now` is earlier than the
            // receipt of every event.
            #expect(tried.counts.events == 0)
            let trial = try await store.tryRefold(.correction(order), now: Self.now) { _, _ in }
            let inParts = try await StoreFixture.withStores(on: database, tailMax: 1) { (stores) async throws in
                try await stores[0].tryRefold(.correction(order), now: Self.now) { _, _ in }
            }
            #expect(inParts.counts == trial.counts)
            let versions = try await database.rows("SELECT id, version FROM driver ORDER BY id")
            let (counts, id, continues) = try await Self.correct(order, in: store)
            #expect(!continues)
            #expect(counts.drivers == 30 && counts.movedDrivers > 0 && counts.sessions.isEmpty == false)
            #expect(trial.counts.events == counts.events && trial.counts.verdicts == counts.verdicts)
            #expect(try await database.rows("SELECT id, version FROM driver ORDER BY id") != versions)
            try await Self.expireAll(store)
            try await Self.expectFold(all, in: database, settings)
            let used = try await database.rows(
                "SELECT DISTINCT fold_settings FROM event WHERE origin = 0 AND settings_version <> '\(version.version)'"
            )
            #expect(used == [version.version])
            #expect(try await store.check { _, _ in }.problems == [])

            let again = try await Self.correct(order, in: store)
            #expect(again.counts.drivers == 0 && again.id != id)
            let undone = try await Self.correct(CorrectionOrder(since: Self.received, settings: .stored), in: store)
            #expect(undone.counts.drivers == 30)
            try await Self.expireAll(store)
            try await Self.expectFold(all, in: database, nil)
            #expect(try await database.rows("SELECT count(*) FROM event WHERE fold_settings IS NOT NULL") == ["0"])
            #expect(try await store.check { _, _ in }.problems == [])
            let list = try await store.settingsCorrections(limit: 10)
            #expect(list.map(\.version) == [nil, version.version, version.version])
            #expect(list.allSatisfy { $0.note == SettingsChangeNote(changedBy: "Ann", reason: "why") })
        }
    }

    @Test func `a stream that showed a correction is told when the correction is undone`() async throws {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            let (store, driver) = (stores[0], DriverID("undone"))
            var submissions = Array(SampleJourney.whole(prefix: "e", session: "s").prefix(5))
            submissions.append(.sample(.reset, key: "reset", session: "s", at: .sample.advanced(bySeconds: 600)))
            let wrong = Settings(gracePeriodSeconds: 60)
            for submission in submissions {
                _ = try await store.appended(
                    .sample(submission, of: driver, receivedAt: Self.received, settings: wrong))
            }
            _ = try await store.record(VersionedSettings(Settings()), at: Self.received)
            #expect(try await store.journey(of: driver).state == .idle)

            _ = try await Self.correct(CorrectionOrder(since: Self.received, settings: .current), in: store)
            guard case .newest(let corrected) = try await store.changes(of: driver, after: nil) else {
                Issue.record("a new reader is not told the corrected state")
                return
            }
            #expect(corrected.id == 0 && corrected.journey.state == .inTransit)

            _ = try await Self.correct(CorrectionOrder(since: Self.received, settings: .stored), in: store)
            #expect(
                try await store.changes(of: driver, after: corrected.id)
                    == .newest(JourneyChange(id: 0, journey: Journey(), cause: nil)))
        }
    }

    @Test func `a trial folds all events of a driver whom an older release folded`() async throws {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            let store = stores[0]
            let stored = try await Self.store(3, in: store)
            // Only the event with the latest time stays in the correction's time span. For all other events, the time
            // of receipt is moved to before the span.
            _ = try await database.rows(
                """
                UPDATE event SET received_at_ms = received_at_ms - 500000000
                WHERE corrected_at_ms < (SELECT max(corrected_at_ms) FROM event WHERE origin = 0)
                """)
            let settings = Settings(gracePeriodSeconds: 1200, hardTimeoutSeconds: 7000)
            _ = try await store.record(VersionedSettings(settings), at: Self.received)
            let order = CorrectionOrder(since: Self.received, settings: .current)
            let ofLast = try await store.tryRefold(.correction(order), now: Self.now) { _, _ in }
            #expect(ofLast.counts.events < stored.arrived.count)
            _ = try await database.rows("UPDATE driver SET rules = \(Fold.rulesVersion - 1)")
            let ofAll = try await store.tryRefold(.correction(order), now: Self.now) { _, _ in }
            #expect(ofAll.counts.events == stored.arrived.count)
        }
    }

    /// These statements may read the events of all drivers, or of up to a thousand drivers, and may therefore take
    /// long.
    @Test(.enabled(if: CitusCluster.named == nil, "on Citus, the table of events cannot become a view"))
    func `a check, a trial and the search for a driver to refold may exceed the session's limit for a statement`()
        async throws
    {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            let event = EventSubmission.sample(.chargerTargeted, key: "k", charger: "c")
            _ = try await stores[0].appended(.sample(event, of: DriverID("slow"), receivedAt: Self.received))
        }
        // Each read of the event takes 0.6 seconds.
        _ = try await database.rows(
            """
            CREATE FUNCTION wait() RETURNS boolean LANGUAGE plpgsql COST 0.0001
                AS $$ BEGIN PERFORM pg_sleep(0.6); RETURN true; END $$;
            ALTER TABLE event RENAME TO event_row;
            CREATE VIEW event AS SELECT * FROM event_row WHERE wait();
            """)
        let configuration = try database.configuration(statementMilliseconds: 500)
        try await StoreFixture.withStores(on: database, as: configuration) { (stores) async throws in
            let store = stores[0]
            let report = try await store.check { _, _ in }
            #expect(report.problems == [] && report.events == 1)
            let order = CorrectionOrder(since: Self.received, settings: .stored)
            let trial = try await store.tryRefold(.correction(order), now: Self.now) { _, _ in }
            #expect(trial.counts == RefoldCounts())
            let all = try await store.tryRefold(
                .settings(since: Moment(millisecondsSinceEpoch: 0)) { _ in
                    TrialDurations(gracePeriodSeconds: nil, hardTimeoutSeconds: nil)
                }, now: Self.now
            ) { _, _ in }
            #expect(all.counts.events == 1)
            #expect(try await Self.correct(order, in: store).counts == RefoldCounts())
            _ = try await database.rows("UPDATE driver SET rules = \(Fold.rulesVersion - 1)")
            #expect(try await store.refold(RefoldRequest(since: Self.now)).next == nil)
        }
    }

    @Test func `unknown settings are refused, and an unfinished correction is continued`() async throws {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            let store = stores[0]
            let note = SettingsChangeNote(changedBy: "Ann", reason: "why")
            let unknown = CorrectionOrder(since: Self.received, settings: .version("abc"))
            #expect(try await store.begin(unknown, note: note, at: Self.now) == .unknownSettings("abc"))
            await #expect(throws: StoreFailure.self) {
                try await store.tryRefold(.correction(unknown), now: Self.now) { _, _ in }
            }
            _ = try await store.record(VersionedSettings(Settings()), at: Self.received)
            var order = CorrectionOrder(since: Self.received, settings: .current, insteadOf: "abc")
            #expect(try await store.begin(order, note: note, at: Self.now) == .unknownSettings("abc"))
            order.insteadOf = nil
            guard case .begun(let first, continues: false) = try await store.begin(order, note: note, at: Self.now),
                case .begun(let second, continues: true) = try await store.begin(order, note: note, at: Self.now)
            else {
                Issue.record("not begun once and continued once")
                return
            }
            #expect(first == second && first.finishedAt == nil)
        }
    }

    @Test func `other settings are tried for the events since a time, by charger and driver`() async throws {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            let store = stores[0]
            var all: [Stored] = []
            for number in 1...10 { all.append(try await Self.store(number, in: store)) }
            try await Self.expireAll(store)
            let before = try await database.rows(Self.sum)
            let chosen = all[3].driver
            let outcome = try await store.tryRefold(
                .settings(since: Moment(millisecondsSinceEpoch: 0)) { event in
                    TrialDurations(gracePeriodSeconds: event.driver == chosen ? 1 : nil, hardTimeoutSeconds: nil)
                }, now: Self.now
            ) { _, _ in }
            #expect(outcome.counts.drivers == 10)
            let same = try await store.tryRefold(
                .settings(since: Moment(millisecondsSinceEpoch: 0)) { _ in
                    TrialDurations(gracePeriodSeconds: nil, hardTimeoutSeconds: nil)
                }, now: Self.now
            ) { _, _ in }
            #expect(same.counts.verdicts.isEmpty && same.counts.sessions.isEmpty)
            let since = Moment.sample.advanced(bySeconds: 3600)
            let (events, shorter) = try await Self.tryShorter(since: since, in: store)
            let inParts = try await StoreFixture.withStores(on: database, tailMax: 1) { (stores) async throws in
                try await Self.tryShorter(since: since, in: stores[0])
            }
            #expect(inParts.events == events && inParts.counts == shorter)
            #expect(events.count < all.reduce(0) { $0 + $1.arrived.count })
            #expect(
                try await database.rows(
                    """
                    SELECT count(*), count(DISTINCT driver) FROM event
                    WHERE origin = 0 AND corrected_at_ms >= \(since.millisecondsSinceEpoch)
                    """) == ["\(events.count)|\(Set(events.map(\.driver)).count)"])
            #expect(Set(events.compactMap(\.chargerID)) == ["c1", "c2", "c3"])
            #expect(events.allSatisfy { $0.receivedAt == Self.received })
            #expect(outcome.counts.sessions.values.reduce(0, +) + outcome.counts.verdicts.count > 0)
            #expect(
                try await database.rows(Self.sum)
                    == before)
        }
    }

    /// Runs a trial with a grace period and a hard timeout of one second. `events` are the events for which the trial
    /// asked for these durations.
    private static func tryShorter(
        since: Moment, in store: PostgresEventStore
    ) async throws -> (events: [TrialEvent], counts: RefoldCounts) {
        let asked = Mutex<[TrialEvent]>([])
        let outcome = try await store.tryRefold(
            .settings(since: since) { event in
                asked.withLock { $0.append(event) }
                return TrialDurations(gracePeriodSeconds: 1, hardTimeoutSeconds: 1)
            }, now: now
        ) { _, _ in }
        return (asked.withLock { $0 }, outcome.counts)
    }

    @Test func `in each part, an event is tried with the charger of its session's registration`() async throws {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(on: database, tailMax: 1) { (stores) async throws in
            let (store, driver) = (stores[0], DriverID("registered"))
            for session in ["s1", "s2"] {
                let registration = SessionRegistration(
                    sessionID: session, driver: driver, chargerID: "of \(session)", merchantID: nil,
                    receivedAt: Self.received)
                _ = try await store.register(registration)
            }
            for index in 0..<8 {
                let ping = EventSubmission.sample(
                    .diagnostic("ping"), key: "\(index)", session: index < 4 ? "s1" : "s2",
                    at: .sample.advanced(bySeconds: index))
                _ = try await store.appended(.sample(ping, of: driver, receivedAt: Self.received))
            }
            let tried = try await Self.tryShorter(since: Moment(millisecondsSinceEpoch: 0), in: store)
            #expect(
                tried.events.map(\.chargerID)
                    == ["of s1", "of s1", "of s1", "of s1", "of s2", "of s2", "of s2", "of s2"])
        }
    }

    /// The events before the driver's floor are deleted. A late event before the floor is stored, but has no effect.
    /// The trial must therefore not begin with the journey in that event's row.
    @Test func `a trial that begins after the floor continues the journey at the floor`() async throws {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            let (store, driver) = (stores[0], DriverID("floor"))
            let submissions: [EventSubmission] = [
                .sample(.enteredChargerIntentZone, key: "deleted"),
                .sample(.anchorDwellComplete, key: "anchored", at: .sample.advanced(bySeconds: 200)),
            ]
            for submission in submissions {
                _ = try await store.appended(.sample(submission, of: driver, receivedAt: Self.received))
            }
            let floor = Moment.sample.advanced(bySeconds: 100)
            _ = try await database.rows(
                """
                INSERT INTO journey_base (lane, driver, state)
                    SELECT lane, driver, after_state FROM event WHERE idempotency_key = 'deleted';
                DELETE FROM event WHERE idempotency_key = 'deleted';
                UPDATE driver SET floor_at_ms = \(floor.millisecondsSinceEpoch), version = version + 1
                """)
            let late = EventSubmission.sample(.diagnostic("ping"), key: "late", at: .sample.advanced(bySeconds: 50))
            _ = try await store.appended(.sample(late, of: driver, receivedAt: Self.received))
            #expect(try await store.check { _, _ in }.problems == [])
            let since = Moment.sample.advanced(bySeconds: 150)
            let outcome = try await store.tryRefold(
                .settings(since: since) { _ in TrialDurations(gracePeriodSeconds: nil, hardTimeoutSeconds: nil) },
                now: Self.now
            ) { _, _ in }
            #expect(outcome.counts.events == 1 && outcome.counts.verdicts.isEmpty)
        }
    }

    @Test func `a driver whose deletion is in progress is not tried`() async throws {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(on: database) { (stores) async throws in
            let store = stores[0]
            for number in 1...3 { _ = try await Self.store(number, in: store) }
            _ = try await store.change { db in
                try db.execute(
                    sql: """
                        INSERT INTO erasure (driver, driver_digest, step, event_count)
                        SELECT id, ?, 'events', 0 FROM driver WHERE driver_id = 'corrected-2'
                        """,
                    arguments: [[UInt8](repeating: 7, count: 32)])
            }
            let tried = Mutex<Set<DriverID>>([])
            let outcome = try await store.tryRefold(
                .settings(since: Moment(millisecondsSinceEpoch: 0)) { event in
                    tried.withLock { _ = $0.insert(event.driver) }
                    return TrialDurations(gracePeriodSeconds: 1, hardTimeoutSeconds: nil)
                }, now: Self.now
            ) { _, _ in }
            #expect(tried.withLock { $0 } == [DriverID("corrected-1"), DriverID("corrected-3")])
            #expect(outcome.counts.drivers == 2)
        }
    }
}
