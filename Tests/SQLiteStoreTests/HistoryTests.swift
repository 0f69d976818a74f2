// Tests of counts over time. The counts are collected in memory, added to the database, rolled up, and deleted when
// they are old.

import Engine
import GRDB
import JourneyModel
import Logging
import SharedTables
import Synchronization
import TestSupport
import Testing

@testable import SQLiteStore

@Suite struct HistoryTests {
    private let folder: ScratchFolder
    private let clock = ManualClock()
    private let totals = Totals()

    init() throws { folder = try ScratchFolder() }

    private final class Totals: Sendable {
        let counts = Mutex<[String: Int]>([:])

        func add(_ count: Int, _ series: String) { counts.withLock { $0[series, default: 0] += count } }
    }

    private func open() throws -> SQLiteEventStore {
        try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
    }

    private func history(_ store: any HistoryStore) -> OperationHistory {
        OperationHistory(
            store: store, totals: { [totals] in totals.counts.withLock { $0 } }, clock: { [clock] in clock.now },
            logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
    }

    private func sum(_ series: String, _ range: HistoryRange, _ history: OperationHistory) async throws -> Int {
        try await history.steps(range, at: clock.now).reduce(0) { $0 + ($1.counts[series] ?? 0) }
    }

    @Test func everyRangeHasWhatWasCountedOnceStoredOrNot() async throws {
        let store = try open()
        let history = history(store)
        for minute in 0..<30 {
            totals.add(2, "event.applied")
            totals.add(1, "status.200")
            for range in HistoryRange.allCases {
                let minutes = min(minute + 1, Int(range.seconds / 60))
                #expect(try await sum("event.applied", range, history) == 2 * minutes, "\(range) \(minute)")
            }
            if minute % 3 == 0 { await history.flush() }
            clock.advance(bySeconds: 60)
        }
        await history.flush()
        let hour = try await history.steps(.hour, at: clock.now)
        #expect(hour.count == 30 && hour.allSatisfy { $0.counts == ["event.applied": 2, "status.200": 1] })
        await store.close()
    }

    @Test func `a count belongs to the minute in which it was made`() async throws {
        let store = try open()
        let begin = Moment(millisecondsSinceEpoch: 1_800_000_000_000)
        let started = ContinuousClock.now
        // The clock starts 200 ms before the end of a minute and then runs in real time.
        let history = OperationHistory(
            store: store, totals: { [totals] in totals.counts.withLock { $0 } },
            clock: {
                let elapsed = started.duration(to: .now)
                return begin.advanced(byMilliseconds: 59_800 + Int64(elapsed / .milliseconds(1)))
            },
            logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
        totals.add(3, "event.applied")
        let running = Task { await history.run() }
        var stored: [HistoryStep] = []
        for _ in 0..<500 where stored.isEmpty {
            try await Task.sleep(for: .milliseconds(10))
            stored = try await store.history(since: begin, in: .hour)
        }
        running.cancel()
        await running.value
        #expect(stored == [HistoryStep(beginsAt: begin, counts: ["event.applied": 3])])
        await store.close()
    }

    @Test func twoProcessesOnOneDatabaseAddUp() async throws {
        let store = try open()
        let (one, other) = (history(store), history(store))
        totals.add(5, "status.429")
        #expect(try await sum("status.429", .hour, one) == 5)
        await one.flush()
        #expect(try await sum("status.429", .hour, other) == 10)
        await other.flush()
        #expect(try await sum("status.429", .hour, one) == 10)
        await store.close()
    }

    @Test func theTableStaysBounded() async throws {
        let store = try open()
        let series = (0..<5).map { "status.\(200 + $0)" }
        let rowsMax = StoredHistory.levels.reduce(0) { rows, level in
            rows + Int(level.keptSeconds / level.stepSeconds + 2) * series.count
        }
        // For forty days, adds the counts of one minute every six hours.
        for _ in 0..<(40 * 4) {
            let minute = clock.now.floored(toSeconds: 60)
            let counts = Dictionary(uniqueKeysWithValues: series.map { ($0, 1) })
            try await store.add([HistoryStep(beginsAt: minute, counts: counts)], at: clock.now)
            clock.advance(bySeconds: 6 * 3600)
        }
        let rows = try await store.read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM operation_count") ?? 0 }
        #expect(rows <= rowsMax, "\(rows) rows")
        let month = try await store.history(since: HistoryRange.month.start(at: clock.now), in: .month)
        #expect(month.count <= 120)
        let counted = month.reduce(0) { $0 + ($1.counts["status.200"] ?? 0) }
        #expect((118...120).contains(counted), "\(counted)")
        await store.close()
    }

    /// A store that rejects additions while `isFailing` is true.
    private final class FailingStore: HistoryStore {
        let store: SQLiteEventStore
        let isFailing = Mutex(true)

        init(_ store: SQLiteEventStore) { self.store = store }

        func add(_ minutes: [HistoryStep], at now: Moment) async throws(StoreFailure) {
            if isFailing.withLock({ $0 }) { throw .unavailable("the disk is full") }
            try await store.add(minutes, at: now)
        }

        func history(since start: Moment, in range: HistoryRange) async throws(StoreFailure) -> [HistoryStep] {
            try await store.history(since: start, in: range)
        }
    }

    @Test func whatCannotBeStoredWaitsUntilItCan() async throws {
        let store = try open()
        let failing = FailingStore(store)
        let history = history(failing)
        for _ in 0..<3 {
            totals.add(1, "event.none")
            #expect(try await history.steps(.hour, at: clock.now).last?.counts == ["event.none": 1])
            await history.flush()
            clock.advance(bySeconds: 60)
        }
        #expect(try await store.history(since: HistoryRange.hour.start(at: clock.now), in: .hour).isEmpty)
        #expect(try await sum("event.none", .hour, history) == 3)
        failing.isFailing.withLock { $0 = false }
        await history.flush()
        let stored = try await store.history(since: HistoryRange.hour.start(at: clock.now), in: .hour)
        #expect(stored.map(\.counts) == Array(repeating: ["event.none": 1], count: 3))
        await store.close()
    }
}
