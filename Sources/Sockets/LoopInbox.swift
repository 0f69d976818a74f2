// Work that other threads add for a loop: jobs of tasks, and closures. Adding work wakes a sleeping loop.

internal import Glibc
internal import Synchronization

/// Safe to share: its contents are behind one lock.
final class LoopInbox: Sendable {
    private struct Contents {
        /// The jobs of tasks. Each task has at most one of them.
        var jobs: [UnownedJob] = []
        var calls: [@Sendable () -> Void] = []
        /// Whether the loop waits or is about to wait, so that added work must wake it.
        var sleeps = false
        /// Whether the loop has run its last round. The poller may then be closed. Jobs that tasks add later run as
        /// separate work items of the loop's queue.
        var hasEnded = false

        var isEmpty: Bool { jobs.isEmpty && calls.isEmpty }
    }

    enum PutResult {
        /// The caller need not run the added work: the loop runs it, or another caller that got `ended` does.
        case loop
        /// The loop has ended, and the inbox was empty. The caller must arrange that the contents of the inbox are run.
        case ended
    }

    private let contents = Mutex(Contents())
    private let poller: Poller
    /// The number of threads that are waking the loop at this moment.
    private let wakes = Atomic(0)

    init(_ poller: Poller) {
        self.poller = poller
    }

    func put(_ job: UnownedJob) -> PutResult {
        put { $0.jobs.append(job) }
    }

    func put(_ call: @escaping @Sendable () -> Void) -> PutResult {
        put { $0.calls.append(call) }
    }

    /// Adds work, and wakes the loop if it sleeps. The lock is not held during the wake, because the loop takes the
    /// lock as soon as it is awake. A wake needs the open poller, so `end` waits until `wakes` is 0.
    private func put(_ change: (inout Contents) -> Void) -> PutResult {
        let (result, wakesLoop) = contents.withLock { contents in
            let wasEmpty = contents.isEmpty
            change(&contents)
            let sleeps = contents.sleeps
            contents.sleeps = false
            if sleeps { wakes.add(1, ordering: .relaxed) }
            return (contents.hasEnded && wasEmpty ? PutResult.ended : .loop, sleeps)
        }
        if wakesLoop {
            poller.wake()
            wakes.subtract(1, ordering: .releasing)
        }
        return result
    }

    func take(jobs: inout [UnownedJob]) -> [@Sendable () -> Void] {
        contents.withLock { contents in
            contents.sleeps = false
            jobs.append(contentsOf: contents.jobs)
            contents.jobs.removeAll(keepingCapacity: true)
            defer { contents.calls = [] }
            return contents.calls
        }
    }

    /// Marks the loop as sleeping. From now on, added work wakes the loop. Returns false, without marking it, if the
    /// inbox contains work.
    func prepareToSleep() -> Bool {
        contents.withLock { contents in
            contents.sleeps = contents.isEmpty
            return contents.sleeps
        }
    }

    /// Marks the loop as ended. From now on, added work does not wake the loop. Returns false if the inbox contains
    /// work.
    func end() -> Bool {
        let isEmpty = contents.withLock { contents in
            contents.hasEnded = true
            contents.sleeps = false
            return contents.isEmpty
        }
        // Polling is acceptable here: a wake takes microseconds, and an event loop ends only once.
        while wakes.load(ordering: .acquiring) > 0 { sched_yield() }
        return isEmpty
    }
}
