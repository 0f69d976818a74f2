internal import Synchronization

/// An event that happens once. Any number of tasks can wait for it. After the event, waiting returns at once.
final class Latch: Sendable {
    private struct State {
        var isReached = false
        var waiting: [UnsafeContinuation<Void, Never>] = []
    }
    private let state = Mutex(State())

    /// Marks the event as happened and resumes the waiting tasks. A second call does nothing.
    func reach() {
        let waiting = state.withLock { state in
            state.isReached = true
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }

    func wait() async {
        await withUnsafeContinuation { (continuation: UnsafeContinuation<Void, Never>) in
            let isReached = state.withLock { state in
                if !state.isReached { state.waiting.append(continuation) }
                return state.isReached
            }
            if isReached { continuation.resume() }
        }
    }
}
