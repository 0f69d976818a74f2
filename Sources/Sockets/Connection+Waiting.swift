// Reads and writes that suspend a task while the socket is not ready. Outgoing connections and tests use them.
// HTTPServer uses only `yieldIfBusy`, for streamed responses.
//
// A task makes the system call first. If the call would block, the task waits until the poller reports that the socket
// became readable or writable (an edge). The task stays on the loop until it waits, so it misses no edge.

/// Any task may call these functions. A call from outside the connection's loop moves to the loop, unless the
/// function's comment requires a call on the loop. One task may read while another writes.
extension Connection {
    /// The maximum number of successive reads and writes without a wait. The loop's other connections run after that.
    private static let callsWithoutWaitMax = 32

    /// Whether a task waits for bytes. Must be read on the loop.
    var hasReader: Bool { reading?.isTaken == true }

    // MARK: - Reading

    /// Waits for bytes, and passes at most 64 KiB to the closure. The buffer is valid only while the closure runs. At
    /// the end of the stream, it is empty.
    ///
    /// If `endsOnDrain` is true and the connection is draining, the call throws `.draining` instead of waiting. It also
    /// throws `.draining` if a drain begins during the wait.
    package nonisolated(nonsending) func read<Answer>(
        until deadline: Deadline = .never, endsOnDrain: Bool = false, _ body: (UnsafeRawBufferPointer) -> Answer
    ) async throws(TransportError) -> Answer {
        if !loop.isCurrent {
            return try await readOffLoop(until: deadline, endsOnDrain: endsOnDrain).withUnsafeBytes(body)
        }
        try await yieldIfBusy()
        while true {
            var answer: Answer?
            if let count = try receive({ answer = body($0) }) {
                return answer ?? body(UnsafeRawBufferPointer(start: nil, count: count))
            }
            if endsOnDrain && isDraining { throw .draining }
            if reading == nil { reading = ReadinessWaiter(loop) }
            try await wait(reading, until: deadline, endsOnDrain: endsOnDrain)
        }
    }

    /// Waits for bytes, and returns at most 64 KiB. At the end of the stream, the array is empty.
    package nonisolated(nonsending) func read(
        until deadline: Deadline = .never, endsOnDrain: Bool = false
    ) async throws(TransportError) -> [UInt8] {
        try await read(until: deadline, endsOnDrain: endsOnDrain) { Array($0) }
    }

    @concurrent private func readOffLoop(
        until deadline: Deadline, endsOnDrain: Bool
    ) async throws(TransportError) -> [UInt8] {
        try await withTaskExecutorPreference(loop) { () async throws(TransportError) in
            try await read(until: deadline, endsOnDrain: endsOnDrain)
        }
    }

    // MARK: - Writing

    /// Writes all bytes. When it returns, the kernel has taken them, but the peer may not have received them.
    ///
    /// `stallTimeoutMilliseconds` limits each wait until the kernel takes more bytes; nil means no limit. `deadline`
    /// limits the whole call.
    package nonisolated(nonsending) func write(
        _ bytes: [UInt8], until deadline: Deadline = .never, stallTimeoutMilliseconds: Int? = nil
    ) async throws(TransportError) {
        if !loop.isCurrent {
            return try await writeOffLoop(
                bytes, until: deadline, stallTimeoutMilliseconds: stallTimeoutMilliseconds)
        }
        try await yieldIfBusy()
        var sent = 0
        while true {
            sent = try send(bytes, from: sent)
            if sent == bytes.count { return }
            let stalled = stallTimeoutMilliseconds.map { Deadline.inMilliseconds($0) } ?? .never
            try await waitWritable(until: min(deadline, stalled))
        }
    }

    @concurrent private func writeOffLoop(
        _ bytes: [UInt8], until deadline: Deadline, stallTimeoutMilliseconds: Int?
    ) async throws(TransportError) {
        try await withTaskExecutorPreference(loop) { () async throws(TransportError) in
            try await write(bytes, until: deadline, stallTimeoutMilliseconds: stallTimeoutMilliseconds)
        }
    }

    // MARK: - Waiting

    /// Waits until the connection is writable. If the connection is still being established, waits until the attempt to
    /// connect has succeeded or failed.
    nonisolated(nonsending) func waitWritable(until deadline: Deadline) async throws(TransportError) {
        if writing == nil { writing = ReadinessWaiter(loop) }
        try await wait(writing, until: deadline, endsOnDrain: false)
    }

    private nonisolated(nonsending) func wait(
        _ direction: ReadinessWaiter?, until deadline: Deadline, endsOnDrain: Bool
    ) async throws(TransportError) {
        guard let direction, !direction.isTaken else { throw .alreadyWaiting }
        callsWithoutWait = 0
        switch await direction.wait(until: deadline, endsOnDrain: endsOnDrain) {
        case .ready: return
        case .timedOut: throw .timedOut
        case .cancelled: throw .cancelled
        case .draining: throw .draining
        case .closed: throw .closed
        }
    }

    /// Counts the successive calls without a wait. After `callsWithoutWaitMax` calls, lets the loop's other connections
    /// run, and throws if the task was cancelled. Without this function, a peer that is always ready could occupy the
    /// loop and keep a cancelled task running.
    ///
    /// Must be called on the loop.
    package nonisolated(nonsending) func yieldIfBusy() async throws(TransportError) {
        callsWithoutWait += 1
        if callsWithoutWait > Self.callsWithoutWaitMax { try await yieldToOthers() }
    }

    /// Lets the loop's other connections run. Throws if the task was cancelled. Must be called on the loop.
    package nonisolated(nonsending) func yieldToOthers() async throws(TransportError) {
        callsWithoutWait = 0
        if Task.isCancelled { throw .cancelled }
        await loop.yield()
    }
}
