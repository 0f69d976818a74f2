// One call of OutgoingHTTP in progress. A call ends only once: with libcurl's result, with cancellation by its caller,
// or with the server's shutdown, whichever comes first.

import Synchronization

final class OutgoingCall: Sendable {
    typealias Result = Swift.Result<OutgoingResponse, OutgoingFailure>

    private struct State {
        /// The call's result; nil until the call has ended.
        var result: Result?
        /// The waiting caller.
        var continuation: CheckedContinuation<Result, Never>?
    }

    private let state = Mutex(State())

    var hasEnded: Bool { state.withLock { $0.result != nil } }

    /// Resumes the continuation when the call ends, or immediately if the call has already ended.
    func begin(_ continuation: CheckedContinuation<Result, Never>) {
        let result = state.withLock { state in
            if state.result == nil { state.continuation = continuation }
            return state.result
        }
        if let result { continuation.resume(returning: result) }
    }

    /// Ends the call. Does nothing if it has already ended.
    func end(with result: Result) {
        let continuation = state.withLock { state in
            guard state.result == nil else { return nil as CheckedContinuation<Result, Never>? }
            state.result = result
            return state.continuation.take()
        }
        continuation?.resume(returning: result)
    }
}
