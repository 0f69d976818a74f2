// Checks whether the server is ready: the database accepts a test write, and no drain has begun.
//
// At most one test write is made per second. For one second after a test write, requests get the result of that write.
// If the test write hangs, a request waits at most `timeoutMilliseconds`.

internal import Synchronization

package final class Readiness: Sendable {
    package enum Database: String, Sendable {
        case takesWrites = "ok"
        case refusesWrites = "refuses_writes"
        /// The test write did not finish within `timeoutMilliseconds`.
        case silent = "no_answer"
    }

    /// The state of Redis. Without Redis the server is still ready, because it counts requests for the rate limits in
    /// its own memory.
    package enum Redis: String, Sendable {
        case serves = "ok"
        /// Some nodes of a Redis Cluster are connected, and some are not.
        case partlyLost = "partly_lost"
        case lost
        case notConfigured = "not_configured"
    }

    package struct Report: Hashable, Sendable {
        package var database: Database
        package var isDraining: Bool
        package var redis: Redis

        package var isReady: Bool { database == .takesWrites && !isDraining }
    }

    static let keptMilliseconds: Int64 = 1000
    static let timeoutMilliseconds: Int64 = 1500

    private struct State {
        var isDraining = false
        /// The result of the last completed test write, and the time of its completion.
        var last: (database: Database, at: Int64)?
        /// When the test write in progress began; nil if there is none.
        var askingSince: Int64?
        var waiting: [CheckedContinuation<Database, Never>] = []
    }

    private let state = Mutex(State())
    private let takesWrite: @Sendable () async -> Bool
    private let redis: @Sendable () -> Redis
    /// A monotonic clock in milliseconds.
    private let clock: @Sendable () -> Int64

    package init(
        takesWrite: @escaping @Sendable () async -> Bool, redis: @escaping @Sendable () -> Redis,
        clock: @escaping @Sendable () -> Int64
    ) {
        self.takesWrite = takesWrite
        self.redis = redis
        self.clock = clock
    }

    /// From now on, the server reports that it is not ready.
    package func beginDrain() {
        state.withLock { $0.isDraining = true }
    }

    package func report() async -> Report {
        let database = await database()
        return Report(database: database, isDraining: state.withLock(\.isDraining), redis: redis())
    }

    private enum Step {
        case known(Database)
        case joins
        case asks
    }

    private func database() async -> Database {
        await withCheckedContinuation { continuation in
            switch step(continuation) {
            case .known(let database): continuation.resume(returning: database)
            case .joins: break
            case .asks: ask()
            }
        }
    }

    private func step(_ continuation: CheckedContinuation<Database, Never>) -> Step {
        let now = clock()
        return state.withLock { state in
            if let last = state.last, now - last.at < Self.keptMilliseconds { return .known(last.database) }
            if let since = state.askingSince, now - since >= Self.timeoutMilliseconds { return .known(.silent) }
            state.waiting.append(continuation)
            guard state.askingSince == nil else { return .joins }
            state.askingSince = now
            return .asks
        }
    }

    private func ask() {
        let timeout = Task {
            // Ignore the error: the sleep throws only when it is cancelled, and the next line checks for that.
            try? await Task.sleep(for: .milliseconds(Self.timeoutMilliseconds))
            if !Task.isCancelled { resumeWaiting(.silent) }
        }
        Task {
            let database: Database = await takesWrite() ? .takesWrites : .refusesWrites
            timeout.cancel()
            let now = clock()
            state.withLock { state in
                state.last = (database, now)
                state.askingSince = nil
            }
            resumeWaiting(database)
        }
    }

    private func resumeWaiting(_ database: Database) {
        let waiting = state.withLock { state in
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume(returning: database) }
    }
}
