// Work that other threads add for a loop: jobs of tasks, and closures to call. Adding work wakes a sleeping loop.

internal import Glibc
internal import Synchronization

/// Safe to share: its contents are behind one lock.
final class LoopInbox: Sendable {
    private struct Contents {
        /// The jobs of tasks. A task has at most one job here.
        var jobs: [UnownedJob] = []
        var calls: [@Sendable () -> Void] = []
        /// Whether the loop waits or is about to wait. If true, added work must wake the loop.
        var sleeps = false
        /// Whether the loop has run its last round. From then on, the poller may be closed, and other threads run the
        /// jobs that tasks still add.
        var hasEnded = false

        var isEmpty: Bool { jobs.isEmpty && calls.isEmpty }
    }

    enum PutResult {
        /// The caller need not run the added work, because the loop runs it. After the loop has ended, the caller that
        /// got `ended` runs it instead.
        case loop
        /// The loop has ended, and the inbox was empty before this call. The caller must run the contents of the inbox.
        case ended
    }

    private let contents = Mutex(Contents())
    private let poller: Poller
    /// The number of calls that are waking the loop at this moment.
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

    /// Adds work and wakes the loop if it sleeps. The lock is not held during the wake, because the loop takes the lock
    /// as soon as it is awake. With `wakes`, `end` waits until no wake is running, because a wake needs the open
    /// poller.
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

    /// Empties the inbox. Appends the jobs to `jobs`, and returns the calls.
    func take(jobs: inout [UnownedJob]) -> [@Sendable () -> Void] {
        contents.withLock { contents in
            contents.sleeps = false
            jobs.append(contentsOf: contents.jobs)
            contents.jobs.removeAll(keepingCapacity: true)
            defer { contents.calls = [] }
            return contents.calls
        }
    }

    /// Marks the loop as sleeping. From now on, added work wakes the loop. If the inbox already contains work, returns
    /// false without marking the loop.
    func prepareToSleep() -> Bool {
        contents.withLock { contents in
            contents.sleeps = contents.isEmpty
            return contents.sleeps
        }
    }

    /// Marks the loop as ended. From now on, added work no longer wakes the loop. Returns false if the inbox still
    /// contains work.
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
