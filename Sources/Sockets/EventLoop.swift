// An event loop: one serial DispatchQueue with one work item, which waits on the poller as long as the loop exists. The
// loop is a TaskExecutor, so a task that prefers the loop runs on the loop's queue.
//
// In each round, the loop waits until a descriptor is ready, a timer is due, or another thread adds work. If a task is
// runnable, it does not wait. It handles what is ready, and then runs the runnable tasks.

internal import Dispatch

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// An event for a descriptor of a loop.
enum DescriptorEvent {
    case ready(Readiness)
    /// The loop is shutting down. The handler must close the descriptor and resume the waiting task.
    case loopShutsDown
}

/// The handler of a descriptor. The struct avoids a cost: Swift would wrap a closure anew on each access if the closure
/// itself were an element of an array.
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

    /// The buffer for all reads on this loop. One buffer is enough, because the bytes of a read are processed before
    /// the next read starts.
    let readBuffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 * 1024, alignment: 64)

    /// After a round with at least this number of events, the loop yields the processor before it sleeps. The sender of
    /// the events, such as a proxy on this machine, may need the processor. When the loop runs again, more events are
    /// usually ready, so it need not sleep.
    ///
    /// After a round with fewer events, the loop does not yield, because other busy processes might then delay a single
    /// request.
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
                // The loop is not retained during the wait, so it is released when nothing else references it.
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

    /// Runs the closure on the loop: immediately if the current thread runs the loop, otherwise in the loop's next
    /// round.
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

    /// Returns when the deadline has passed. Throws `.cancelled` when the task is cancelled before that.
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

    /// Calls the closure after the handlers of all ready descriptors have run. If a handler or a timer calls this
    /// function, this happens in the current round, otherwise in the next round. Must be called on the loop.
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

    /// Runs one round. `ready` is the number of events from the last wait. Returns how many milliseconds the next wait
    /// may take (-1: no limit), or nil if the loop was shut down.
    private func runRound(_ ready: Int) -> Int32? {
        onThisThread {
            if !isShutDown {
                poller.takeReady(ready) { token, readiness in handlers[token]?.call(.ready(readiness)) }
                // Output is flushed before the tasks run. Otherwise, responses that were made without a task would wait
                // for the tasks.
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

    /// Ends the rounds. Work that is added later runs as a separate work item of the queue.
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

    /// Runs the jobs that are runnable now. Jobs that become runnable meanwhile run in the next round, after its
    /// descriptor events.
    private func runRunnable() {
        swap(&runnable, &running)
        let executor = asUnownedTaskExecutor()
        for job in running { job.runSynchronously(on: executor) }
        running.removeAll(keepingCapacity: true)
    }

    /// Calls the action once in this round: after the ready descriptors were handled or after the runnable tasks ran,
    /// whichever comes next. The output of many connections is then sent together, so a proxy that receives it wakes up
    /// only once.
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

    /// Registers the descriptor. Returns a token, which is needed to remove the descriptor. The handler is called on
    /// the loop and is kept until the descriptor is removed.
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

    /// Unregisters the descriptor. `stillOpen` tells that the socket stays open in this or in another process. Only
    /// then is the descriptor removed from the poller here, because the kernel removes it when the socket is closed.
    func remove(_ token: UInt64, _ descriptor: Int32, stillOpen: Bool) {
        assertOnLoop()
        handlers.remove(token)
        if stillOpen && !isShutDown { poller.remove(descriptor) }
    }

    // MARK: - The end

    /// Closes every descriptor registered with this loop, and the loop's own descriptors. Each waiting task gets
    /// `.closed`. A second call does nothing.
    ///
    /// Tasks that prefer the loop still run on it until they end.
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
