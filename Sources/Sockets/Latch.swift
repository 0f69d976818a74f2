internal import Synchronization

/// An event that happens once, and for which any number of tasks can wait. After the event, a wait returns at once.
final class Latch: Sendable {
    private struct State {
        var isReached = false
        var waiting: [UnsafeContinuation<Void, Never>] = []
    }
    private let state = Mutex(State())

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
