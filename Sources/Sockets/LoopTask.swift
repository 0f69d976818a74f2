// The tasks that a loop starts for its connections. A task that has done its work waits for more instead of ending: making
// one for each request costs about a kilobyte that malloc does not keep at hand, and its stack grows anew each time.

/// A task that runs one piece of work after another on its loop. Safe to share: it is touched only on that loop.
package final class LoopTask: @unchecked Sendable {
    package typealias Work = nonisolated(nonsending) @Sendable () async -> Void

    private var task: Task<Void, Never>?
    private var next: Work?
    private var waiter: UnsafeContinuation<Void, Never>?

    fileprivate init(_ work: @escaping Work) {
        next = work
    }

    /// Cancels the work in hand. Not to be called once that has ended: the task may have other work by then.
    package func cancel() {
        task?.cancel()
    }

    fileprivate func start(on loop: EventLoop) {
        task = Task(executorPreference: loop) {
            while let work = self.next {
                self.next = nil
                await work()
                // What is cancelled stays so: the next work has to have another task.
                guard !Task.isCancelled, loop.keep(self) else { break }
                await withUnsafeContinuation { self.waiter = $0 }
            }
            self.task = nil
        }
    }

    /// Nil ends the task. Only while it waits.
    fileprivate func resume(with work: Work?) {
        next = work
        let waiter = waiter
        self.waiter = nil
        waiter?.resume()
    }
}

/// The tasks of a loop that wait for work. The one that came last is the first to go: its stack is still in the cache.
struct IdleTasks {
    /// About four kilobytes each. With more requests at once than that, some tasks are made anew.
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

    /// Those that wait end now, those that work when their work has ended.
    mutating func end() {
        isEnded = true
        let waiting = tasks
        tasks = []
        for task in waiting { task.resume(with: nil) }
    }
}

extension EventLoop {
    /// Runs the work in a task on this loop, in this round or the next. On the loop.
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
