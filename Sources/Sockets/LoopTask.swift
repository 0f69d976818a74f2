// The tasks that a loop starts for its connections. When its work ends, a task waits for more work, because a new task
// would need a stack and about a kilobyte from malloc, both outside the processor's cache.

/// A task that runs one piece of work after another on its loop. Safe to share: all mutable state is touched only on
/// the loop.
package final class LoopTask: @unchecked Sendable {
    package typealias Work = nonisolated(nonsending) @Sendable () async -> Void

    private var task: Task<Void, Never>?
    private var next: Work?
    private var waiter: UnsafeContinuation<Void, Never>?

    fileprivate init(_ work: @escaping Work) {
        next = work
    }

    /// Cancels the current work. Must not be called after this work has ended, because the task may then run another
    /// connection's work.
    package func cancel() {
        task?.cancel()
    }

    fileprivate func start(on loop: EventLoop) {
        task = Task(executorPreference: loop) {
            // A cancelled task stays cancelled, so it must not run other work.
            while await self.runNext(), !Task.isCancelled, loop.keep(self) {
                await withUnsafeContinuation { self.waiter = $0 }
            }
            self.task = nil
        }
    }

    /// Runs the next work. Returns false if there is none.
    ///
    /// This must be a separate function: when it returns, its reference to the work is released. A waiting task then
    /// keeps no connection and no content of a request alive.
    private nonisolated(nonsending) func runNext() async -> Bool {
        guard let work = next else { return false }
        next = nil
        await work()
        return true
    }

    /// Gives new work to the waiting task, or ends the task if `work` is nil. Must be called only while the task waits.
    fileprivate func resume(with work: Work?) {
        next = work
        let waiter = waiter
        self.waiter = nil
        waiter?.resume()
    }
}

/// The tasks of a loop that wait for work. The task that has waited for the shortest time is resumed first, because its
/// stack is still in the processor's cache.
struct IdleTasks {
    /// The maximum number of waiting tasks, each of which uses about four kilobytes. If more requests arrive at once
    /// than tasks are waiting, some of the requests need new tasks.
    static let countMax = 128

    private var tasks: [LoopTask] = []
    private var isEnded = false

    mutating func keep(_ task: LoopTask) -> Bool {
        guard !isEnded, tasks.count < Self.countMax else { return false }
        tasks.append(task)
        return true
    }

    mutating func take() -> LoopTask? {
        tasks.popLast()
    }

    /// Ends the waiting tasks now. Other tasks end after their current work.
    mutating func end() {
        isEnded = true
        let waiting = tasks
        tasks = []
        for task in waiting { task.resume(with: nil) }
    }
}

extension EventLoop {
    /// Runs the work in a task on this loop, in this round or the following one. Must be called on the loop.
    package func start(_ work: @escaping LoopTask.Work) -> LoopTask {
        assertOnLoop()
        if let task = idleTasks.take() {
            task.resume(with: work)
            return task
        }
        let task = LoopTask(work)
        task.start(on: self)
        return task
    }

    fileprivate func keep(_ task: LoopTask) -> Bool {
        idleTasks.keep(task)
    }
}
