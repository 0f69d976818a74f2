// Keeps a fixed number of connections open, and lends each to one task at a time.

package import Logging
package import Sockets
internal import Synchronization

package final class PostgresPool: Sendable {
    private typealias Waiter = UnsafeContinuation<Result<PostgresConnection, PostgresError>, Never>

    private struct State {
        /// The open connections that nobody uses. The most recently returned connection is lent first.
        var idle: [PostgresConnection] = []
        /// The tasks that wait for a connection, in the order in which they began to wait.
        var waiting: [(number: UInt64, waiter: Waiter)] = []
        var lastNumber: UInt64 = 0
        var openCount = 0
        var lastFailure: PostgresError?
        /// Whether `run` has ended.
        var hasEnded = false
    }

    private let configuration: PostgresConfiguration
    private let size: Int
    private let loops: EventLoopGroup
    private let logger: Logger
    private let state = Mutex(State())

    /// The first pause after a failure, in milliseconds. Each further failure in a row doubles the pause, up to
    /// `delayMillisecondsMax`. The pool waits a random time between half of this pause and the whole pause.
    ///
    /// A connection that lasted less than `stableDuration` also counts as a failure.
    private static let delayMilliseconds = 50
    private static let delayMillisecondsMax = 2000
    /// A connection that lasted at least this long is replaced immediately after its loss.
    private static let stableDuration = Duration.seconds(1)

    package init(_ configuration: PostgresConfiguration, size: Int, loops: EventLoopGroup, logger: Logger) {
        self.configuration = configuration
        self.size = size
        self.loops = loops
        self.logger = logger
    }

    /// How many connections are open, lent ones included.
    package var openCount: Int { state.withLock { $0.openCount } }

    // MARK: - Keeping connections open

    /// Keeps the connections open until the task is cancelled, and then closes them. Tasks that still wait for a
    /// connection, and tasks that ask for a connection later, get `.cancelled`. Must be called once.
    package func run() async {
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<size { group.addTask { await self.keepOneOpen() } }
        }
        let waiters = state.withLock { state -> [Waiter] in
            state.hasEnded = true
            defer { state.waiting = [] }
            return state.waiting.map { $0.waiter }
        }
        for waiter in waiters { waiter.resume(returning: .failure(Self.ended)) }
    }

    private func keepOneOpen() async {
        let loop = loops.next()
        var failedAttempts = 0
        while !Task.isCancelled {
            let begin = ContinuousClock.now
            if await connectAndLend(on: loop), ContinuousClock.now - begin >= Self.stableDuration {
                failedAttempts = 0
                continue
            }
            failedAttempts += 1
            let delay = min(Self.delayMilliseconds << min(failedAttempts - 1, 10), Self.delayMillisecondsMax)
            try? await Task.sleep(for: .milliseconds(Int.random(in: delay / 2...delay)))
        }
    }

    /// Returns false if no connection could be opened.
    private func connectAndLend(on loop: EventLoop) async -> Bool {
        let connection: PostgresConnection
        do throws(PostgresError) {
            connection = try await PostgresConnection.open(configuration, on: loop)
        } catch {
            logFailure(error)
            return false
        }
        let hadFailed = state.withLock { state in
            state.openCount += 1
            return state.lastFailure.take() != nil
        }
        if hadFailed { logger.notice("PostgreSQL is reachable again", metadata: ["server": "\(configuration)"]) }
        give(connection)
        let loss = await withTaskCancellationHandler {
            await connection.waitUntilClosed()
        } onCancel: {
            connection.close()
        }
        state.withLock { state in
            state.openCount -= 1
            state.idle.removeAll { $0 === connection }
        }
        if !Task.isCancelled { logFailure(loss) }
        return true
    }

    /// Logs a failure as a warning. If the previous failure had the same message, and no connection was opened since,
    /// the level is debug.
    private func logFailure(_ error: PostgresError) {
        if error.kind == .cancelled { return }
        let isNew = state.withLock { state in
            defer { state.lastFailure = error }
            return state.lastFailure?.message != error.message
        }
        let metadata: Logger.Metadata = ["server": "\(configuration)", "error": "\(error)"]
        logger.log(level: isNew ? .warning : .debug, "a connection to PostgreSQL failed", metadata: metadata)
    }

    // MARK: - Lending

    /// Lends a connection to the closure, which has exclusive use of it. A transaction that the closure leaves open is
    /// rolled back.
    ///
    /// - Parameter deadline: limits the wait for a connection, not the closure.
    /// - Throws: the closure's error. If the wait for a connection fails: `.timedOut` at the deadline, `.cancelled` if
    ///   the task is cancelled or `run` ends.
    package nonisolated(nonsending) func withConnection<Answer: Sendable>(
        until deadline: Deadline, _ body: (PostgresConnection) async throws(PostgresError) -> Answer
    ) async throws(PostgresError) -> Answer {
        let connection = try await take(until: deadline)
        do throws(PostgresError) {
            let answer = try await body(connection)
            await takeBack(connection)
            return answer
        } catch {
            await takeBack(connection)
            throw error
        }
    }

    private nonisolated(nonsending) func takeBack(_ connection: PostgresConnection) async {
        if connection.isOpen && !connection.isIdle {
            // The result is ignored, because `isIdle` tells whether the session is usable again.
            _ = try? await connection.run([PostgresQuery(PostgresStatement("rollback", "ROLLBACK"))])
            if !connection.isIdle { connection.close() }
        }
        give(connection)
    }

    /// Lends the connection to the first waiting task, or keeps it.
    private func give(_ connection: PostgresConnection) {
        guard connection.isOpen else { return }
        let waiter = state.withLock { state -> Waiter? in
            if !state.waiting.isEmpty { return state.waiting.removeFirst().waiter }
            state.idle.append(connection)
            return nil
        }
        waiter?.resume(returning: .success(connection))
        // `connectAndLend` removes a lost connection from `idle`. If the connection was lost before it was added to
        // `idle`, that removal came too early, so the connection is removed here.
        if waiter == nil, !connection.isOpen { state.withLock { $0.idle.removeAll { $0 === connection } } }
    }

    private nonisolated(nonsending) func take(
        until deadline: Deadline
    ) async throws(PostgresError) -> PostgresConnection {
        if let connection = takeIdle() { return connection }
        let number = state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
        var timer: Task<Void, Never>?
        defer { timer?.cancel() }
        return try await withTaskCancellationHandler {
            await withUnsafeContinuation { (waiter: Waiter) in
                let answer = state.withLock { state -> Result<PostgresConnection, PostgresError>? in
                    // This check is under the lock, so that a later cancellation finds the waiter in the list.
                    if Task.isCancelled { return .failure(Self.cancelled) }
                    if let connection = Self.takeIdle(&state) { return .success(connection) }
                    if state.hasEnded { return .failure(Self.ended) }
                    if deadline.hasPassed { return .failure(Self.timedOut(state)) }
                    state.waiting.append((number, waiter))
                    return nil
                }
                if let answer { return waiter.resume(returning: answer) }
                // The timer must start after the waiter is in the list, because it would not find the waiter otherwise.
                timer = Task { [self, loop = loops.loops[0]] in
                    // If the wait ends before the deadline, the timer is cancelled, and the sleep throws.
                    guard (try? await loop.sleep(until: deadline)) != nil else { return }
                    end(number, state.withLock { Self.timedOut($0) })
                }
            }
        } onCancel: {
            end(number, Self.cancelled)
        }.get()
    }

    private static let cancelled = PostgresError(.cancelled, "The wait for a connection was cancelled.")
    private static let ended = PostgresError(.cancelled, "The connections to PostgreSQL are closed.")

    private static func timedOut(_ state: State) -> PostgresError {
        let reason = state.lastFailure.map { ": \($0.message)" } ?? ""
        return PostgresError(.timedOut, "No connection to PostgreSQL was free in time\(reason)")
    }

    private func end(_ number: UInt64, _ error: PostgresError) {
        let waiter = state.withLock { state -> Waiter? in
            guard let index = state.waiting.firstIndex(where: { $0.number == number }) else { return nil }
            return state.waiting.remove(at: index).waiter
        }
        waiter?.resume(returning: .failure(error))
    }

    private func takeIdle() -> PostgresConnection? {
        state.withLock { Self.takeIdle(&$0) }
    }

    private static func takeIdle(_ state: inout State) -> PostgresConnection? {
        while let connection = state.idle.popLast() {
            if connection.isOpen { return connection }
        }
        return nil
    }
}
