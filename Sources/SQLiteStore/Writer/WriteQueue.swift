// The writer's queue: a bounded list in order of arrival, and a flag that says whether the writer is running. One lock
// protects both. The queue knows nothing about SQL or about the kinds of work.

import Synchronization

/// One piece of work, with the number of requests in it.
protocol QueuedWork: Sendable {
    var requestCount: Int { get }
}

final class WriteQueue<Work: QueuedWork>: Sendable {
    enum Refusal: Hashable {
        case full
        case closed
    }

    enum Admission: Hashable {
        /// The writer is not running, so the caller must wake it.
        case wakesWriter
        case joinsLine
        case refused(Refusal)
    }

    private struct State: Sendable {
        var line: [Work] = []
        var requestCount = 0
        var writerIsAwake = false
        var isClosed = false
        var whenDrained: [@Sendable () -> Void] = []

        mutating func takeFirst(requestsMax: Int) -> [Work] {
            if requestCount <= requestsMax {
                defer { (line, requestCount) = ([], 0) }
                return line
            }
            var taken = 0
            var count = 0
            while taken < line.count, taken == 0 || count + line[taken].requestCount <= requestsMax {
                count += line[taken].requestCount
                taken += 1
            }
            defer { line.removeFirst(taken) }
            requestCount -= count
            return Array(line[..<taken])
        }

        /// Records that no work is left and the writer is idle. Returns the callbacks that were passed to `close`,
        /// which the caller must call.
        mutating func markWriterIdle() -> [@Sendable () -> Void] {
            writerIsAwake = false
            defer { whenDrained = [] }
            return whenDrained
        }
    }

    private let requestsMax: Int
    private let state = Mutex(State())

    init(requestsMax: Int) {
        self.requestsMax = requestsMax
    }

    /// The number of requests in the queue.
    var requestsWaiting: Int { state.withLock(\.requestCount) }

    func add(_ work: Work) -> Admission {
        state.withLock { state in
            if state.isClosed { return .refused(.closed) }
            if state.requestCount + work.requestCount > requestsMax { return .refused(.full) }
            state.line.append(work)
            state.requestCount += work.requestCount
            if state.writerIsAwake { return .joinsLine }
            state.writerIsAwake = true
            return .wakesWriter
        }
    }

    /// Takes work from the front of the queue: at least one piece, and more pieces up to `requestsMax` requests in all.
    /// If the queue is empty, records that the writer is idle. The next `add` then returns `.wakesWriter`.
    func take(requestsMax: Int) -> [Work] {
        let (work, whenDrained) = state.withLock { state in
            let taken = state.takeFirst(requestsMax: requestsMax)
            return (taken, taken.isEmpty ? state.markWriterIdle() : [])
        }
        for resume in whenDrained { resume() }
        return work
    }

    /// Appends work to the end of the queue, even if the queue is full. Only the running writer may call this.
    func putBack(_ work: [Work]) {
        if work.isEmpty { return }
        state.withLock { state in
            state.line += work
            state.requestCount += work.reduce(0) { $0 + $1.requestCount }
        }
    }

    /// Refuses all later work. Calls `whenDrained` when the work in the queue is done, possibly at once. If `close` is
    /// called several times, every callback is called.
    func close(whenDrained: @escaping @Sendable () -> Void) {
        let isDrained = state.withLock { state in
            state.isClosed = true
            if state.writerIsAwake { state.whenDrained.append(whenDrained) }
            return !state.writerIsAwake
        }
        if isDrained { whenDrained() }
    }
}
