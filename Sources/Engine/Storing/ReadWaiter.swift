// Lets a task wait for a read of a store. The wait ends when the read has a result or when the task is cancelled,
// whichever happens first.

import Synchronization

package final class ReadWaiter<Value: Sendable>: Sendable {
    package typealias Outcome = Result<Value, StoreFailure>

    private enum State: Sendable {
        case notBegun
        case waiting(CheckedContinuation<Outcome, Never>)
        case over(Outcome)
    }
    private let state = Mutex(State.notBegun)

    package init() {}

    package var isOver: Bool {
        state.withLock { state in
            if case .over = state { true } else { false }
        }
    }

    /// Begins the wait and returns true. If `end` was called before, resumes the continuation with the outcome from
    /// `end`, and returns false.
    @discardableResult
    package func begin(_ continuation: CheckedContinuation<Outcome, Never>) -> Bool {
        let outcome = state.withLock { state -> Outcome? in
            if case .over(let outcome) = state { return outcome }
            state = .waiting(continuation)
            return nil
        }
        if let outcome { continuation.resume(returning: outcome) }
        return outcome == nil
    }

    /// Ends the wait with `outcome`. If the wait has already ended, does nothing.
    package func end(_ outcome: Outcome) {
        let waiting = state.withLock { state -> CheckedContinuation<Outcome, Never>? in
            if case .over = state { return nil }
            defer { state = .over(outcome) }
            if case .waiting(let continuation) = state { return continuation } else { return nil }
        }
        waiting?.resume(returning: outcome)
    }
}
