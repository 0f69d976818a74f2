// One socket on its loop: non-blocking reads and writes, and a call for each change. Knows no protocol.
//
// No edge is lost: every edge that the poller reports sets `mayRead` and `mayWrite`, and they are cleared only when the
// kernel has nothing more (EAGAIN, or fewer bytes than asked for, see epoll(7)). After the peer's end was reported
// `mayRead` stays set, because no further edge follows that one.
//
// Changes are reported to the owner (`whenChanged`), or a task waits for bytes (Connection+Waiting.swift).

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// A change of a connection. The owner reads the details from the connection.
package enum ConnectionChange: Sendable {
    /// It may be readable or writable, or the peer ended or failed.
    case ready
    /// The deadline that was set last has passed.
    case timedOut
    /// This round of the loop, in which `flushAtTickEnd` was called, is about to end.
    case tickEnds
    /// A drain began: finish the request in progress and end.
    case draining
    /// It was closed, by either side. Always the last change.
    case closed
}

/// Safe to share: all mutable state is touched only on `loop`; each entry point hops there or documents that it is
/// called there.
package final class Connection: @unchecked Sendable {
    package let loop: EventLoop
    /// The peer's IP number as text, without port; "" for a Unix socket.
    package let remoteAddress: String
    /// Read on the loop, like everything that follows.
    package private(set) var isDraining = false
    /// The connection failed or is down in both directions: no response can reach the peer.
    package private(set) var peerIsGone = false
    package private(set) var mayRead = true
    package private(set) var mayWrite = true

    private var descriptor: Int32
    private var token: UInt64?
    /// The poller reported the peer's end, or a failure.
    private var peerEnded = false
    private var owner: ((ConnectionChange) -> Void)?
    private var peerEndsSending: (@Sendable () -> Void)?
    private var timer: LoopTimer?
    /// `continueInNextRound` was called, and its `.ready` is still to come.
    private var continues = false

    // For tasks that wait; created at the first wait.
    var reading: ReadinessWaiter?
    var writing: ReadinessWaiter?
    var callsWithoutWait = 0

    /// Takes ownership of the descriptor.
    init(_ descriptor: Int32, on loop: EventLoop, remoteAddress: String) {
        self.descriptor = descriptor
        self.loop = loop
        self.remoteAddress = remoteAddress
    }

    deinit {
        if descriptor >= 0 { _ = loop.syscalls.close(descriptor) }
    }

    /// On the loop, before anything else.
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

    /// Calls the closure on the loop for each change, until the connection is closed. On the loop.
    package func whenChanged(_ body: @escaping (ConnectionChange) -> Void) {
        owner = body
    }

    // MARK: - Reading and writing

    /// Reads at most 64 KiB and passes them to the closure. Returns how many bytes: 0 at the end of the stream, and
    /// again on every later call; nil when no bytes are available yet. On the loop.
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

    /// Writes as much as the peer takes now. Returns the index of the first byte not sent. On the loop.
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

    /// Ends the sending direction; reading continues. Closes the connection when the peer is already gone.
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
        // After the waiters: bytes that the kernel still holds from a peer that is gone can be read.
        owner?(.ready)
    }

    /// Requests a `.tickEnds` at the end of this round of the loop. False when the peer has not taken the last output.
    /// On the loop.
    package func flushAtTickEnd() -> Bool {
        guard owner != nil, mayWrite else { return false }
        loop.flushAtTickEnd { self.tickEnds() }
        return true
    }

    private func tickEnds() {
        owner?(.tickEnds)
    }

    /// Requests a `.timedOut` at that time, replacing the previous deadline. On the loop.
    package func setDeadline(_ deadline: Deadline) {
        if descriptor < 0 || timer == nil && deadline == .never { return }
        // Closing releases the timer, and with it this reference. A weak one would make each reference to the
        // connection slower.
        let timer = timer ?? LoopTimer { self.owner?(.timedOut) }
        self.timer = timer
        if deadline == .never { loop.stop(timer) } else { loop.start(timer, deadline) }
    }

    /// Requests one `.ready` after the loop's other connections have run. On the loop.
    package func continueInNextRound() {
        if continues { return }
        continues = true
        loop.nextRound { [self] in
            continues = false
            owner?(.ready)
        }
    }

    func beginDrain() {
        isDraining = true
        reading?.drainBegan()
        owner?(.draining)
    }

    /// Calls the closure once, on the loop, when the peer has sent its last byte, or now if it already has. A peer that
    /// closed its socket looks the same: only a later write shows whether it still reads. nil removes the closure.
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
