// Tests of convergence (contract, section 1) on the real store. The stored result must equal a fold of the ordered
// events.
//
// Many drivers share a database. Their random journeys contain legal and illegal events. Events arrive late, twice and
// out of order. Between deliveries, the server stores expiries, and the store is reopened or crashes.
//
// In every fourth round, the rows change between deliveries as if an older release had folded them. Later events arrive
// before, during and after the refold of their driver.
//
// Set DWELL_STORE_JOURNEYS=100000 for a long run. A failure prints its seed. DWELL_PROPERTY_SEED=<seed> with
// DWELL_STORE_JOURNEYS=1 repeats that journey alone, with the same steps, restarts and expiries, but with other refolds
// between the deliveries.

import Engine
import Foundation
import JourneyModel
import TestSupport
import Testing

@testable import SQLiteStore

struct StoreConvergenceTests {
    private static let seeds = PropertyRun.seeds("DWELL_STORE_JOURNEYS", unlessSet: 2 * DeliveryRound.journeyCount)

    @Test func `whatever is delivered when, through restarts and crashes, what is stored is the fold in order`()
        async throws
    {
        let rounds = DeliveryRound.rounds(of: Self.seeds)
        let differences = try await withThrowingTaskGroup(of: [String].self) { group in
            var waiting = rounds.makeIterator()
            for round in (0..<ProcessInfo.processInfo.activeProcessorCount).compactMap({ _ in waiting.next() }) {
                group.addTask { try await round.play() }
            }
            while let differences = try await group.next() {
                guard differences.isEmpty else { return differences }
                if let round = waiting.next() { group.addTask { try await round.play() } }
            }
            return []
        }
        for difference in differences.prefix(5) {
            Issue.record("\(difference)\nalone again: DWELL_PROPERTY_SEED=<seed> DWELL_STORE_JOURNEYS=1")
        }
    }

    @Test func `the rounds restart in both ways, store expiries, and deliver late and twice`() {
        let round = DeliveryRound(number: 0, seeds: 1..<201)
        let restarts = round.turns.map(\.restart)
        #expect(restarts.filter { $0 == .clean }.count >= 2 && restarts.filter { $0 == .crash }.count >= 2)
        #expect(round.turns.contains { $0.isOld } && round.turns.contains { !$0.isOld })
        let journeys = round.seeds.map { DeliveredJourney(seed: $0, turnCount: round.turns.count) }
        #expect(journeys.contains { journey in journey.turns.joined().count > journey.events.count })
        #expect(journeys.contains { journey in Array(journey.turns.joined()) != Array(journey.events.indices) })
        #expect(journeys.contains { journey in Array(journey.turns.joined()) == Array(journey.events.indices) })
        let points = journeys.flatMap { $0.expected.points }
        let expiries = points.filter { $0.key.first == "\u{A7}" }
        #expect(expiries.count > 100 && expiries.count < points.count / 2)
        #expect(Set(points.compactMap(\.verdict.reason)) == Set(Verdict.Reason.allCases))
        #expect(Set(points.map(\.state)) == Set(JourneyState.allCases))
        #expect(points.contains { $0.verdict.implied.contains(.reset) })
    }
}

/// Many journeys that are stored in one database file.
struct DeliveryRound: Sendable {
    static let journeyCount: UInt64 = 1000
    static let batchMax = 2048
    /// In a turn with refolds, batches are small, so that many deliveries come between the parts of refolds.
    private static let batchMaxIfOld = 128
    private static let partsPerBatch = 40

    struct Turn: Sendable {
        enum Restart: Sendable {
            case none
            case clean
            /// The store is not closed. A new store opens a copy of the files. The client gets no response to the
            /// turn's last batch.
            case crash
        }

        var restart: Restart
        /// After the turn's deliveries, the server stores the expiries that are due at `now`. `now` may be earlier than
        /// in the previous turn.
        var now: Moment
        /// Whether the rows change before the turn's deliveries, as if an older release had folded them. If they do,
        /// refolds begin and go on between the deliveries.
        var isOld: Bool
    }

    let seeds: Range<UInt64>
    let turns: [Turn]
    /// Rows per piece of a refold. In two of three rounds, the number is so small that many refolds take several
    /// transactions.
    let rowsPerPiece: Int
    /// Small numbers make most restarts happen while keys are moved.
    let newestKeysMax: Int

    /// The turns depend only on `number`. A repeat of a single journey therefore has the same turns.
    init(number: UInt64, seeds: Range<UInt64>) {
        self.seeds = seeds
        var random = SeededRandom(seed: number)
        rowsPerPiece = [3, 1, RefoldPace().rowsPerPiece][Int(number % 3)]
        newestKeysMax = [500, 1, NewestKeys.countMax][Int(number % 3)]
        turns = (0..<8).map { _ in
            Turn(
                restart: [.none, .clean, .clean, .crash, .crash].randomPick(&random),
                now: .sample.advanced(bySeconds: Int.random(in: 0...DeliveredJourney.spanSeconds, using: &random)),
                isOld: number % 4 == 0 && Int.random(in: 0..<3, using: &random) == 0)
        }
    }

    static func rounds(of seeds: Range<UInt64>) -> [DeliveryRound] {
        var rounds: [DeliveryRound] = []
        var first = seeds.lowerBound
        while first < seeds.upperBound {
            let number = (first - 1) / journeyCount
            let end = min((number + 1) * journeyCount + 1, seeds.upperBound)
            rounds.append(DeliveryRound(number: number, seeds: first..<end))
            first = end
        }
        return rounds
    }

    /// Compares the stored journeys with folds of all events in order, and returns the differences. Each difference
    /// begins with the seed of its journey.
    func play() async throws -> [String] {
        let journeys = seeds.map { DeliveredJourney(seed: $0, turnCount: turns.count) }
        let database = try RestartedDatabase(
            pace: RefoldPace(rowsPerLateEvent: 1, rowsPerPiece: rowsPerPiece, pauseFactor: 0),
            newestKeysMax: newestKeysMax)
        var delivered = Set<Delivery>()
        var unanswered: [Delivery] = []
        for (number, turn) in turns.enumerated() {
            let batchMax = turn.isOld ? Self.batchMaxIfOld : Self.batchMax
            let batches = [unanswered] + Self.batches(of: journeys, turn: number, batchMax)
            if turn.isOld { try await OldRules.fold(rejectsOdd: number % 2 == 1, in: database.store) }
            for (index, batch) in batches.enumerated() {
                // Each part begins or continues the refold of another driver.
                for part in 0..<(turn.isOld ? Self.partsPerBatch : 0) {
                    let after = (index * 7919 + part * 104_729) % journeys.count
                    let refolded = try await database.store.refold(RefoldRequest(after: Int64(after)))
                    if let failure = refolded.failure { return ["a refold failed: \(failure)"] }
                }
                let outcomes = await database.store.append(batch.map { journeys[$0.journey].request($0.event) })
                for (delivery, outcome) in zip(batch, outcomes) {
                    let isNew = delivered.insert(delivery).inserted
                    guard isNew ? outcome.isStored : outcome.isReplayed else {
                        let what = "\(isNew ? "new" : "stored before"), and answered \(outcome)"
                        return ["\(journeys[delivery.journey]): event \(delivery.event) is \(what)"]
                    }
                }
            }
            try await database.storeDueExpiries(at: turn.now)
            unanswered = turn.restart == .crash ? batches.last ?? [] : []
            switch turn.restart {
            case .none: break
            case .clean: try await database.closeAndOpen()
            case .crash: try await database.crashAndOpen()
            }
        }
        try await database.refoldAll()
        let differences = try await Self.differences(journeys, database)
        await database.store.close()
        return differences
    }

    private struct Delivery: Hashable {
        var journey: Int
        var event: Int
    }

    /// Interleaves the drivers: the first delivery of each journey comes first, then the second of each journey.
    private static func batches(of journeys: [DeliveredJourney], turn: Int, _ batchMax: Int) -> [[Delivery]] {
        let longest = journeys.map { $0.turns[turn].count }.max() ?? 0
        let deliveries = (0..<longest).flatMap { place in
            journeys.indices.compactMap { index in
                let events = journeys[index].turns[turn]
                return place < events.count ? Delivery(journey: index, event: events[place]) : nil
            }
        }
        return stride(from: 0, to: deliveries.count, by: batchMax).map { start in
            Array(deliveries[start..<min(start + batchMax, deliveries.count)])
        }
    }

    private static func differences(
        _ journeys: [DeliveredJourney], _ database: RestartedDatabase
    ) async throws -> [String] {
        var differences: [String] = []
        for journey in journeys {
            let found = try await database.store.journey(of: journey.driver)
            // If a turn's `now` was after the journey's final deadline, the store has already stored the expiry. The
            // journey is then `expected.end`.
            if found != journey.expected.last, found != journey.expected.end {
                differences.append("\(journey): stands at \(found) instead of \(journey.expected.last)")
            }
        }
        try await database.storeDueExpiries(at: .sample.advanced(bySeconds: 10 * DeliveredJourney.spanSeconds))
        if let deadline = try await database.store.earliestDeadline() {
            differences.append("a deadline still runs: \(deadline)")
        }
        for journey in journeys {
            let timeline = try await database.store.timeline(of: journey.driver)
            let points = timeline.map(DeliveredJourney.Point.init)
            // A late event may move a deadline. The expiry of the old deadline then stays stored, but changes nothing.
            let counting = points.filter { $0.key.first != "\u{A7}" || $0.verdict == .applied }
            if counting != journey.expected.points {
                differences.append("\(journey): stored \(counting) instead of \(journey.expected.points)")
            }
            if Set(points.map(\.key)).count != points.count { differences.append("\(journey): stored twice") }
            let end = try await database.store.journey(of: journey.driver)
            if end != journey.expected.end {
                differences.append("\(journey): ended at \(end) instead of \(journey.expected.end)")
            }
        }
        return differences
    }
}

extension EventOutcome {
    fileprivate var isStored: Bool { if case .stored = self { true } else { false } }
    fileprivate var isReplayed: Bool { if case .replayed = self { true } else { false } }
}
