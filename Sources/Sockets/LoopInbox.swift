// What other threads have for a loop: jobs of tasks, and calls. Who puts something in wakes the loop if it sleeps, once.

internal import Synchronization

/// Safe to share: its contents are behind one lock.
final class LoopInbox: Sendable {
    private struct Contents {
        /// As many as there are tasks: a task has one job at a time.
        var jobs: [UnownedJob] = []
        var calls: [@Sendable () -> Void] = []
        /// The loop waits, or is about to: who puts something in wakes it.
        var sleeps = false
        /// The loop is shut down, and its poller closed. Tasks run on to their end all the same.
        var hasEnded = false

        var isEmpty: Bool { jobs.isEmpty && calls.isEmpty }
    }

    enum Taker {
        /// The loop comes to it.
        case loop
        /// The loop has ended: the caller has to run the job elsewhere.
        case ended
    }

    private let contents = Mutex(Contents())
    private let poller: Poller

    init(_ poller: Poller) {
        self.poller = poller
    }

    func put(_ job: UnownedJob) -> Taker {
        put { $0.jobs.append(job) }
    }

    func put(_ call: @escaping @Sendable () -> Void) -> Taker {
        put { $0.calls.append(call) }
    }

    /// Under the lock the poller is not closed, and a wake reaches the current sleeper.
    private func put(_ change: (inout Contents) -> Void) -> Taker {
        contents.withLock { contents in
            let wasEmpty = contents.isEmpty
            change(&contents)
            if contents.sleeps {
                contents.sleeps = false
                poller.wake()
            }
            return contents.hasEnded && wasEmpty ? .ended : .loop
        }
    }

    /// Everything. The jobs are appended, the calls handed back.
    func take(jobs: inout [UnownedJob]) -> [@Sendable () -> Void] {
        contents.withLock { contents in
            contents.sleeps = false
            jobs.append(contentsOf: contents.jobs)
            contents.jobs.removeAll(keepingCapacity: true)
            defer { contents.calls = [] }
            return contents.calls
        }
    }

    /// From now on who puts something in wakes the loop. False, and nothing changes, when there is something.
    func fallAsleep() -> Bool {
        contents.withLock { contents in
            contents.sleeps = contents.isEmpty
            return contents.sleeps
        }
    }

    /// From now on it wakes nobody. False when there is something left.
    func end() -> Bool {
        contents.withLock { contents in
            contents.hasEnded = true
            return contents.isEmpty
        }
    }
}
