// Tests with a database of version 6. Release 6 ignored the states that phones reported, and did not order the events
// within a second. After the migration, a late event of the driver or a refold of all drivers corrects this.

import Engine
import Foundation
import GRDB
import JourneyModel
import TestSupport
import Testing

@testable import SQLiteStore

struct RefoldTests {
    /// Creates a database with two visits as release 6 stored them:
    /// - The dwell event of driver 1 was lost. Release 6 therefore rejected the activation, departure, arrival and
    ///   verification.
    /// - Driver 2 left the zone and came back within one second. Release 6 put the return before the exit, because it
    ///   ordered these events by rank.
    private func version6(_ scratch: ScratchFolder) throws -> String {
        let path = scratch.file("db")
        let old = MigrationRun(Array(Migration.all.prefix(6)))
        let pool = try DatabaseOpening.open(path: path, migrations: old, nowMilliseconds: 0)
        try pool.write { db in try db.execute(sql: Self.rows) }
        try pool.close()
        return path
    }

    private static let rows = """
        INSERT INTO settings_version VALUES (1, 'v', 900, 3600, '{}', 0);
        INSERT INTO driver (id, driver_id, created_at_ms, head_event, head_corrected_at_ms, state)
            VALUES (1, 'lost-dwell', 0, 5, 500000, 1), (2, 'one-second', 0, 8, 200000, 0);
        INSERT INTO session (id, session_id, driver, opened_at_ms) VALUES (1, 's', 1, 0);
        INSERT INTO event_kind VALUES
            (1, 'enteredChargerIntentZone', 0, 'entered_charger_intent_zone', '1.0', 'ios_native', NULL, 1, 0),
            (2, 'exitedChargerIntentZone', 0, 'exited_charger_intent_zone', '1.0', 'ios_native', NULL, 2, 0),
            (3, 'exclusiveActivatedByWeb', 1, 'exclusive_activated', '1.0', 'ios_native', NULL, 6, 0),
            (4, 'exitedChargerAnchorZone', 1, 'departed_charger', '1.0', 'ios_native', NULL, 7, 0),
            (5, 'enteredMerchantZone', 1, 'entered_merchant_zone', '1.0', 'ios_native', NULL, 8, 0),
            (6, 'visitVerifiedByWeb', 1, 'visit_verified', '1.0', 'ios_native', NULL, 9, 0);
        INSERT INTO event (id, driver, idempotency_key, digest, kind, session, settings_version, occurred_at,
            occurred_at_ms, corrected_at_ms, skew_ms, received_at_ms, metadata, transition, reason, implies_reset,
            after_state) VALUES
            (1, 1, 'a', zeroblob(32), 1, NULL, 1, '1970-01-01T00:01:40Z', 100000, 100000, 0, 1, NULL, 1, NULL, 0, 1),
            (2, 1, 'b', zeroblob(32), 3, 1, 1, '1970-01-01T00:03:20Z', 200000, 200000, 0, 2,
                '{"previous_state":"ANCHORED"}', 2, 0, 0, 1),
            (3, 1, 'c', zeroblob(32), 4, 1, 1, '1970-01-01T00:05:00Z', 300000, 300000, 0, 3,
                '{"battery":1,"previous_state":"SESSION_ACTIVE"}', 2, 3, 0, 1),
            (4, 1, 'd', zeroblob(32), 5, 1, 1, '1970-01-01T00:06:40Z', 400000, 400000, 0, 4,
                '{"previous_state":"IN_TRANSIT"}', 2, 3, 0, 1),
            (5, 1, 'e', zeroblob(32), 6, 1, 1, '1970-01-01T00:08:20Z', 500000, 500000, 0, 5,
                '{"previous_state":"AT_MERCHANT"}', 2, 1, 0, 1),
            (6, 2, 'a', zeroblob(32), 1, NULL, 1, '1970-01-01T00:01:40Z', 100000, 100000, 0, 6, NULL, 1, NULL, 0, 1),
            (7, 2, 'b', zeroblob(32), 1, NULL, 1, '1970-01-01T00:03:20Z', 200000, 200000, 0, 8, NULL, 2, 3, 0, 1),
            (8, 2, 'c', zeroblob(32), 2, NULL, 1, '1970-01-01T00:03:20Z', 200000, 200000, 0, 7, NULL, 1, NULL, 0, 0);
        """

    private func check(_ path: String) throws -> [String] {
        let check = try DatabaseCheck(path: path)
        defer { check.close() }
        return try check.run { _ in }.problems
    }

    private func refoldAll(
        _ store: SQLiteEventStore, _ request: RefoldRequest = RefoldRequest()
    ) async throws -> RefoldCounts {
        let part = try await store.refold(request, within: .seconds(600))
        #expect(part.failure == nil && part.next == nil)
        return part.counts
    }

    @Test(arguments: [500, 1])
    func `all of it comes under the rules of this release, counted by what changed`(rowsPerPiece: Int) async throws {
        let scratch = try ScratchFolder()
        let path = try version6(scratch)
        let store = try SQLiteEventStore(
            pool: try DatabaseOpening.open(path: path, nowMilliseconds: 0), pace: RefoldPace(rowsPerPiece: rowsPerPiece)
        )
        #expect(try check(path).contains { $0.contains("folded by an older release") })

        let counts = try await refoldAll(store)
        #expect(counts.drivers == 2 && counts.events == 8 && counts.movedDrivers == 2 && counts.expiries == 0)
        #expect(
            counts.verdicts == [
                RefoldChange(from: "rejected not_anchored", to: "applied, implied anchorDwellComplete"): 1,
                RefoldChange(from: "rejected no_such_transition", to: "applied"): 3,
                RefoldChange(from: "rejected not_at_merchant", to: "applied"): 1,
            ])
        #expect(counts.sessions == [RefoldChange(from: "not activated", to: "verified"): 1])
        #expect(try check(path) == [])

        let visit = try await store.journey(of: DriverID("lost-dwell"))
        #expect(visit.state == .sessionEnded && visit.endedBy == .verified && visit.sessionID == "s")
        #expect(try await store.journey(of: DriverID("one-second")).state == .nearCharger)
        let order = try await store.timeline(of: DriverID("one-second")).map(\.idempotencyKey)
        #expect(order == ["a", "c", "b"])
        #expect(try await refoldAll(store) == RefoldCounts())
        await store.close()
    }

    @Test func `the first piece reads only the events that it folds and a few more`() async throws {
        let scratch = try ScratchFolder()
        let path = try version6(scratch)
        let store = try SQLiteEventStore(
            pool: try DatabaseOpening.open(path: path, nowMilliseconds: 0), pace: RefoldPace(rowsPerPiece: 1))
        try await store.change { (db: Database) in
            try db.execute(sql: "UPDATE driver SET rules = ? WHERE id = 2", arguments: [Fold.rulesVersion])
        }
        #expect(try await store.refold(RefoldRequest()).next == 0)
        let unread = try await store.read { db in
            try Int64.fetchAll(db, sql: "SELECT id FROM event WHERE driver = 1 AND second_place IS NULL ORDER BY id")
        }
        #expect(unread == [4, 5])
        // Events 4 and 5 have no `second_place` yet, and a transfer cannot compute it. The final pass of a transfer
        // must therefore wait for the refold.
        let source = try SQLiteTransferSource.open(path)
        #expect(try source.obstacle(isFinal: false) == nil)
        #expect(try source.obstacle(isFinal: true) != nil)
        source.close()
        #expect(try await refoldAll(store).drivers == 1)
        #expect(try await store.journey(of: DriverID("lost-dwell")).endedBy == .verified)
        await store.close()
    }

    @Test func `a deletion before the refold keeps the states that the phone reported`() async throws {
        let scratch = try ScratchFolder()
        let store = try SQLiteEventStore(path: try version6(scratch), nowMilliseconds: 0)
        try await store.change { (db: Database) in
            try db.execute(sql: "UPDATE driver SET driver_id = 'erased-1' WHERE id = 1")
            try ErasureProgress.begin(1, Array(repeating: 0, count: 32), db)
            var progress = try #require(try ErasureProgress(of: 1, db))
            while try progress.advance(rowsMax: 100, mayComplete: true, db).step != nil {}
        }
        _ = try await refoldAll(store)
        let visit = try await store.journey(of: DriverID("erased-1"))
        #expect(visit.state == .sessionEnded && visit.endedBy == .verified)
        await store.close()
    }

    @Test func `a stream that is open meanwhile is told, once for each driver who stands elsewhere`() async throws {
        let scratch = try ScratchFolder()
        let store = try SQLiteEventStore(path: try version6(scratch), nowMilliseconds: 0)
        let (visit, second) = (DriverID("lost-dwell"), DriverID("one-second"))
        #expect(try await store.driversAwaitingRefold(among: [visit, second, DriverID("nobody")]) == [visit, second])
        // The database has recorded no change of the two journeys. A stream therefore gets the current state as a
        // change with the id 0.
        #expect(
            try await store.changes(of: visit, after: nil)
                == .newest(JourneyChange(id: 0, journey: Journey(state: .nearCharger), cause: nil)))

        let first = try await store.refold(RefoldRequest())
        #expect(first.next == 1)
        #expect(try await store.driversAwaitingRefold(among: [visit, second]) == [second])
        guard case .newest(let told) = try await store.changes(of: visit, after: 0) else {
            Issue.record("a reader of the state before is not told the new one")
            return
        }
        #expect(told.id == 0 && told.journey.state == .sessionEnded && told.journey.endedBy == .verified)
        #expect(try await store.changes(of: DriverID("nobody"), after: 0) == .all([]))
        await store.close()
    }

    @Test func `a dry run tells the same and keeps nothing`() async throws {
        let scratch = try ScratchFolder()
        let path = try version6(scratch)
        let store = try SQLiteEventStore(path: path, nowMilliseconds: 0)
        let trial = try RefoldTrial(path: path)
        let now = Moment(millisecondsSinceEpoch: 1)
        let tried = try trial.run(.rules(since: nil), now: now).counts
        #expect(try trial.run(.rules(since: Moment(millisecondsSinceEpoch: 6)), now: now).counts.drivers == 1)
        trial.close()
        #expect(try await store.journey(of: DriverID("lost-dwell")).state == .nearCharger)
        #expect(try await refoldAll(store) == tried)
        await store.close()
    }

    @Test(arguments: [false, true])
    func `retention deletes a driver's events only after the refold`(hasBegun: Bool) async throws {
        let scratch = try ScratchFolder()
        let store = try SQLiteEventStore(
            pool: try DatabaseOpening.open(path: try version6(scratch), nowMilliseconds: 0),
            pace: RefoldPace(rowsPerPiece: 1))
        if hasBegun { #expect(try await store.refold(RefoldRequest()).next == 0) }
        let aged = AgedEvent(id: 2, driver: 1, correctedAt: Moment(millisecondsSinceEpoch: 200_000))
        #expect(try await store.delete([aged]) == 0)
        _ = try await refoldAll(store)
        #expect(try await store.delete([aged]) == 1)
        let base = try await store.read { db in try Int64.fetchAll(db, sql: "SELECT state FROM journey_base") }
        #expect(base == [JourneyState.sessionActive.code])
        await store.close()
    }

    @Test func `only who has sent something since`() async throws {
        let scratch = try ScratchFolder()
        let store = try SQLiteEventStore(path: try version6(scratch), nowMilliseconds: 0)
        let since = RefoldRequest(since: Moment(millisecondsSinceEpoch: 6))
        #expect(try await refoldAll(store, since).drivers == 1)
        #expect(try await store.journey(of: DriverID("lost-dwell")).state == .nearCharger)
        await store.close()
    }

    @Test func `a late event refolds its driver first, so all verdicts come from one set of rules`() async throws {
        let scratch = try ScratchFolder()
        let path = try version6(scratch)
        let store = try SQLiteEventStore(path: path, nowMilliseconds: 0)
        let driver = DriverID("lost-dwell")
        let dwell = EventSubmission.sample(
            .anchorDwellComplete, key: "late", at: Moment(millisecondsSinceEpoch: 150_000), previousState: .nearCharger)
        guard case .stored(let stored) = try await store.appended(.sample(dwell, of: driver)) else {
            Issue.record("it is not stored")
            return
        }
        #expect(stored.verdict == .applied && stored.journey.endedBy == .verified)
        let verdicts = try await store.timeline(of: driver).map(\.verdict)
        #expect(verdicts == Array(repeating: .applied, count: 6))
        #expect(try check(path).count == 1)
        #expect(try await refoldAll(store).drivers == 1)
        #expect(try check(path) == [])
        await store.close()
    }

    @Test(arguments: [false, true])
    func `an event after the head, and a repeat, do not wait for the refold, which folds the event again`(
        hasBegun: Bool
    ) async throws {
        let scratch = try ScratchFolder()
        let path = try version6(scratch)
        let store = try SQLiteEventStore(
            pool: try DatabaseOpening.open(path: path, nowMilliseconds: 0), pace: RefoldPace(rowsPerPiece: 1))
        let driver = DriverID("lost-dwell")
        if hasBegun { #expect(try await store.refold(RefoldRequest()).next == 0) }
        let exit = EventSubmission.sample(
            .exitedChargerIntentZone, key: "exit", at: Moment(millisecondsSinceEpoch: 600_500))
        guard case .stored(let stored) = try await store.appended(.sample(exit, of: driver)),
            case .replayed(let repeated) = try await store.appended(.sample(exit, of: driver))
        else {
            Issue.record("the event is not stored, or its repeat is not recognised")
            return
        }
        // Under the rules of release 6, the driver is still at the charger.
        #expect(stored.verdict == .applied && stored.journey.state == .idle)
        #expect(repeated.verdict == stored.verdict && repeated.journey == stored.journey)
        #expect(try await store.driversAwaitingRefold(among: [driver]) == [driver])
        #expect(try await store.hasUnfinishedRefolds() == hasBegun)
        guard case .replayed(let found) = try await store.lookUp(exit, of: driver) else {
            Issue.record("the look-up does not find the event")
            return
        }
        #expect(found.verdict == stored.verdict)
        let rules = try await store.read { db in try Int64.fetchAll(db, sql: "SELECT rules FROM driver WHERE id = 1") }
        #expect(rules == [hasBegun ? 0 : DriverRow.mixedRules])

        let late = EventSubmission.sample(
            .diagnostic("late"), key: "late", at: Moment(millisecondsSinceEpoch: 550_500))
        guard case .stored(let last) = try await store.appended(.sample(late, of: driver)) else {
            Issue.record("the late event is not stored")
            return
        }
        #expect(try await store.driversAwaitingRefold(among: [driver]) == [])
        #expect(last.journey.endedBy == .verified)
        _ = try await refoldAll(store)
        #expect(try check(path) == [])
        await store.close()
    }

    @Test(arguments: [false, true])
    func `a driver whom a newer release has folded, or is refolding, is left to it`(isUnderWay: Bool) async throws {
        let scratch = try ScratchFolder()
        let store = try SQLiteEventStore(path: try version6(scratch), nowMilliseconds: 0)
        _ = try await refoldAll(store)
        let newer = Fold.rulesVersion + 1
        try await store.change { db in
            try db.execute(
                sql: "UPDATE driver SET rules = ?, hard_deadline_ms = 600000 WHERE id = 1",
                arguments: [isUnderWay ? 0 : newer])
            guard isUnderWay else { return }
            try db.execute(
                sql: "INSERT INTO refold (driver, rules, last_event, row_count) VALUES (1, ?, 1, 1)",
                arguments: [newer])
        }
        let event = EventSubmission.sample(.sessionRestored, key: "next", session: "s", at: .sample)
        await #expect(throws: StoreFailure.unavailable("the journey was folded by the rules of a newer release")) {
            try await store.appended(.sample(event, of: DriverID("lost-dwell")))
        }
        #expect(try await store.earliestDeadline() == nil)
        let settings = VersionedSettings(settings: Settings(), version: Settings().version)
        let expiries = try await store.storeExpiries(ExpiryRequest(now: .sample, settings: settings, driversMax: 8))
        #expect(expiries.drivers.isEmpty && expiries.failures.isEmpty)
        #expect(try await refoldAll(store).drivers == 0)
        #expect(try await refoldAll(store, RefoldRequest(urgentOnly: true)).drivers == 0)
        let stored = try await store.read { db in
            try Int64.fetchAll(db, sql: "SELECT rules FROM driver WHERE id = 1 UNION ALL SELECT rules FROM refold")
        }
        #expect(stored == (isUnderWay ? [0, newer] : [newer]))
        // The other driver's events are stored.
        let other = EventSubmission.sample(.chargerTargeted, key: "next", at: .sample)
        guard case .stored = try await store.appended(.sample(other, of: DriverID("one-second"))) else {
            Issue.record("it is not stored")
            return
        }
        await store.close()
    }
}
