// Runs the transactions of SharedTables, each on a connection and a thread of its own. A change is SERIALIZABLE. If it
// conflicts with another transaction, it is run again.
//
// This file decides which transactions are run again, and for how long. If the answer to a COMMIT is lost, it finds out
// whether PostgreSQL committed the transaction.

import Engine
import Logging
import Postgres
import SharedTables
import Sockets
import Synchronization

final class TableTransactions: Sendable {
    /// How often a change is run again after it violated a unique index. If two transactions add the same missing key,
    /// one of them fails (PostgreSQL manual, section 13.5). If all further runs fail too, the change itself is the
    /// cause.
    private static let violationsMax = 3
    /// The pause before a change is run again is random, up to a limit that doubles with each run. This number, in
    /// milliseconds, is the highest limit.
    private static let pauseMillisecondsMax = 100

    private let pool: PostgresPool
    private let threads: TransactionThreads
    private let statements = TableStatements()
    private let requestSeconds: Int
    private let logger: Logger
    private let gate = Gate()

    init(
        _ configuration: PostgresConfiguration, connections: Int, loops: EventLoopGroup, requestSeconds: Int,
        logger: Logger
    ) {
        pool = PostgresPool(configuration, size: connections, loops: loops, logger: logger)
        threads = TransactionThreads(count: connections)
        self.requestSeconds = requestSeconds
        self.logger = logger
    }

    /// Keeps the connections until the task is cancelled.
    func run() async { await pool.run() }

    func refuseFurther() { gate.close() }

    func waitUntilClosed() async { await gate.waitUntilEmpty() }

    // MARK: Changes

    /// Runs a change to its end, even if the calling task is cancelled: the caller may already have done something that
    /// requires the change.
    func change<Outcome: Sendable>(
        _ change: @escaping @Sendable (any SQLTransaction) throws -> Outcome
    ) async throws(StoreFailure) -> Outcome {
        guard gate.enter() else { throw .unavailable("the store is closed") }
        let task = Task { [self] in
            defer { gate.leave() }
            return await changeUntilDone(change)
        }
        return try await task.value.get()
    }

    private func changeUntilDone<Outcome: Sendable>(
        _ change: @escaping @Sendable (any SQLTransaction) throws -> Outcome
    ) async -> Result<Outcome, StoreFailure> {
        let until = Deadline.inSeconds(requestSeconds)
        var runs = 0
        var violations = 0
        while true {
            runs += 1
            let failure: TransactionFailure
            switch await attempt(change, until: until) {
            case .committed(let outcome): return .success(outcome)
            case .inDoubt(let number, let error, let outcome):
                switch await status(of: number, until: until) {
                case .committed: return .success(outcome)
                case .notCommitted: failure = TransactionFailure(error)
                case .inProgress, .unknown: return .failure(.unknown("PostgreSQL: \(error)"))
                }
            case .failed(let error): failure = TransactionFailure(error)
            }
            if failure.kind == .violation { violations += 1 }
            let isFinal = failure.kind == .final || violations > Self.violationsMax
            if isFinal || until.hasPassed { return .failure(failure.failure) }
            logger.debug("a transaction is run again", metadata: ["reason": "\(failure.failure)"])
            // The pause is random, so that two conflicting changes are not run again at the same time. `try?` is safe,
            // because this task is never cancelled.
            let pause = min(4 << min(runs, 10), Self.pauseMillisecondsMax)
            try? await Task.sleep(for: .milliseconds(Int.random(in: 1...pause)))
        }
    }

    private enum Attempt<Outcome: Sendable>: Sendable {
        case committed(Outcome)
        /// COMMIT was sent, and its answer did not arrive.
        case inDoubt(TransactionNumber, PostgresError, Outcome)
        /// Nothing is committed.
        case failed(any Error)
    }

    private func attempt<Outcome: Sendable>(
        _ change: @escaping @Sendable (any SQLTransaction) throws -> Outcome, until: Deadline
    ) async -> Attempt<Outcome> {
        do throws(PostgresError) {
            return try await pool.withConnection(until: until) { connection in
                await self.threads.run {
                    let transaction = PostgresTransaction(
                        .change, on: connection, self.statements, until: Self.end(ofRunUntil: until))
                    return Self.run(change, transaction)
                }
            }
        } catch {
            return .failed(error)
        }
    }

    /// Returns the deadline of a run that has got its connection. Even shortly before `until`, a run gets the full time
    /// for one statement. With less time, more statements would time out, and each timeout closes a connection that
    /// other transactions need.
    private static func end(ofRunUntil until: Deadline) -> Deadline {
        max(until, .inSeconds(BatchRun.roundTripSeconds))
    }

    /// Runs on a thread of `threads`. The pool rolls back a transaction that this function leaves open.
    private static func run<Outcome: Sendable>(
        _ change: (any SQLTransaction) throws -> Outcome, _ transaction: PostgresTransaction
    ) -> Attempt<Outcome> {
        let outcome: Outcome
        do {
            outcome = try change(transaction)
        } catch {
            return .failed(transaction.failure ?? error)
        }
        do throws(PostgresError) {
            try transaction.commit()
            return .committed(outcome)
        } catch {
            if error.leavesCommitInDoubt, let number = transaction.number { return .inDoubt(number, error, outcome) }
            return .failed(error)
        }
    }

    /// Asks PostgreSQL for the status of the transaction until the transaction has ended. After a lost connection, the
    /// server may still work on the COMMIT.
    private func status(of number: TransactionNumber, until: Deadline) async -> TransactionNumber.Status {
        while !until.hasPassed {
            do throws(PostgresError) {
                let results = try await pool.withConnection(until: until) {
                    (connection) async throws(PostgresError) -> [PostgresResult] in
                    // If a backend is terminated while it waits for the standby, its transaction counts as committed,
                    // but may be missing on the standby. So `confirm` waits for the standby.
                    try await connection.run([number.query(), PostgresQuery(.confirm)], until: until)
                }
                let status = try number.status(results[0][0])
                if status != .inProgress { return status }
            } catch {
                if let status = TransactionNumber.status(error) { return status }
                guard TransactionFailure(error).kind == .again else { return .unknown }
            }
            // Gives the pool time to replace a lost connection.
            try? await Task.sleep(for: .milliseconds(Int.random(in: 10...50)))
        }
        return .unknown
    }

    // MARK: Reads

    /// Throws `.cancelled` as soon as the calling task is cancelled.
    func read<Value: Sendable>(
        _ value: @escaping @Sendable (any SQLTransaction) throws -> Value
    ) async throws(StoreFailure) -> Value {
        guard gate.enter() else { throw .unavailable("the store is closed") }
        let wait = ReadWaiter<Value>()
        let task = Task { [self] in
            defer { gate.leave() }
            await readUntilDone(value, wait)
        }
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { wait.begin($0) }
        } onCancel: {
            wait.end(.failure(.cancelled))
            task.cancel()
        }
        return try result.get()
    }

    private func readUntilDone<Value: Sendable>(
        _ value: @escaping @Sendable (any SQLTransaction) throws -> Value, _ wait: ReadWaiter<Value>
    ) async {
        let until = Deadline.inSeconds(requestSeconds)
        while true {
            let error = await attempt(value, wait, until: until)
            guard let failure = error.map({ TransactionFailure($0) }) else { return }
            if failure.kind != .again || until.hasPassed || wait.isOver {
                return wait.end(.failure(failure.failure))
            }
            // A cancellation ends the sleep at once. The loop then ends at the next attempt, because `wait.isOver` is
            // true.
            try? await Task.sleep(for: .milliseconds(Int.random(in: 1...20)))
        }
    }

    /// Returns the error; nil if the value was read and delivered.
    private func attempt<Value: Sendable>(
        _ value: @escaping @Sendable (any SQLTransaction) throws -> Value, _ wait: ReadWaiter<Value>,
        until: Deadline
    ) async -> (any Error)? {
        do throws(PostgresError) {
            return try await pool.withConnection(until: until) { connection in
                await self.threads.run { () -> (any Error)? in
                    let transaction = PostgresTransaction(
                        .read, on: connection, self.statements, until: Self.end(ofRunUntil: until),
                        isCancelled: { wait.isOver })
                    do {
                        let value = try value(transaction)
                        if let failure = transaction.failure { return failure }
                        // The caller does not wait for the end of the snapshot.
                        wait.end(.success(value))
                        try? transaction.commit()
                        return nil
                    } catch {
                        return transaction.failure ?? error
                    }
                }
            }
        } catch {
            return error
        }
    }
}

/// Counts the transactions under way, and refuses further ones after `close`.
private final class Gate: Sendable {
    private struct State {
        var count = 0
        var isClosed = false
        var waiting: [CheckedContinuation<Void, Never>] = []

        mutating func takeWaiting() -> [CheckedContinuation<Void, Never>] {
            guard isClosed, count == 0 else { return [] }
            defer { waiting = [] }
            return waiting
        }
    }
    private let state = Mutex(State())

    func enter() -> Bool {
        state.withLock { state in
            if !state.isClosed { state.count += 1 }
            return !state.isClosed
        }
    }

    func leave() {
        let waiting = state.withLock { state in
            state.count -= 1
            return state.takeWaiting()
        }
        for task in waiting { task.resume() }
    }

    func close() {
        let waiting = state.withLock { state in
            state.isClosed = true
            return state.takeWaiting()
        }
        for task in waiting { task.resume() }
    }

    func waitUntilEmpty() async {
        await withCheckedContinuation { continuation in
            let isEmpty = state.withLock { state in
                if state.isClosed && state.count == 0 { return true }
                state.waiting.append(continuation)
                return false
            }
            if isEmpty { continuation.resume() }
        }
    }
}
