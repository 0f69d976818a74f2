// Tests how long counts of drivers are kept, and how long a reader waits for a count.

import JourneyModel
import Synchronization
import Testing

@testable import Engine

struct DriverCountsTests {
    /// A reader that takes `duration` for each count.
    private final class SlowReader: OperatorReader {
        private struct State {
            var count = 0
            var result: Result<[JourneyState: Int], StoreFailure>
        }

        private let state: Mutex<State>
        private let duration: Duration

        init(_ result: Result<[JourneyState: Int], StoreFailure>, duration: Duration) {
            state = Mutex(State(result: result))
            self.duration = duration
        }

        /// The number of times that the drivers were counted.
        var count: Int { state.withLock { $0.count } }

        func stub(_ result: Result<[JourneyState: Int], StoreFailure>) { state.withLock { $0.result = result } }

        func driverCounts() async throws(StoreFailure) -> [JourneyState: Int] {
            try? await Task.sleep(for: duration)
            return try state.withLock { state in
                state.count += 1
                return state.result
            }.get()
        }

        func tallies(after id: Int64?, since start: Moment) async throws(StoreFailure) -> EventTallies {
            EventTallies(last: 0, tallies: [], isWhole: true)
        }
        func storageBytes() async throws(StoreFailure) -> Int64 { 0 }
        func settingsVersions(limit: Int) async throws(StoreFailure) -> [SettingsVersionUse] { [] }
        func settingsHistory(limit: Int) async throws(StoreFailure) -> SettingsHistory {
            throw .unavailable("not scripted")
        }
        func operatorTimeline(of sessionID: String, limit: Int) async throws(StoreFailure) -> OperatorTimeline? { nil }
    }

    @Test func `a failure is kept like counts`() async throws {
        let reader = SlowReader(.failure(.unavailable("too slow")), duration: .milliseconds(20))
        let counts = DriverCounts(reader: reader, keptPerDuration: 20)
        for _ in 0..<10 {
            await #expect(throws: StoreFailure.unavailable("too slow")) { try await counts.current() }
        }
        #expect(reader.count == 1)
        reader.stub(.success([.idle: 3]))
        while reader.count == 1 {
            _ = try? await counts.current()
            try await Task.sleep(for: .milliseconds(10))
        }
        #expect(try await counts.current() == [.idle: 3])
    }

    @Test func `a failure does not take away the counts of before`() async throws {
        let reader = SlowReader(.success([.idle: 3]), duration: .zero)
        let counts = DriverCounts(reader: reader, keptPerDuration: 0)
        #expect(try await counts.current() == [.idle: 3])
        reader.stub(.failure(.unavailable("away")))
        #expect(try await counts.current() == [.idle: 3])
        #expect(reader.count == 2)
    }

    @Test func `readers wait for a slow count only for a while`() async throws {
        let reader = SlowReader(.success([.idle: 3]), duration: .seconds(5))
        let counts = DriverCounts(reader: reader, keptPerDuration: 0, patience: .milliseconds(50))
        let begin = ContinuousClock.now
        for _ in 0..<10 {
            await #expect(throws: StoreFailure.self) { try await counts.current() }
        }
        #expect(.now - begin < .milliseconds(4900))
        while reader.count == 0 { try await Task.sleep(for: .milliseconds(10)) }
        // The first count is complete by now. This call starts a second count, waits 50 ms for it, and returns the
        // first count's result.
        #expect(try await counts.current() == [.idle: 3])
    }

    @Test func `readers at the same time share one count`() async throws {
        let reader = SlowReader(.success([.idle: 3]), duration: .milliseconds(100))
        let counts = DriverCounts(reader: reader, keptPerDuration: 0)
        await withTaskGroup(of: [JourneyState: Int]?.self) { group in
            for _ in 0..<20 { group.addTask { try? await counts.current() } }
            for await found in group { #expect(found == [.idle: 3]) }
        }
        #expect(reader.count == 1)
    }
}
