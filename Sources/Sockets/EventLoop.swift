// An event loop: one serial DispatchQueue whose one work item waits on the poller for as long as the loop lives. It is
// a TaskExecutor: a task that prefers it runs on its queue, and a job enqueued from the queue itself runs in the next
// round.
//
// A round: wait for ready descriptors, for the first timer, or for jobs from other threads; take what is there, which
// makes tasks runnable; run what is runnable. While anything is, the wait is none.

internal import Dispatch

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// What happened to a descriptor of a loop.
enum DescriptorEvent {
    case ready(Readiness)
    /// The loop shuts down: close the descriptor, wake the waiter.
    case loopShutsDown
}

/// What to call for a descriptor. In a struct, since a closure that is an element of a collection by itself is wrapped anew
/// with each access; a closure over its owner alone is the owner's reference and allocates nothing.
private struct DescriptorHandler {
    let call: (DescriptorEvent) -> Void
}

private struct TickEndAction {
    let call: () -> Void
}

/// Safe to share: `inbox` is, everything else that changes is touched only on `queue` (`assertOnLoop` marks the doors),
/// and the poller's add, remove and wake are thread-safe in the kernel.
package final class EventLoop: TaskExecutor, @unchecked Sendable {
    package let syscalls: Syscalls
    /// Where in its group.
    package let index: Int

    private let queue: DispatchQueue
    private let poller: Poller

    private let inbox: LoopInbox
    private var runnable: [UnownedJob] = []
    private var running: [UnownedJob] = []
    private var yielded: [() -> Void] = []
    private var tickEndActions: [TickEndAction] = []
    private var timers = TimerQueue()
    private var handlers = SlotMap<DescriptorHandler>()
    private var isShutDown = false
    /// Reached when the poller's descriptor is closed.
    private let end = Latch()

    /// One buffer for every read of this loop: a read hands it out and has it back before the next one starts.
    let readBuffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 * 1024, alignment: 64)

    /// After a round of so many, more is on its way. Who sends it may want this processor (a proxy on the same machine):
    /// it is lent to them before the loop sleeps, and most of the time there is no need to sleep then, nor to be woken.
    /// Not after every round: beside programs that never sleep, the next one who comes alone would wait for their turn.
    private static let crowd = 4

    /// Takes the poller over.
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
                ready = poller.wait(milliseconds, givesWay: ready >= Self.crowd)
                // Not held while waiting: a loop that nobody holds any more ends.
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

    // MARK: - Which loop is this

    /// The loop whose queue this thread is running; nil on any other thread.
    package static var current: EventLoop? {
        guard let pointer = pthread_getspecific(currentKey) else { return nil }
        return Unmanaged<EventLoop>.fromOpaque(pointer).takeUnretainedValue()
    }

    /// True on this loop's queue.
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

    /// Runs the closure on the loop: now when called there, else as soon as the loop comes to it.
    package func execute(_ body: @escaping @Sendable () -> Void) {
        if isCurrent { return body() }
        if inbox.put(body) == .ended { runAfterEndSoon() }
    }

    /// Runs the closure on the loop and hands back what it made.
    func run<Answer: Sendable, Failure: Error>(
        _ body: @Sendable () throws(Failure) -> Answer
    ) async throws(Failure) -> Answer {
        try await withTaskExecutorPreference(self) { () async throws(Failure) -> Answer in try body() }
    }

    /// Returns when the deadline has passed; throws `.cancelled` when the task is cancelled before.
    package func sleep(until deadline: Deadline) async throws(TransportError) {
        let wake = await withTaskExecutorPreference(self) {
            await ReadinessWaiter(self).wait(until: deadline, endsOnDrain: false)
        }
        if wake == .cancelled { throw .cancelled }
    }

    /// Lets the other tasks and descriptors of this loop have a turn. Only for a task that runs on it.
    nonisolated(nonsending) func yield() async {
        await withUnsafeContinuation { continuation in yielded.append { continuation.resume() } }
    }

    /// Calls the closure in the next round, after the descriptors that are ready then. On the loop.
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

    /// What is ready was just reported. Answers how many milliseconds to wait for more, -1 for no limit; nil when the
    /// loop was shut down.
    private func runRound(_ ready: Int) -> Int32? {
        onThisThread {
            if !isShutDown {
                poller.takeReady(ready) { token, readiness in handlers[token]?.call(.ready(readiness)) }
                // What was answered at once does not wait for the tasks.
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
        if !runnable.isEmpty || !yielded.isEmpty || !inbox.fallAsleep() { return 0 }
        return timers.earliest == .never ? -1 : Int32(clamping: timers.earliest.remainingMilliseconds)
    }

    /// From now on the inbox wakes nobody: what is put in runs as work of its own.
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

    /// Only what is runnable now: what these jobs make runnable waits for the next round, after the descriptors.
    private func runRunnable() {
        swap(&runnable, &running)
        let executor = asUnownedTaskExecutor()
        for job in running { job.runSynchronously(on: executor) }
        running.removeAll(keepingCapacity: true)
    }

    /// Calls it once, when the descriptors that are ready or the tasks that are runnable have had their turn. What many
    /// connections answer in one round is sent in one go: a peer that takes it all (a proxy, a benchmark) is woken once
    /// and finds everything, instead of being woken for each.
    ///
    /// The action does not ask for another one.
    func flushAtTickEnd(_ action: @escaping () -> Void) {
        assertOnLoop()
        tickEndActions.append(TickEndAction(call: action))
    }

    private func endRound() {
        if tickEndActions.isEmpty { return }
        for action in tickEndActions { action.call() }
        tickEndActions.removeAll(keepingCapacity: true)
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

    /// Registers the descriptor; the token removes it. The handler is called on the loop, and kept until then.
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

    /// Forgets the descriptor. `stillOpen`: it stays open, so the poller must be told too (closing tells it by itself).
    func remove(_ token: UInt64, _ descriptor: Int32, stillOpen: Bool) {
        assertOnLoop()
        handlers.remove(token)
        if stillOpen && !isShutDown { poller.remove(descriptor) }
    }

    // MARK: - The end

    /// Closes every descriptor of this loop and the loop's own, waking each waiter with `.closed`. Tasks that
    /// prefer the loop still run on it to their end. A second call does nothing.
    package func shutdown() async {
        execute { self.shutDownNow() }
        await end.wait()
    }

    private func shutDownNow() {
        if isShutDown { return }
        for handler in handlers.all { handler.call(.loopShutsDown) }
        isShutDown = true
    }
}
