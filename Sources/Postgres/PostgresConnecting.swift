// Makes connections. libpq's calls for name lookups and connecting block, so they run on separate threads. The number
// of these threads is limited.

internal import Dispatch
internal import Sockets
internal import Synchronization

enum PostgresConnecting {
    /// The maximum number of simultaneous attempts in this process. An attempt counts until libpq returns, even if its
    /// caller has given up, because it occupies a thread.
    private static let attemptsMax = 16
    private static let attempts = Mutex(0)
    private static let queue = DispatchQueue(label: "dwell.postgres.connect", attributes: .concurrent)

    /// Throws `.timedOut` at the deadline. A connection that is made after the deadline is closed.
    static func connect(
        _ configuration: PostgresConfiguration, until deadline: Deadline
    ) async throws(PostgresError) -> LibpqConnection {
        let mayStart = attempts.withLock { count in
            if count >= attemptsMax { return false }
            count += 1
            return true
        }
        guard mayStart else { throw PostgresError(.cannotConnect, "\(attemptsMax) attempts to connect are running.") }
        let attempt = Attempt()
        let parameters = configuration.connectParameters(milliseconds: deadline.remainingMilliseconds)
        queue.async {
            do throws(LibpqFailure) {
                attempt.settle(.success(try LibpqConnection.connect(parameters)))
            } catch {
                attempt.settle(.failure(PostgresError(.cannotConnect, configuration.redacting(error.message))))
            }
            attempts.withLock { $0 -= 1 }
        }
        if deadline != .never {
            queue.asyncAfter(deadline: .now() + .milliseconds(deadline.remainingMilliseconds)) {
                attempt.settle(.failure(PostgresError(.timedOut, "\(configuration) did not answer in time.")))
            }
        }
        return try await withTaskCancellationHandler {
            await attempt.outcome()
        } onCancel: {
            attempt.settle(.failure(PostgresError(.cancelled, "The attempt to connect was cancelled.")))
        }.get()
    }

    /// The outcome of an attempt: libpq's result, the deadline, or a cancellation, whichever comes first.
    private final class Attempt: Sendable {
        typealias Outcome = Result<LibpqConnection, PostgresError>
        private struct State {
            var isSettled = false
            var outcome: Outcome?
            var waiting: UnsafeContinuation<Outcome, Never>?
        }
        private let state = Mutex(State())

        func settle(_ outcome: Outcome) {
            let waiting = state.withLock { state -> UnsafeContinuation<Outcome, Never>? in
                if state.isSettled { return nil }
                state.isSettled = true
                // `state` keeps the outcome only if no caller waits yet. A remaining reference in `state` would keep
                // the connection open.
                if state.waiting == nil { state.outcome = outcome }
                return state.waiting.take()
            }
            waiting?.resume(returning: outcome)
        }

        func outcome() async -> Outcome {
            await withUnsafeContinuation { continuation in
                let outcome = state.withLock { state in
                    if state.outcome == nil { state.waiting = continuation }
                    return state.outcome.take()
                }
                if let outcome { continuation.resume(returning: outcome) }
            }
        }
    }
}
