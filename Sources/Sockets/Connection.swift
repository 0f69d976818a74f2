// One socket on its loop. Reads and writes do not block. The code here does not depend on the protocol.
//
// The poller is edge-triggered: it reports each change of readiness (an edge) only once. The connection therefore
// remembers readiness in `mayRead` and `mayWrite`:
//
// - `mayRead` is cleared after EAGAIN, or after a read of fewer bytes than requested (epoll(7)). The kernel then has no
//   more bytes. Exception: after the poller has reported the end of the peer's bytes, no further edge follows, so only
//   EAGAIN clears `mayRead`.
// - `mayWrite` is cleared after EAGAIN.
//
// There are two ways to use a connection. Its owner is called for each change (`whenChanged`), or a task waits for
// bytes (Connection+Waiting.swift).

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// A change of a connection. The owner reads the details from the connection.
package enum ConnectionChange: Sendable {
    /// The connection may be readable or writable, the peer has ended its sending direction, or the connection failed.
    case ready
    /// The deadline that was set last has passed.
    case timedOut
    /// A round of the loop ends, and `flushAtRoundEnd` was called in this round.
    case roundEnds
    /// A drain began. The owner must finish the request in progress and close the connection.
    case draining
    /// This side closed the socket: `close` was called, `shutdownWrite` failed, or the loop shuts down. No other change
    /// follows.
    case closed
}

/// Safe to share: all mutable state is accessed only on `loop`. Some functions must be called on the loop, as their
/// comments say. All others move to the loop themselves.
package final class Connection: @unchecked Sendable {
    package let loop: EventLoop
    /// The peer's IP address as text, without port; "" for a Unix socket.
    package let remoteAddress: String
    /// Whether the connection is draining. This property and those below must be read on the loop.
    package private(set) var isDraining = false
    /// Whether no response can reach the peer, because the connection failed, both directions have ended, or this side
    /// closed the socket.
    package private(set) var peerIsGone = false
    package private(set) var mayRead = true
    package private(set) var mayWrite = true

    private var descriptor: Int32
    private var token: UInt64?
    /// Whether the connection failed or the peer sends no more bytes. Set when the poller reports this, or when a read
    /// returns 0 bytes.
    private var peerEnded = false
    private var owner: ((ConnectionChange) -> Void)?
    private var peerEndsSending: (@Sendable () -> Void)?
    private var timer: LoopTimer?
    /// Whether a `.ready` that `continueInNextRound` requested is still to come.
    private var continues = false

    var reading: ReadinessWaiter?
    var writing: ReadinessWaiter?
    var callsWithoutWait = 0

    /// Creates a connection that owns the descriptor.
    init(_ descriptor: Int32, on loop: EventLoop, remoteAddress: String) {
        self.descriptor = descriptor
        self.loop = loop
        self.remoteAddress = remoteAddress
    }

    deinit {
        if descriptor >= 0 { _ = loop.syscalls.close(descriptor) }
    }

    /// Registers the connection with the poller. Must be called on the loop, before any other call.
    func register() throws(TransportError) {
        if descriptor < 0 { throw .closed }
        token = try loop.add(descriptor, .connection) { self.happened($0) }
    }

    private func happened(_ event: DescriptorEvent) {
        switch event {
        case .ready(let readiness): becameReady(readiness)
        case .loopShutsDown: closeNow()
        }
    }

    package var isClosed: Bool { descriptor < 0 }

    /// Calls the closure on the loop for each change, until the connection is closed. Must be called on the loop.
    package func whenChanged(_ body: @escaping (ConnectionChange) -> Void) {
        owner = body
    }

    // MARK: - Reading and writing

    /// Reads at most 64 KiB and passes the bytes to the closure. Must be called on the loop.
    ///
    /// Returns the number of bytes. Returns 0 at the end of the stream and on every later call. Returns nil if no bytes
    /// are available yet.
    package func receive(_ body: (UnsafeRawBufferPointer) -> Void) throws(TransportError) -> Int? {
        if descriptor < 0 { throw .closed }
        if !mayRead { return nil }
        let buffer = UnsafeMutableRawBufferPointer(loop.readBuffer)
        let count = Syscalls.retried { loop.syscalls.receive(descriptor, buffer) }
        if count > 0 {
            if count < buffer.count && !peerEnded { mayRead = false }
            body(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            return count
        }
        if count == 0 {
            peerEnds()
            return 0
        }
        guard count == Int(-EAGAIN) else { throw failure("recv", count) }
        mayRead = false
        return nil
    }

    /// Writes as many bytes as the kernel takes now. Returns the index of the first byte that is still to be sent. Must
    /// be called on the loop.
    package func send(_ bytes: [UInt8], from start: Int = 0) throws(TransportError) -> Int {
        var sent = start
        while sent < bytes.count {
            if descriptor < 0 { throw .closed }
            let count = bytes.withUnsafeBytes { bytes in
                Syscalls.retried { loop.syscalls.send(descriptor, UnsafeRawBufferPointer(rebasing: bytes[sent...])) }
            }
            if count < 0 {
                guard count == Int(-EAGAIN) else { throw failure("send", count) }
                mayWrite = false
                return sent
            }
            sent += count
        }
        return sent
    }

    /// Ends this side's sending direction. Reading is still possible. If the system call fails, closes the connection,
    /// because the peer is gone.
    package func shutdownWrite() {
        loop.execute { [self] in
            if descriptor < 0 { return }
            let answer = Syscalls.retried { loop.syscalls.shutdownWrite(descriptor) }
            if answer < 0 { closeNow() }
        }
    }

    private func failure(_ call: String, _ answer: Int) -> TransportError {
        let errno = Int32(clamping: -answer)
        peerIsGone = true
        switch errno {
        case ECONNRESET, EPIPE, ECONNABORTED, ENOTCONN, ETIMEDOUT, EHOSTUNREACH, ENETUNREACH, ENETDOWN: return .reset
        default: return .system(call: call, errno: errno)
        }
    }

    // MARK: - Changes

    private func becameReady(_ readiness: Readiness) {
        let ended = !readiness.isDisjoint(with: .ended)
        if ended || readiness.contains(.readable) { mayRead = true }
        if ended || readiness.contains(.writable) { mayWrite = true }
        if !readiness.isDisjoint(with: .gone) { peerIsGone = true }
        if ended { peerEnds() }
        if mayRead { reading?.wake(.ready) }
        if mayWrite { writing?.wake(.ready) }
        // The owner is called even if the peer is gone, because the kernel may still hold bytes from the peer.
        owner?(.ready)
    }

    /// Requests a `.roundEnds` in this round of the loop. If there is no owner or the kernel takes no more output now,
    /// requests nothing and returns false. Must be called on the loop.
    package func flushAtRoundEnd() -> Bool {
        guard owner != nil, mayWrite else { return false }
        loop.flushAtRoundEnd { self.roundEnds() }
        return true
    }

    private func roundEnds() {
        owner?(.roundEnds)
    }

    /// Requests a `.timedOut` at the deadline. Replaces the previous deadline. Must be called on the loop.
    package func setDeadline(_ deadline: Deadline) {
        if descriptor < 0 || timer == nil && deadline == .never { return }
        // The timer's closure retains the connection. Closing the connection releases the timer and ends this cycle. A
        // weak reference would make every retain and release of the connection slower.
        let timer = timer ?? LoopTimer { self.owner?(.timedOut) }
        self.timer = timer
        if deadline == .never { loop.stop(timer) } else { loop.start(timer, deadline) }
    }

    /// Requests one `.ready` after the loop's other connections have had a turn. Must be called on the loop.
    package func continueInNextRound() {
        if continues { return }
        continues = true
        loop.nextRound { [self] in
            continues = false
            owner?(.ready)
        }
    }

    /// Marks the connection as draining. Must be called on the loop.
    func beginDrain() {
        isDraining = true
        reading?.drainBegan()
        owner?(.draining)
    }

    /// Calls the closure once, on the loop, when the peer ends its sending direction. If the peer has already done so,
    /// calls the closure at once. nil removes the previous closure.
    ///
    /// The peer may still be reading. Only a write can show that the peer is gone.
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

    // MARK: - The end

    /// Closes the socket. A waiting task gets `.closed`. A second call does nothing.
    package func close() {
        loop.execute { self.closeNow() }
    }

    private func closeNow() {
        if descriptor < 0 { return }
        if let token { loop.remove(token, descriptor, stillOpen: false) }
        token = nil
        _ = loop.syscalls.close(descriptor)
        descriptor = -1
        peerIsGone = true
        if let timer { loop.remove(timer) }
        timer = nil
        reading?.end()
        writing?.end()
        peerEndsSending = nil
        let last = owner
        owner = nil
        last?(.closed)
    }
}
