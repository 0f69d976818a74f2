// Tests how long a scrape of the metrics waits for a sample, which queries the database.

import Synchronization
import Testing

@testable import App

@Suite struct DatabaseSamplingTests {
    /// A database that takes `duration` for each sample.
    private final class SlowDatabase: Sendable {
        private struct State {
            var duration: Duration
            var begun = 0
            var ended = 0
        }

        private let state: Mutex<State>

        init(duration: Duration) { state = Mutex(State(duration: duration)) }

        /// The number of samples that have begun.
        var begun: Int { state.withLock { $0.begun } }
        /// The number of samples that have ended.
        var ended: Int { state.withLock { $0.ended } }

        func recover() { state.withLock { $0.duration = .zero } }

        func query() async {
            let duration = state.withLock { state in
                state.begun += 1
                return state.duration
            }
            try? await Task.sleep(for: duration)
            state.withLock { $0.ended += 1 }
        }
    }

    @Test func `a scrape waits for the database`() async {
        let database = SlowDatabase(duration: .milliseconds(20))
        let sampling = DatabaseSampling { await database.query() }
        for count in 1...3 {
            await sampling.sample()
            #expect(database.ended == count)
        }
    }

    @Test func `scrapes wait for a slow database only for a while, and its samples do not pile up`() async throws {
        let database = SlowDatabase(duration: .seconds(5))
        let sampling = DatabaseSampling(patience: .milliseconds(50)) { await database.query() }
        let begin = ContinuousClock.now
        for _ in 0..<10 { await sampling.sample() }
        #expect(.now - begin < .milliseconds(4900))
        #expect(database.begun == 1 && database.ended == 0)
        database.recover()
        while database.ended == 0 { try await Task.sleep(for: .milliseconds(10)) }
        // The first query has ended, and later queries are fast. This loop takes samples until a second query has
        // ended.
        while database.ended == 1 {
            await sampling.sample()
            try await Task.sleep(for: .milliseconds(10))
        }
        #expect(database.begun >= 2)
    }

    @Test func `scrapes at the same time share one sample`() async {
        let database = SlowDatabase(duration: .milliseconds(500))
        let sampling = DatabaseSampling { await database.query() }
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<20 { group.addTask { await sampling.sample() } }
        }
        #expect(database.begun == 1 && database.ended == 1)
    }
}
