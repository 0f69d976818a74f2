// Lets a task wait until one direction of a connection is ready.

/// The reason why a wait ended.
enum Wake {
    case ready, timedOut, cancelled, draining, closed
}

/// Safe to share: all mutable state is touched only on `loop`. A cancellation comes from another thread, so it goes
/// through `loop.execute`.
final class ReadinessWaiter: @unchecked Sendable {
    private let loop: EventLoop
    private var waiter: UnsafeContinuation<Wake, Never>?
    private var timer: LoopTimer?
    private var endsOnDrain = false
    /// The number of waits so far. A cancellation carries the number of its wait. If another wait has begun since, the
    /// numbers differ, and the cancellation does nothing.
    private var number: UInt64 = 0
    /// The number of the wait that was cancelled last. It is stored because a cancellation may arrive before its wait
    /// has a continuation.
    private var cancelled: UInt64 = 0

    init(_ loop: EventLoop) {
        self.loop = loop
    }

    var isTaken: Bool { waiter != nil }

    /// Returns when `wake` is called, the deadline has passed, or the task is cancelled. If `endsOnDrain` is true, also
    /// returns when a drain begins. Only one task may wait at a time.
    nonisolated(nonsending) func wait(until deadline: Deadline, endsOnDrain: Bool) async -> Wake {
        number &+= 1
        let number = number
        self.endsOnDrain = endsOnDrain
        return await withTaskCancellationHandler {
            await withUnsafeContinuation { continuation in
                if cancelled == number { return continuation.resume(returning: .cancelled) }
                waiter = continuation
                if deadline != .never { startTimer(deadline) }
            }
        } onCancel: {
            loop.execute { self.cancel(number) }
        }
    }

    private func cancel(_ number: UInt64) {
        cancelled = number
        if self.number == number { wake(.cancelled) }
    }

    /// Ends the current wait. Does nothing if no task waits.
    func wake(_ wake: Wake) {
        guard let waiter else { return }
        self.waiter = nil
        if let timer { loop.stop(timer) }
        waiter.resume(returning: wake)
    }

    func drainBegan() {
        if endsOnDrain { wake(.draining) }
    }

    func end() {
        wake(.closed)
        if let timer { loop.remove(timer) }
        timer = nil
    }

    private func startTimer(_ deadline: Deadline) {
        let timer = timer ?? LoopTimer { [weak self] in self?.wake(.timedOut) }
        self.timer = timer
        loop.start(timer, deadline)
    }
}
