// An event loop: a serial DispatchQueue with one work item, which waits on the poller as long as the loop exists. The
// loop is a TaskExecutor. A task that prefers the loop therefore runs on the loop's queue.
//
// Each round begins with a wait for a ready descriptor, a due timer or work from another thread. If a task is runnable,
// the wait ends at once. After the wait, the loop handles the descriptors and timers, and runs the runnable tasks.

internal import Dispatch

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// An event for a descriptor of a loop.
enum DescriptorEvent {
    case ready(Readiness)
    /// The loop is shutting down. The handler must close the descriptor and resume the task that waits for it.
    case loopShutsDown
}

/// The handler of a descriptor. If an array contained the closure itself, Swift would wrap the closure again on each
/// access.
private struct DescriptorHandler {
    let call: (DescriptorEvent) -> Void
}

private struct RoundEndAction {
    let call: () -> Void
}

/// Safe to share: `inbox` is thread-safe, and the kernel makes the poller's add, remove and wake thread-safe. All other
/// mutable state is touched only on `queue`. Most functions check this with `assertOnLoop`.
package final class EventLoop: TaskExecutor, @unchecked Sendable {
    package let syscalls: Syscalls
    /// The loop's index in its group.
    package let index: Int

    private let queue: DispatchQueue
    private let poller: Poller

    private let inbox: LoopInbox
    private var runnable: [UnownedJob] = []
    private var running: [UnownedJob] = []
    private var yielded: [() -> Void] = []
    private var roundEndActions: [RoundEndAction] = []
    private var timers = TimerQueue()
    private var handlers = SlotMap<DescriptorHandler>()
    var idleTasks = IdleTasks()
    private var isShutDown = false
    /// The latch that is reached when the poller's descriptor is closed.
    private let end = Latch()

    /// The buffer for all reads on this loop. Reads can share it, because the bytes of one read are processed before
    /// another read starts.
    let readBuffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 * 1024, alignment: 64)

    /// If a round has at least this number of events, the loop yields the processor before it waits. The sender of the
    /// events may be a proxy on this machine that needs the processor. When the loop runs again, further events are
    /// usually ready.
    ///
    /// If a round has fewer events, the loop does not yield. Otherwise another busy process could take the processor,
    /// and a single request would be delayed.
    private static let crowd = 4

    /// Creates a loop that owns the poller.
    init(index: Int, poller: Poller, syscalls: Syscalls) {
        self.index = index
        self.syscalls = syscalls
        self.poller = poller
        inbox = LoopInbox(poller)
        queue = DispatchQueue(label: "dwell.loop.\(index)", qos: .userInitiated)
        queue.async { [weak self, poller, end] in
            var timeout: Int32? = 0
            var ready = 0
            while let milliseconds = timeout {
                ready = poller.wait(milliseconds, yieldsFirst: ready >= Self.crowd)
                // The wait does not retain the loop, so the loop is released when nothing else references it.
                timeout = self?.runRound(ready)
            }
            poller.close()
            end.reach()
        }
    }

    deinit {
        if !isShutDown { poller.wake() }
        readBuffer.deallocate()
    }

    // MARK: - Current loop

    /// The loop whose queue runs on the current thread; nil on any other thread.
    package static var current: EventLoop? {
        guard let pointer = pthread_getspecific(currentKey) else { return nil }
        return Unmanaged<EventLoop>.fromOpaque(pointer).takeUnretainedValue()
    }

    /// Whether the current thread runs this loop's queue.
    package var isCurrent: Bool {
        pthread_getspecific(EventLoop.currentKey) == UnsafeMutableRawPointer(Unmanaged.passUnretained(self).toOpaque())
    }

    private static let currentKey: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key, nil)
        return key
    }()

    func assertOnLoop() {
        assert(isCurrent, "only on the connection's own loop")
    }

    // MARK: - Running

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        if isCurrent {
            runnable.append(job)
            return
        }
        if inbox.put(job) == .ended { runAfterEndSoon() }
    }

    /// Runs the closure on the loop. If the current thread runs the loop, runs the closure at once.
    package func execute(_ body: @escaping @Sendable () -> Void) {
        if isCurrent { return body() }
        if inbox.put(body) == .ended { runAfterEndSoon() }
    }

    /// Runs the closure on the loop and returns its result.
    func run<Answer: Sendable, Failure: Error>(
        _ body: @Sendable () throws(Failure) -> Answer
    ) async throws(Failure) -> Answer {
        try await withTaskExecutorPreference(self) { () async throws(Failure) -> Answer in try body() }
    }

    /// Returns when the deadline has passed. Throws `.cancelled` if the task is cancelled earlier.
    package func sleep(until deadline: Deadline) async throws(TransportError) {
        let wake = await withTaskExecutorPreference(self) {
            await ReadinessWaiter(self).wait(until: deadline, endsOnDrain: false)
        }
        if wake == .cancelled { throw .cancelled }
    }

    /// Lets the other tasks and descriptors of this loop run. Must be called by a task that runs on the loop.
    nonisolated(nonsending) func yield() async {
        await withUnsafeContinuation { continuation in yielded.append { continuation.resume() } }
    }

    /// Calls the closure once, after the handlers of all ready descriptors and due timers. If a task calls this
    /// function, the closure runs in the following round. Must be called on the loop.
    func nextRound(_ body: @escaping () -> Void) {
        assertOnLoop()
        yielded.append(body)
    }

    private func onThisThread(_ body: () -> Void) {
        let previous = pthread_getspecific(EventLoop.currentKey)
        pthread_setspecific(EventLoop.currentKey, Unmanaged.passUnretained(self).toOpaque())
        body()
        pthread_setspecific(EventLoop.currentKey, previous)
    }

    /// Runs one round. `ready` is the number of events that the wait returned. Returns the maximum duration of the next
    /// wait in milliseconds (-1: no limit), or nil after a shutdown.
    private func runRound(_ ready: Int) -> Int32? {
        onThisThread {
            if !isShutDown {
                poller.takeReady(ready) { token, readiness in handlers[token]?.call(.ready(readiness)) }
                // Output is flushed before the tasks run, because responses that needed no task should not wait for
                // tasks.
                endRound()
                fireDueTimers()
            }
            takeYielded()
            takeInbox()
            runRunnable()
            endRound()
        }
        if isShutDown {
            end(isIdle: runnable.isEmpty && yielded.isEmpty)
            return nil
        }
        if !runnable.isEmpty || !yielded.isEmpty || !inbox.prepareToSleep() { return 0 }
        return timers.earliest == .never ? -1 : Int32(clamping: timers.earliest.remainingMilliseconds)
    }

    /// Ends the inbox after the last round. Work that is left runs on the queue as a separate work item.
    private func end(isIdle: Bool) {
        if !inbox.end() || !isIdle { runAfterEndSoon() }
    }

    private func runAfterEndSoon() {
        queue.async { self.runAfterEnd() }
    }

    private func runAfterEnd() {
        onThisThread {
            repeat {
                takeYielded()
                takeInbox()
                runRunnable()
                endRound()
            } while !runnable.isEmpty || !yielded.isEmpty
        }
    }

    private func takeYielded() {
        if yielded.isEmpty { return }
        let resumed = yielded
        yielded.removeAll(keepingCapacity: true)
        for body in resumed { body() }
    }

    private func takeInbox() {
        let calls = inbox.take(jobs: &runnable)
        for call in calls { call() }
    }

    /// Runs the runnable jobs. Jobs that become runnable during this call run in the following round, after its
    /// descriptor events.
    private func runRunnable() {
        swap(&runnable, &running)
        let executor = asUnownedTaskExecutor()
        for job in running { job.runSynchronously(on: executor) }
        running.removeAll(keepingCapacity: true)
    }

    /// Calls the action once in this round: after the descriptors' handlers or after the runnable tasks, whichever
    /// comes first. Output of many connections is then sent together, so that a proxy wakes up only once to receive it.
    ///
    /// The action must not call this function.
    func flushAtRoundEnd(_ action: @escaping () -> Void) {
        assertOnLoop()
        roundEndActions.append(RoundEndAction(call: action))
    }

    private func endRound() {
        if roundEndActions.isEmpty { return }
        for action in roundEndActions { action.call() }
        roundEndActions.removeAll(keepingCapacity: true)
    }

    // MARK: - Timers

    func start(_ timer: LoopTimer, _ deadline: Deadline) {
        assertOnLoop()
        timers.start(timer, deadline)
    }

    func stop(_ timer: LoopTimer) {
        timers.stop(timer)
    }

    func remove(_ timer: LoopTimer) {
        assertOnLoop()
        timers.remove(timer)
    }

    private func fireDueTimers() {
        if timers.earliest == .never { return }
        let now = Deadline.now
        while let timer = timers.takeDue(now) { timer.fire() }
    }

    // MARK: - Descriptors

    enum Interest {
        case connection, listener
    }

    /// Registers the descriptor, and returns a token for removing it. The loop keeps the handler until the descriptor
    /// is removed, and calls it on the loop.
    func add(
        _ descriptor: Int32, _ interest: Interest, _ handler: @escaping (DescriptorEvent) -> Void
    ) throws(TransportError) -> UInt64 {
        assertOnLoop()
        if isShutDown { throw .closed }
        let token = handlers.insert(DescriptorHandler(call: handler))
        do {
            switch interest {
            case .connection: try poller.addConnection(descriptor, token: token)
            case .listener: try poller.addListener(descriptor, token: token)
            }
        } catch {
            handlers.remove(token)
            throw error
        }
        return token
    }

    /// Unregisters the descriptor. When a socket is closed, the kernel removes its descriptor from the poller. If
    /// `stillOpen` is true, the socket stays open in this or another process, so this function removes the descriptor
    /// from the poller.
    func remove(_ token: UInt64, _ descriptor: Int32, stillOpen: Bool) {
        assertOnLoop()
        handlers.remove(token)
        if stillOpen && !isShutDown { poller.remove(descriptor) }
    }

    // MARK: - The end

    /// Closes every descriptor that is registered with this loop, and the loop's own descriptors. Each waiting task
    /// gets `.closed`. A second call does nothing.
    ///
    /// After the shutdown, tasks that prefer the loop still run on its queue until they end.
    package func shutdown() async {
        execute { self.shutDownNow() }
        await end.wait()
    }

    private func shutDownNow() {
        if isShutDown { return }
        for handler in handlers.all { handler.call(.loopShutsDown) }
        idleTasks.end()
        isShutDown = true
    }
}
