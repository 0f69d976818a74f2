// One socket, its bytes and its waits. Knows no protocol.
//
// A call is tried before anything waits, and a wait ends with the next edge the poller reports for that direction.
// No edge is lost: `mayProceed` is set by every edge and cleared only when the kernel said that there is nothing more
// (EAGAIN, or fewer bytes than asked for, see epoll(7)), and between clearing it and waiting the task does not leave
// the loop. After the peer's end was reported it stays set, because no further edge follows that one.

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// A connected stream socket. One task may read while another one writes; every call may come from any task and hops
/// to the connection's loop when it is not there. It stays registered with its loop until `close()`, which the owner
/// made it must call (an accepted one is closed when its handler returns).
///
/// The calls of the hot path are `nonisolated(nonsending)`: a task that is on the loop already stays there without
/// asking the runtime which executor it prefers.
///
/// Safe to share: everything that changes is touched only on `loop`, which every door below makes sure of.
package final class Connection: @unchecked Sendable, ReadinessReceiver, TickEndReceiver {
    package let loop: EventLoop
    /// The peer's IP number as text, without port; "" for a Unix socket.
    package let remoteAddress: String
    /// A drain began: answer what is there and come to an end. To be read on the loop.
    package private(set) var isDraining = false

    private var descriptor: Int32
    private var token: UInt64?
    private let reading: ReadinessWaiter
    private let writing: ReadinessWaiter
    /// The poller reported the peer's end, or a failure.
    private var peerEnded = false
    /// It failed, or is down in both directions.
    private var peerIsGone = false
    /// Cancelled when there is nobody left to serve.
    private var server: Task<Void, Never>?
    private var peerEndsSending: (@Sendable () -> Void)?
    private var callsWithoutWait = 0
    /// Asked before the task that waits for bytes is woken; see `servesWhileWaiting`.
    private var servant: (any ServesWhileWaiting)?

    /// After so many reads and writes without a wait the other connections of the loop have a turn.
    private static let callsWithoutWaitMax = 32

    /// Takes the descriptor over.
    init(_ descriptor: Int32, on loop: EventLoop, remoteAddress: String) {
        self.descriptor = descriptor
        self.loop = loop
        self.remoteAddress = remoteAddress
        reading = ReadinessWaiter(loop)
        writing = ReadinessWaiter(loop)
    }

    deinit {
        if descriptor >= 0 { _ = loop.syscalls.close(descriptor) }
    }

    /// On the loop, before anything else.
    func register() throws(TransportError) {
        if descriptor < 0 { throw .closed }
        token = try loop.add(self, descriptor, .connection)
    }

    /// To be read on the loop.
    package var isClosed: Bool { descriptor < 0 }

    /// Somebody waits for bytes. To be read on the loop.
    var hasReader: Bool { reading.isTaken }

    // MARK: - Reading

    /// The next bytes, at most 64 KiB, lent to the closure for the time of the call; empty at the end of the stream,
    /// then and at every later call. Returns as soon as there are any.
    ///
    /// `endsOnDrain`: throws `.draining` when it would have to wait, or waits, while the connection is draining.
    package nonisolated(nonsending) func read<Answer>(
        until deadline: Deadline = .never, endsOnDrain: Bool = false, _ body: (UnsafeRawBufferPointer) -> Answer
    ) async throws(TransportError) -> Answer {
        if !loop.isCurrent {
            return try await readFromElsewhere(until: deadline, endsOnDrain: endsOnDrain).withUnsafeBytes(body)
        }
        try await takeTurns()
        while true {
            if let count = try receive() { return body(UnsafeRawBufferPointer(rebasing: loop.readBuffer[..<count])) }
            if endsOnDrain && isDraining { throw .draining }
            try await wait(reading, until: deadline, endsOnDrain: endsOnDrain)
        }
    }

    /// The same with the bytes copied out.
    package nonisolated(nonsending) func read(
        until deadline: Deadline = .never, endsOnDrain: Bool = false
    ) async throws(TransportError) -> [UInt8] {
        try await read(until: deadline, endsOnDrain: endsOnDrain) { Array($0) }
    }

    /// Returns when bytes, or the end, can be read, perhaps; or when `ServesWhileWaiting` has left something to the task.
    /// On the loop.
    package nonisolated(nonsending) func waitReadable(
        until deadline: Deadline, endsOnDrain: Bool
    ) async throws(TransportError) {
        try await takeTurns()
        if reading.mayProceed { return }
        if endsOnDrain && isDraining { throw .draining }
        try await wait(reading, until: deadline, endsOnDrain: endsOnDrain)
    }

    /// What there is to read now, lent to the closure, and how many bytes that is: 0 at the end of the stream, nil when
    /// there is nothing yet. On the loop.
    package func readAtOnce(_ body: (UnsafeRawBufferPointer) -> Void) throws(TransportError) -> Int? {
        guard let count = try receive() else { return nil }
        body(UnsafeRawBufferPointer(rebasing: loop.readBuffer[..<count]))
        return count
    }

    @concurrent private func readFromElsewhere(
        until deadline: Deadline, endsOnDrain: Bool
    ) async throws(TransportError) -> [UInt8] {
        try await withTaskExecutorPreference(loop) { () async throws(TransportError) in
            try await read(until: deadline, endsOnDrain: endsOnDrain)
        }
    }

    /// nil when there is nothing yet.
    private func receive() throws(TransportError) -> Int? {
        if descriptor < 0 { throw .closed }
        if !reading.mayProceed { return nil }
        let buffer = UnsafeMutableRawBufferPointer(loop.readBuffer)
        let count = Syscalls.retried { loop.syscalls.receive(descriptor, buffer) }
        if count > 0 {
            if count < buffer.count && !peerEnded { reading.mayProceed = false }
            return count
        }
        if count == 0 {
            peerEnds()
            return 0
        }
        guard count == Int(-EAGAIN) else { throw failure("recv", count) }
        reading.mayProceed = false
        return nil
    }

    // MARK: - Writing

    /// Returns when all bytes are in the kernel's hands, which is no promise that the peer has them.
    ///
    /// `stallTimeoutMilliseconds` bounds each single wait for the peer to take more, `deadline` all of them together.
    package nonisolated(nonsending) func write(
        _ bytes: [UInt8], until deadline: Deadline = .never, stallTimeoutMilliseconds: Int? = nil
    ) async throws(TransportError) {
        if !loop.isCurrent {
            return try await writeFromElsewhere(
                bytes, until: deadline, stallTimeoutMilliseconds: stallTimeoutMilliseconds)
        }
        try await takeTurns()
        var sent = 0
        while true {
            sent = try writeAtOnce(bytes, from: sent)
            if sent == bytes.count { return }
            let stalled = stallTimeoutMilliseconds.map { Deadline.inMilliseconds($0) } ?? .never
            try await wait(writing, until: min(deadline, stalled), endsOnDrain: false)
        }
    }

    /// Writes as much as the peer takes now, and answers where the rest begins. On the loop.
    package func writeAtOnce(_ bytes: [UInt8], from start: Int = 0) throws(TransportError) -> Int {
        var sent = start
        while sent < bytes.count {
            let count = try send(bytes, from: sent)
            sent += count
            if sent < bytes.count, !writing.mayProceed { break }
        }
        return sent
    }

    @concurrent private func writeFromElsewhere(
        _ bytes: [UInt8], until deadline: Deadline, stallTimeoutMilliseconds: Int?
    ) async throws(TransportError) {
        try await withTaskExecutorPreference(loop) { () async throws(TransportError) in
            try await write(bytes, until: deadline, stallTimeoutMilliseconds: stallTimeoutMilliseconds)
        }
    }

    /// 0 when the peer takes nothing now.
    private func send(_ bytes: [UInt8], from start: Int) throws(TransportError) -> Int {
        if descriptor < 0 { throw .closed }
        let count = bytes.withUnsafeBytes { bytes in
            Syscalls.retried { loop.syscalls.send(descriptor, UnsafeRawBufferPointer(rebasing: bytes[start...])) }
        }
        if count >= 0 { return count }
        guard count == Int(-EAGAIN) else { throw failure("send", count) }
        writing.mayProceed = false
        return 0
    }

    /// Tells the peer that nothing more comes; reading goes on. When the peer is gone already, closes.
    package func shutdownWrite() {
        loop.execute { [self] in
            if descriptor < 0 { return }
            let answer = Syscalls.retried { loop.syscalls.shutdownWrite(descriptor) }
            if answer < 0 { closeNow() }
        }
    }

    // MARK: - Waiting

    private nonisolated(nonsending) func wait(
        _ direction: ReadinessWaiter, until deadline: Deadline, endsOnDrain: Bool
    ) async throws(TransportError) {
        if direction.isTaken { throw .alreadyWaiting }
        callsWithoutWait = 0
        switch await direction.wait(until: deadline, endsOnDrain: endsOnDrain) {
        case .ready: return
        case .timedOut: throw .timedOut
        case .cancelled: throw .cancelled
        case .draining: throw .draining
        case .closed: throw .closed
        }
    }

    /// A peer that is always ready must not keep the loop, nor keep a cancelled task alive.
    private nonisolated(nonsending) func takeTurns() async throws(TransportError) {
        callsWithoutWait += 1
        if callsWithoutWait > Connection.callsWithoutWaitMax { try await giveTurn() }
    }

    /// Lets the other connections of the loop have a turn; throws when the task was cancelled. On the loop.
    package nonisolated(nonsending) func giveTurn() async throws(TransportError) {
        callsWithoutWait = 0
        if Task.isCancelled { throw .cancelled }
        await loop.yield()
    }

    func becameReady(_ readiness: Readiness) {
        let ended = !readiness.isDisjoint(with: .ended)
        if ended { peerEnds() }
        if ended || readiness.contains(.readable) {
            reading.mayProceed = true
            // A peer's end is the task's business.
            if ended || !isServedWhileWaiting() { reading.wake(.ready) }
        }
        if ended || readiness.contains(.writable) { writing.becameReady() }
        // After the waits were ended: what the kernel still has of the peer is read and served.
        if !readiness.isDisjoint(with: .gone) { peerLeaves() }
    }

    // MARK: - Serving while the task waits

    /// From now on who is asked before a task that waits for bytes is woken; nil: nobody. On the loop.
    package func servesWhileWaiting(_ servant: (any ServesWhileWaiting)?) {
        self.servant = servant
    }

    /// The wait that is under way ends at another moment, and for a drain or not. On the loop.
    package func waitOn(until deadline: Deadline, endsOnDrain: Bool) {
        callsWithoutWait = 0
        reading.waitOn(until: deadline, endsOnDrain: endsOnDrain)
    }

    /// True when all that came was dealt with, and the task may wait on.
    private func isServedWhileWaiting() -> Bool {
        guard let servant, reading.isTaken, !isDraining else { return false }
        return servant.serveWhileWaiting() && !reading.mayProceed
    }

    /// Asks the servant to write at the end of this round of the loop. False: nobody will, or the peer has not taken what
    /// was written last. On the loop.
    package func flushAtTickEnd() -> Bool {
        guard servant != nil, writing.mayProceed else { return false }
        loop.flushAtTickEnd(self)
        return true
    }

    func roundEnds() {
        if let servant, !servant.flushAtTickEnd() { reading.wake(.ready) }
    }

    /// Until it can be written to: a connect has ended, well or badly.
    nonisolated(nonsending) func waitWritable(until deadline: Deadline) async throws(TransportError) {
        try await wait(writing, until: deadline, endsOnDrain: false)
    }

    private func failure(_ call: String, _ answer: Int) -> TransportError {
        let errno = Int32(clamping: -answer)
        peerLeaves()
        switch errno {
        case ECONNRESET, EPIPE, ECONNABORTED, ENOTCONN, ETIMEDOUT, EHOSTUNREACH, ENETUNREACH, ENETDOWN: return .reset
        default: return .system(call: call, errno: errno)
        }
    }

    // MARK: - The peer's end

    /// On the loop. The task is cancelled as soon as nobody would hear its answer: the peer is gone, or this side
    /// closed the connection. A peer that only ended its own side is still there, and cancels nothing.
    func isServed(by task: Task<Void, Never>) {
        if isClosed || peerIsGone { return task.cancel() }
        server = task
    }

    /// Calls the closure once, on the loop, when the peer has sent its last byte; now, if it has. That is all that
    /// can be seen of a peer that closed its socket: only what is written to it then finds out whether it still reads.
    /// nil: nobody wants to know any more.
    package func whenPeerEndsSending(_ body: (@Sendable () -> Void)?) {
        loop.execute { [self] in
            peerEndsSending = body
            if peerEnded { peerEnds() }
        }
    }

    private func peerEnds() {
        peerEnded = true
        guard let body = peerEndsSending else { return }
        peerEndsSending = nil
        body()
    }

    private func peerLeaves() {
        peerIsGone = true
        server?.cancel()
        server = nil
    }

    // MARK: - The end

    /// Wakes a read that ends on drain, now and from now on.
    func beginDrain() {
        isDraining = true
        reading.drainBegan()
    }

    /// Closes the socket; a waiter gets `.closed`. A second call does nothing.
    package func close() {
        loop.execute { self.closeNow() }
    }

    private func closeNow() {
        if descriptor < 0 { return }
        if let token { loop.remove(token, descriptor, stillOpen: false) }
        token = nil
        _ = loop.syscalls.close(descriptor)
        descriptor = -1
        reading.end()
        writing.end()
        peerEndsSending = nil
        peerLeaves()
    }

    func loopShutsDown() {
        closeNow()
    }
}
