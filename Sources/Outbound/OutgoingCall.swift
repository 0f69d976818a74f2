// One call of OutgoingHTTP that is under way. It ends once, with whatever comes first of what libcurl says, its caller giving
// up and the server's end.

import Synchronization

final class OutgoingCall: Sendable {
    typealias Result = Swift.Result<OutgoingAnswer, OutgoingFailure>

    private struct State {
        /// What the call ended with.
        var result: Result?
        /// Who waits for that.
        var continuation: CheckedContinuation<Result, Never>?
    }

    private let state = Mutex(State())

    var hasEnded: Bool { state.withLock { $0.result != nil } }

    /// Resumes at the end of the call, which may be now.
    func begin(_ continuation: CheckedContinuation<Result, Never>) {
        let result = state.withLock { state in
            if state.result == nil { state.continuation = continuation }
            return state.result
        }
        if let result { continuation.resume(returning: result) }
    }

    /// Does nothing when it has ended.
    func end(with result: Result) {
        let continuation = state.withLock { state in
            guard state.result == nil else { return nil as CheckedContinuation<Result, Never>? }
            state.result = result
            return state.continuation.take()
        }
        continuation?.resume(returning: result)
    }
}
