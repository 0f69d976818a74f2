// Tests of corrections of settings, and of trials of corrections, which store nothing. Random journeys are stored with
// changing settings. The expected result is a fold of the ordered events with the corrected settings.
//
// Set DWELL_CORRECTION_JOURNEYS=10000 for a long run. A failure prints its seed. DWELL_PROPERTY_SEED=<seed> with
// DWELL_CORRECTION_JOURNEYS=1 repeats that journey alone.

import Engine
import Foundation
import GRDB
import JourneyModel
import SharedTables
import TestSupport
import Testing

@testable import SQLiteStore

struct SettingsCorrectionTests {
    private static let seeds = PropertyRun.seeds("DWELL_CORRECTION_JOURNEYS", unlessSet: 400)
    private static let journeysPerFile: UInt64 = 50
    /// The events of a journey are received in turn at `received`, `since` and `until`. A correction covers only the
    /// events received at `since`.
    private static let received = Moment.sample.advanced(bySeconds: 10 * DeliveredJourney.spanSeconds)
    private static let since = received.advanced(bySeconds: 1000)
    private static let until = received.advanced(bySeconds: 2000)
    private static let now = received.advanced(bySeconds: 100_000)
    private static let note = SettingsChangeNote(changedBy: "Ann", reason: "wrong for a day")

    private let folder: ScratchFolder

    init() throws {
        folder = try ScratchFolder(inMemory: true)
    }

    // MARK: Random journeys

    private static func receivedAt(_ index: Int) -> Moment { received.advanced(bySeconds: index % 3 * 1000) }

    private func store(_ name: String, rowsPerPiece: Int) throws -> SQLiteEventStore {
        let pool = try DatabaseOpening.open(path: folder.file(name), nowMilliseconds: 0)
        return try SQLiteEventStore(
            pool: pool, pace: RefoldPace(rowsPerLateEvent: 50, rowsPerPiece: rowsPerPiece, pauseFactor: 0))
    }

    private func deliver(_ journeys: [DeliveredJourney], to store: SQLiteEventStore) async {
        for journey in journeys {
            let requests = journey.turns.joined().map { index in
                journey.request(index, receivedAt: Self.receivedAt(index))
            }
            _ = await store.append(requests)
        }
    }

    /// - Parameters:
    ///   - settings: the settings for the events of the corrected time span. If nil, each event keeps its stored
    ///     settings.
    ///   - insteadOf: the version that `settings` replace. If nil, `settings` replace every version.
    private func expected(
        _ journey: DeliveredJourney, _ settings: Settings?, insteadOf: String? = nil
    ) -> DeliveredJourney.Expected {
        var delivered: Set<Int> = []
        let arrived = journey.turns.joined().filter { delivered.insert($0).inserted }.map { index -> OrderedEvent in
            var event = journey.events[index]
            let version = "\(event.gracePeriodSeconds)-\(event.hardTimeoutSeconds)"
            guard let settings, Self.receivedAt(index) == Self.since, insteadOf ?? version == version else {
                return event
            }
            event.gracePeriodSeconds = settings.gracePeriodSeconds
            event.hardTimeoutSeconds = settings.hardTimeoutSeconds
            return event
        }
        return DeliveredJourney.expected(of: arrived)
    }

    private func differences(
        _ journeys: [DeliveredJourney], _ store: SQLiteEventStore, _ settings: Settings?, insteadOf: String? = nil
    ) async throws -> [String] {
        var differences: [String] = []
        for journey in journeys {
            let expected = expected(journey, settings, insteadOf: insteadOf)
            let points = try await store.timeline(of: journey.driver).map(DeliveredJourney.Point.init)
            let effective = points.filter { $0.key.first != "\u{A7}" || $0.verdict == .applied }
            // The expiries of deadlines after the last event are not stored yet.
            let ofEnd = expected.points.drop { $0.key != effective.last?.key }.dropFirst()
            guard effective + ofEnd == expected.points, ofEnd.allSatisfy({ $0.key.first == "\u{A7}" }) else {
                differences.append("\(journey): stored \(effective) instead of \(expected.points)")
                continue
            }
            let head = try await store.journey(of: journey.driver)
            if head != expected.last && head != expected.end {
                differences.append("\(journey): at \(head) instead of \(expected.last)")
            }
        }
        return differences
    }

    private func check(_ name: String) throws -> [String] {
        let check = try DatabaseCheck(path: folder.file(name))
        defer { check.close() }
        return try check.run { _ in }.problems
    }

    private func begin(
        _ order: CorrectionOrder, _ store: SQLiteEventStore
    ) async throws -> (correction: SettingsCorrection, continues: Bool) {
        guard case .begun(let correction, let continues) = try await store.begin(order, note: Self.note, at: Self.now)
        else { throw StoreFailure.unavailable("unknown settings") }
        return (correction, continues)
    }

    /// Refolds until all drivers are done or `partsMax` parts are refolded. Returns the total of the counts.
    private func refold(
        _ correction: Int64, _ store: SQLiteEventStore, partsMax: Int = .max
    ) async throws -> RefoldCounts {
        var (counts, request) = (RefoldCounts(), RefoldRequest(correction: correction, now: Self.now))
        for _ in 0..<partsMax {
            let part = try await store.refold(request)
            #expect(part.failure == nil)
            counts += part.counts
            guard let next = part.next else {
                try await store.finish(correction: correction, at: Self.now)
                break
            }
            request.after = next
        }
        return counts
    }

    private func trial(_ name: String, _ change: RefoldTrial.Change) throws -> RefoldCounts {
        let trial = try RefoldTrial(path: folder.file(name))
        defer { trial.close() }
        return try trial.run(change, now: Self.now).counts
    }

    private func bytes(_ name: String) throws -> [Data] {
        try ["", "-wal"].map { try Data(contentsOf: URL(fileURLWithPath: folder.file(name) + $0)) }
    }

    @Test func `a correction folds as if its settings had been in force, and a trial tells it beforehand`() async throws
    {
        var changedSessions = 0
        for first in stride(from: Self.seeds.lowerBound, to: Self.seeds.upperBound, by: Int(Self.journeysPerFile)) {
            let seeds = first..<min(first + Self.journeysPerFile, Self.seeds.upperBound)
            let journeys = seeds.map { DeliveredJourney(seed: $0, turnCount: 3) }
            var random = SeededRandom(seed: first)
            let name = "db\(first)"
            let store = try store(name, rowsPerPiece: [1, 3, 500].randomPick(&random))
            await deliver(journeys, to: store)
            #expect(try await differences(journeys, store, nil) == [])

            let settings = Settings(
                gracePeriodSeconds: [60, 600, 900].randomPick(&random),
                hardTimeoutSeconds: [900, 3600, 7200].randomPick(&random))
            #expect(
                try await store.record(
                    VersionedSettings(settings: settings, version: "now"), note: Self.note, at: Self.now))
            let insteadOf = random.chance(1, in: 3) ? Self.version(of: journeys) : nil
            var order = CorrectionOrder(
                since: Self.since, until: Self.until, settings: .current, insteadOf: insteadOf)
            let before = try bytes(name)
            let tried = try trial(name, .correction(order))
            #expect(try bytes(name) == before, "A trial writes nothing.")
            let verdicts = try await verdicts(of: journeys, store)

            let (correction, continues) = try await begin(order, store)
            #expect(!continues && correction.version == "now" && correction.note == Self.note)
            #expect(try await refold(correction.id, store) == tried)
            #expect(try await differences(journeys, store, settings, insteadOf: insteadOf) == [])
            #expect(try check(name) == [])
            let changed = try await self.verdicts(of: journeys, store).filter { verdicts[$0.key] != $0.value }
            #expect(changed.filter { verdicts[$0.key] != nil }.count == tried.verdicts.values.reduce(0, +))
            #expect(try trial(name, .correction(order)).drivers == 0, "Nothing is left to correct.")
            changedSessions += tried.sessions.values.reduce(0, +)

            // Undo the correction. A crash interrupts the undo.
            order.settings = .stored
            let undo = try await begin(order, store).correction
            _ = try await refold(undo.id, store, partsMax: Int.random(in: 1...60, using: &random))
            let copy = "\(name)-copy"
            try folder.copyDatabase(name, to: copy)
            await store.close()
            let reopened = try self.store(copy, rowsPerPiece: 3)
            let again = try await begin(order, reopened)
            #expect(!again.continues || again.correction.id == undo.id)
            _ = try await refold(again.correction.id, reopened)
            #expect(try await differences(journeys, reopened, nil) == [])
            #expect(try check(copy) == [])
            await reopened.close()
            folder.removeDatabase(name)
            folder.removeDatabase(copy)
        }
        #expect(Self.seeds.count < 400 || changedSessions > 20, "The corrections change something.")
    }

    private static func version(of journeys: [DeliveredJourney]) -> String? {
        journeys.first?.events.first.map { "\($0.gracePeriodSeconds)-\($0.hardTimeoutSeconds)" }
    }

    private func verdicts(of journeys: [DeliveredJourney], _ store: SQLiteEventStore) async throws -> [String: Verdict]
    {
        var verdicts: [String: Verdict] = [:]
        for journey in journeys {
            for entry in try await store.timeline(of: journey.driver) {
                verdicts["\(journey.seed) \(entry.idempotencyKey)"] = entry.verdict
            }
        }
        return verdicts
    }

    // MARK: One driver

    /// Stores a visit whose grace period of 60 s ended before the arrival, and `count` later events.
    private func visit(_ driver: DriverID, followedBy count: Int = 0, in store: SQLiteEventStore) async {
        let wrong = Settings(gracePeriodSeconds: 60)
        var submissions = SampleJourney.whole(prefix: "\(driver.rawValue)-", session: "s-\(driver.rawValue)")
        for index in 5..<submissions.count {
            submissions[index].occurredAt = submissions[index].occurredAt.advanced(bySeconds: 600)
        }
        for number in 0..<count {
            submissions.append(
                .sample(.sessionRestored, key: "more-\(number)", at: .sample.advanced(bySeconds: 2_000 + number)))
        }
        let requests = submissions.map {
            AppendRequest.sample($0, of: driver, receivedAt: Self.since, settings: wrong)
        }
        for outcome in await store.append(requests) {
            if case .stored = outcome { continue }
            Issue.record("\(outcome)")
        }
    }

    private var toDefaults: CorrectionOrder {
        CorrectionOrder(since: Self.since, until: Self.until, settings: .current)
    }

    private func recordDefaults(_ store: SQLiteEventStore) async throws {
        let settings = VersionedSettings(settings: Settings(), version: Settings().version)
        #expect(try await store.record(settings, at: Self.now))
    }

    @Test func `one transaction corrects no more rows than its bound, and the events of others come in between`()
        async throws
    {
        let store = try store("db", rowsPerPiece: 500)
        let driver = DriverID("long")
        await visit(driver, followedBy: 5_000, in: store)
        try await recordDefaults(store)
        let correction = try await begin(toDefaults, store).correction
        var (request, counts, last) = (RefoldRequest(correction: correction.id, now: Self.now), RefoldCounts(), 0)
        var parts = 0
        while true {
            let part = try await store.refold(request)
            counts += part.counts
            let corrected = try await store.read { db in
                try Int.fetchOne(db, sql: "SELECT count(*) FROM event WHERE fold_settings IS NOT NULL") ?? 0
            }
            #expect(corrected - last <= 500)
            last = corrected
            parts += 1
            let other = EventSubmission.sample(
                .chargerTargeted, key: "o\(parts)", at: .sample.advanced(bySeconds: parts))
            guard case .stored = try await store.appended(.sample(other, of: DriverID("other"))) else {
                Issue.record("the event of another driver was not stored")
                return
            }
            guard let next = part.next else { break }
            request.after = next
        }
        #expect(parts > 10 && last == 5_008)
        #expect(counts.sessions == [RefoldChange(from: "grace", to: "verified"): 1])
        #expect(counts.sessionExamples == [RefoldChange(from: "grace", to: "verified"): ["s-long"]])
        #expect(try check("db") == [])
        await store.close()
    }

    @Test func `a late event completes a correction that was interrupted, and an event after the head does not`()
        async throws
    {
        let store = try store("db", rowsPerPiece: 3)
        let driver = DriverID("d")
        await visit(driver, followedBy: 50, in: store)
        try await recordDefaults(store)
        let tried = try trial("db", .correction(toDefaults))
        let correction = try await begin(toDefaults, store).correction
        let first = try await refold(correction.id, store, partsMax: 2)
        #expect(try await store.hasUnfinishedRefolds())
        for (key, seconds, isAfterHead) in [("next", 9_000, true), ("late", 8_999, false)] {
            let event = EventSubmission.sample(.diagnostic("d"), key: key, at: .sample.advanced(bySeconds: seconds))
            guard case .stored(let stored) = try await store.appended(.sample(event, of: driver, receivedAt: Self.now))
            else {
                Issue.record("not stored")
                return
            }
            #expect(stored.journey.endedBy == (isAfterHead ? .grace : .verified))
            #expect(try await store.hasUnfinishedRefolds() == isAfterHead)
        }
        #expect(try await store.journey(of: driver).endedBy == .verified)
        #expect(try await !store.hasUnfinishedRefolds())
        #expect(try check("db") == [])
        var reported = first
        reported += try await refold(correction.id, store)
        // The refold also folded the event after the head again.
        var expected = tried
        expected.events += 1
        #expect(reported == expected, "The counts contain what the late event completed.")
        await store.close()
    }

    @Test func `streams of every server learn of a changed journey, and only of a changed one`() async throws {
        let store = try store("db", rowsPerPiece: 500)
        await visit(DriverID("changed"), in: store)
        let same = SampleJourney.whole(prefix: "same-", session: "s-same").map {
            AppendRequest.sample(
                $0, of: DriverID("same"), receivedAt: Self.since, settings: Settings(gracePeriodSeconds: 60))
        }
        _ = await store.append(same)
        try await recordDefaults(store)
        #expect(try await store.correctedJourneys(after: nil) == CommittedChanges(newest: 0, drivers: .any))
        let seen = try await store.changes(of: DriverID("changed"), after: nil)
        let correction = try await begin(toDefaults, store).correction
        #expect(try await refold(correction.id, store).drivers == 2)
        #expect(
            try await store.correctedJourneys(after: 0)
                == CommittedChanges(newest: 1, drivers: .these([DriverID("changed")])))
        guard case .newest(let before) = seen,
            case .newest(let told) = try await store.changes(of: DriverID("changed"), after: before.id)
        else {
            Issue.record("a reader of the journey before is not told the new one")
            return
        }
        #expect(before.journey.endedBy == .grace && told.id == 0 && told.journey.endedBy == .verified)
        await store.close()
    }

    @Test func `a stream that showed a correction is told when the correction is undone`() async throws {
        let store = try store("db", rowsPerPiece: 500)
        let driver = DriverID("undone")
        var submissions = Array(SampleJourney.whole(prefix: "e", session: "s").prefix(5))
        submissions.append(.sample(.reset, key: "reset", session: "s", at: .sample.advanced(bySeconds: 600)))
        let wrong = Settings(gracePeriodSeconds: 60)
        _ = await store.append(
            submissions.map { AppendRequest.sample($0, of: driver, receivedAt: Self.since, settings: wrong) })
        try await recordDefaults(store)
        #expect(try await store.journey(of: driver).state == .idle)

        let correction = try await begin(toDefaults, store).correction
        _ = try await refold(correction.id, store)
        guard case .newest(let corrected) = try await store.changes(of: driver, after: nil) else {
            Issue.record("a new reader is not told the corrected state")
            return
        }
        #expect(corrected.id == 0 && corrected.journey.state == .inTransit)

        var order = toDefaults
        order.settings = .stored
        let undoing = try await begin(order, store).correction
        _ = try await refold(undoing.id, store)
        #expect(
            try await store.changes(of: driver, after: corrected.id)
                == .newest(JourneyChange(id: 0, journey: Journey(), cause: nil)))
        await store.close()
    }

    @Test func `unknown settings, and settings that no event has yet`() async throws {
        let store = try store("db", rowsPerPiece: 500)
        await visit(DriverID("d"), in: store)
        var order = toDefaults
        #expect(try await store.begin(order, note: Self.note, at: Self.now) == .unknownSettings("current"))
        order.settings = .version("nowhere")
        #expect(try await store.begin(order, note: Self.note, at: Self.now) == .unknownSettings("nowhere"))
        try await recordDefaults(store)
        order.settings = .current
        order.insteadOf = "nowhere"
        #expect(try await store.begin(order, note: Self.note, at: Self.now) == .unknownSettings("nowhere"))
        order.insteadOf = nil
        order.until = nil
        let begun = try await begin(order, store)
        #expect(begun.correction.until == Self.now && begun.correction.version == Settings().version)
        #expect(try await begin(order, store).continues, "It is not finished.")
        _ = try await refold(begun.correction.id, store)
        #expect(try await !begin(order, store).continues)
        await store.close()
        let records = try SettingsRecords(path: folder.file("db"))
        defer { records.close() }
        let history = try records.corrections(limit: 10)
        #expect(history.map(\.finishedAt) == [nil, Self.now])
    }

    @Test func `other time-outs are tried in memory, with a last deadline that passed`() async throws {
        let store = try store("db", rowsPerPiece: 500)
        await visit(DriverID("d"), in: store)
        let open = SampleJourney.whole(prefix: "open-", session: "s-open").prefix(5).map {
            AppendRequest.sample($0, of: DriverID("open"), receivedAt: Self.since)
        }
        _ = await store.append(Array(open))
        await store.close()
        let before = try bytes(of: "db")
        func tried(_ grace: Int?, _ hard: Int? = nil, since: Moment = .sample) throws -> RefoldCounts {
            try trial(
                "db",
                .settings(since: since) { event in
                    #expect(event.receivedAt == Self.since)
                    return TrialDurations(gracePeriodSeconds: grace, hardTimeoutSeconds: hard)
                })
        }
        #expect(try tried(900).sessions == [RefoldChange(from: "grace", to: "verified"): 1])
        #expect(try tried(900).sessionsFolded == 2)
        #expect(try tried(nil).sessions == [:])
        #expect(try tried(900, 100).sessions[RefoldChange(from: "grace", to: "hard_timeout")] == 2)
        #expect(try tried(900, since: Self.now) == RefoldCounts())
        #expect(try bytes(of: "db") == before)
    }

    private func bytes(of name: String) throws -> Data { try Data(contentsOf: URL(fileURLWithPath: folder.file(name))) }
}
