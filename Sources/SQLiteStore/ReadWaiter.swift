// One wait for a read, which ends once: with the result, or with the cancellation of the waiting task.

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

    /// False when the wait has already ended.
    func begin(_ continuation: CheckedContinuation<Outcome, Never>) -> Bool {
        let hasBegun = state.withLock { state in
            guard case .notBegun = state else { return false }
            state = .waiting(continuation)
            return true
        }
        if !hasBegun { continuation.resume(returning: .failure(.cancelled)) }
        return hasBegun
    }

    /// Results after the first are dropped.
    func end(_ outcome: Outcome) {
        let waiting = state.withLock { state -> CheckedContinuation<Outcome, Never>? in
            defer { state = .over }
            if case .waiting(let continuation) = state { return continuation } else { return nil }
        }
        waiting?.resume(returning: outcome)
    }
}
