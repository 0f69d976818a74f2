// Tests of retention and the fold on random journeys. Events arrive late and twice, and the server stores expiries.
// Retention deletes the oldest rows in steps of random size, and may stop after any step.
//
// If an event arrives below its driver's floor, it is too late and is not folded. The expected rows come from a fold of
// all other events, including deleted ones. The stored rows must equal these rows.
//
// Set DWELL_RETENTION_JOURNEYS=10000 for a long run. A failure prints its seed.

import Engine
import GRDB
import JourneyModel
import Logging
import TestSupport
import Testing

@testable import SQLiteStore

struct RetentionConvergenceTests {
    private static let journeysPerRound: UInt64 = 200
    private static let turnCount = 8

    @Test func `whatever is deleted in between, what stays is what it would be had nothing been deleted`() async throws
    {
        let seeds = PropertyRun.seeds("DWELL_RETENTION_JOURNEYS", unlessSet: 2 * Self.journeysPerRound)
        var seen = RetentionRound.Seen()
        for first in stride(from: seeds.lowerBound, to: seeds.upperBound, by: Int(Self.journeysPerRound)) {
            let end = min(first + Self.journeysPerRound, seeds.upperBound)
            let round = try RetentionRound(seeds: first..<end, turnCount: Self.turnCount)
            let differences = try await round.play()
            for difference in differences.prefix(5) { Issue.record("\(difference)") }
            guard differences.isEmpty else { return }
            seen.add(round.seen)
        }
        guard seeds.count >= 2 * Int(Self.journeysPerRound) else { return }
        #expect(seen.deleted > seeds.count && seen.tooLate > 50 && seen.refoldedFromFloor > 50)
    }
}

private final class RetentionRound {
    struct Seen {
        var deleted = 0
        var tooLate = 0
        var refoldedFromFloor = 0

        mutating func add(_ other: Seen) {
            deleted += other.deleted
            tooLate += other.tooLate
            refoldedFromFloor += other.refoldedFromFloor
        }
    }

    private(set) var seen = Seen()
    private let journeys: [DeliveredJourney]
    private let turnCount: Int
    private var random: SeededRandom
    private let folder: ScratchFolder
    private let store: SQLiteEventStore
    /// For each journey, the events that were at or above the floor when they arrived, in the order of arrival.
    private var counting: [[OrderedEvent]]

    init(seeds: Range<UInt64>, turnCount: Int) throws {
        journeys = seeds.map { DeliveredJourney(seed: $0, turnCount: turnCount) }
        self.turnCount = turnCount
        random = SeededRandom(seed: seeds.lowerBound)
        folder = try ScratchFolder(inMemory: true)
        let pool = try DatabaseOpening.open(path: folder.file("db"), nowMilliseconds: 0)
        // Some events are deleted before their keys are moved, some after.
        store = try SQLiteEventStore(pool: pool, newestKeys: NewestKeys(countMax: 300))
        counting = [[OrderedEvent]](repeating: [], count: journeys.count)
    }

    private static func receivedAt(turn: Int) -> Moment {
        .sample.advanced(bySeconds: 10 * DeliveredJourney.spanSeconds + 1000 * turn)
    }

    func play() async throws -> [String] {
        for turn in 0..<turnCount {
            var differences = try await deliver(turn)
            let now = Moment.sample.advanced(
                bySeconds: Int.random(in: 0...DeliveredJourney.spanSeconds, using: &random))
            try await storeDueExpiries(at: now)
            try await deleteSome(before: Self.receivedAt(turn: Int.random(in: 0...turn + 1, using: &random)))
            if turn % 3 == 2 { differences += try await differencesNow() }
            guard differences.isEmpty else { return differences }
        }
        try await storeDueExpiries(at: .sample.advanced(bySeconds: 10 * DeliveredJourney.spanSeconds))
        let differences = try await differencesNow(atEnd: true)
        await store.close()
        return differences
    }

    private func deliver(_ turn: Int) async throws -> [String] {
        let floors = try await floors()
        for (number, journey) in journeys.enumerated() {
            for index in journey.turns[turn] {
                let event = journey.events[index]
                let outcome = try await store.appended(journey.request(index, receivedAt: Self.receivedAt(turn: turn)))
                guard let floor = floors[journey.driver.rawValue], event.occurredAt < floor else {
                    let isNew = !counting[number].contains(event)
                    if isNew { counting[number].append(event) }
                    if isNew, floors[journey.driver.rawValue] != nil { seen.refoldedFromFloor += 1 }
                    guard case .stored = outcome, isNew else {
                        if case .replayed = outcome, !isNew { continue }
                        return ["\(journey): event \(index) is \(isNew ? "new" : "known"), and answered \(outcome)"]
                    }
                    continue
                }
                guard case .stored(let stored) = outcome else { continue }
                seen.tooLate += 1
                if stored.verdict != .none { return ["\(journey): event \(index) is too late, and \(stored.verdict)"] }
            }
        }
        return []
    }

    private func storeDueExpiries(at now: Moment) async throws {
        let settings = VersionedSettings(settings: Settings(), version: Settings().version)
        let keeping = ExpiryScheduler(
            store: store, settings: CurrentSettings(settings), clock: { now }, logger: Logger(label: "test"))
        if let failure = try await keeping.storeDueExpiries().first { throw failure }
    }

    private func deleteSome(before cut: Moment) async throws {
        var next: Int64? = 0
        while let after = next, random.chance(9, in: 10) {
            let part = try await store.agedEvents(
                AgedEventsRequest(
                    now: Self.receivedAt(turn: turnCount), receivedBefore: cut, forwarded: .max,
                    unforwardedBefore: cut, after: after, limit: Int.random(in: 1...2000, using: &random)))
            var left = part.events.shuffled(using: &random)[...]
            while !left.isEmpty, random.chance(19, in: 20) {
                let step = left.prefix(Int.random(in: 1...64, using: &random))
                seen.deleted += try await store.delete(step)
                left = left.dropFirst(step.count)
            }
            next = part.next
        }
        for number in try await store.agedSessions(openedBefore: cut, after: 0, limit: 1000) {
            _ = try await store.delete(sessions: [number], openedBefore: cut)
        }
    }

    private func floors() async throws -> [String: Moment] {
        try await store.read { db in
            let rows = try Row.fetchAll(
                db, sql: "SELECT driver_id, floor_at_ms FROM driver WHERE floor_at_ms IS NOT NULL")
            return Dictionary(
                uniqueKeysWithValues: rows.map { ($0[0], Moment(millisecondsSinceEpoch: $0[1])) })
        }
    }

    private func differencesNow(atEnd: Bool = false) async throws -> [String] {
        var differences: [String] = []
        let check = try DatabaseCheck(path: folder.file("db"))
        differences += try check.run { _ in }.problems
        check.close()
        let floors = try await floors()
        for (number, journey) in journeys.enumerated() {
            let expected = DeliveredJourney.expected(of: counting[number])
            let found = try await store.journey(of: journey.driver)
            if found != expected.end, atEnd || found != expected.last {
                differences.append("\(journey): stands at \(found) instead of \(expected.last) or \(expected.end)")
            }
            let floor = floors[journey.driver.rawValue] ?? Moment(millisecondsSinceEpoch: .min)
            let stored = try await store.timeline(of: journey.driver).map(DeliveredJourney.Point.init)
                .filter { $0.at >= floor && ($0.key.first != "\u{A7}" || $0.verdict == .applied) }
            var points = expected.points.filter { $0.at >= floor }
            // Before the end of the round, the journey's final deadline may not have passed. Its expiry is then not
            // stored yet.
            while !atEnd, points.count > stored.count, points.last?.key.first == "\u{A7}" { points.removeLast() }
            if stored != points { differences.append("\(journey): stored \(stored) instead of \(points)") }
        }
        return differences
    }
}
