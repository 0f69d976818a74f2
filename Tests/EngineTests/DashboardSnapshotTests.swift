// Tests how long the counts of the last hour are marked as incomplete after a query that could not count all events.

import JourneyModel
import Synchronization
import Testing

@testable import Engine

struct DashboardSnapshotTests {
    private final class ScriptedReader: OperatorReader {
        private let scripted: Mutex<[EventTallies]>

        init(_ tallies: [EventTallies]) { scripted = Mutex(tallies) }

        func tallies(after id: Int64?, since start: Moment) async throws(StoreFailure) -> EventTallies {
            let next: EventTallies? = scripted.withLock { tallies in tallies.isEmpty ? nil : tallies.removeFirst() }
            return next ?? EventTallies(last: id ?? 0, tallies: [], isWhole: true)
        }
        func driverCounts() async throws(StoreFailure) -> [JourneyState: Int] { [:] }
        func storageBytes() async throws(StoreFailure) -> Int64 { 0 }
        func settingsVersions(limit: Int) async throws(StoreFailure) -> [SettingsVersionUse] { [] }
        func settingsHistory(limit: Int) async throws(StoreFailure) -> SettingsHistory {
            throw .unavailable("not scripted")
        }
        func operatorTimeline(of sessionID: String, limit: Int) async throws(StoreFailure) -> OperatorTimeline? { nil }
    }

    /// The number of the minute in which the tests begin.
    private static let minute: Int64 = 6000

    private func snapshot(_ tallies: EventTallies...) -> DashboardSnapshot {
        let reader = ScriptedReader(tallies)
        return DashboardSnapshot(reader: reader, drivers: DriverCounts(reader: reader, keptPerDuration: 0))
    }

    private func tallies(last: Int64, minutesAgo: [Int64], isWhole: Bool) -> EventTallies {
        EventTallies(
            last: last,
            tallies: minutesAgo.map { ago in
                EventTally(
                    minute: Self.minute - ago, name: "chargerTargeted", verdict: .none, state: .idle, count: 1)
            }, isWhole: isWhole)
    }

    /// Whether the counts are complete when they are read `minutes` minutes after the tests begin.
    private func isWhole(_ snapshot: DashboardSnapshot, after minutes: Int64) async throws -> Bool {
        try await snapshot.current(at: Moment(millisecondsSinceEpoch: (Self.minute + minutes) * 60_000)).isWhole
    }

    @Test func `counts are whole again when the minutes with missing events have left the hour`() async throws {
        let snapshot = snapshot(tallies(last: 9, minutesAgo: [5, 20, 70], isWhole: false))
        // The uncounted events are older than the counted ones, so some of them may be in the oldest counted minute.
        // This minute is 20 minutes old, and leaves the hour 40 minutes later.
        for minutes: Int64 in 0..<40 {
            let isWhole = try await isWhole(snapshot, after: minutes)
            #expect(!isWhole, "after \(minutes) minutes")
        }
        #expect(try await isWhole(snapshot, after: 40))
    }

    @Test func `if nothing was counted, events may be missing up to the minute of the read`() async throws {
        let snapshot = snapshot(tallies(last: 9, minutesAgo: [], isWhole: false))
        for minutes: Int64 in [0, 30, 59] {
            let isWhole = try await isWhole(snapshot, after: minutes)
            #expect(!isWhole, "after \(minutes) minutes")
        }
        #expect(try await isWhole(snapshot, after: 60))
    }

    @Test func `a later query that could not count all events lengthens the time`() async throws {
        let snapshot = snapshot(
            tallies(last: 9, minutesAgo: [20], isWhole: false), tallies(last: 18, minutesAgo: [0], isWhole: false))
        for minutes: Int64 in [0, 1, 40, 59] {
            let isWhole = try await isWhole(snapshot, after: minutes)
            #expect(!isWhole, "after \(minutes) minutes")
        }
        #expect(try await isWhole(snapshot, after: 60))
    }
}
