// A task's wait for a read. The wait ends once, either with the read's result or with the cancellation of the task.

import Engine
import Synchronization

final class ReadWaiter<Value: Sendable>: Sendable {
    typealias Outcome = Result<Value, StoreFailure>

    private enum State: Sendable {
        case notBegun
        case waiting(CheckedContinuation<Outcome, Never>)
        case over
    }
    private let state = Mutex(State.notBegun)

    var isOver: Bool {
        state.withLock { state in
            if case .over = state { true } else { false }
        }
    }

    /// Begins the wait. If the wait has already ended, resumes the continuation with `.cancelled` and returns false.
    func begin(_ continuation: CheckedContinuation<Outcome, Never>) -> Bool {
        let hasBegun = state.withLock { state in
            guard case .notBegun = state else { return false }
            state = .waiting(continuation)
            return true
        }
        if !hasBegun { continuation.resume(returning: .failure(.cancelled)) }
        return hasBegun
    }

    /// Ends the wait with `outcome`. Later outcomes are ignored.
    func end(_ outcome: Outcome) {
        let waiting = state.withLock { state -> CheckedContinuation<Outcome, Never>? in
            defer { state = .over }
            if case .waiting(let continuation) = state { return continuation } else { return nil }
        }
        waiting?.resume(returning: outcome)
    }
}
