// One listening socket on one loop. It accepts a limited number of connections per round, and recovers if the process
// runs out of descriptors.

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// A listening socket on one loop. It passes the descriptor of each connection to `accepted`, which then owns the
/// descriptor.
///
/// Safe to share: all mutable state is touched only on `loop`.
final class Listener: @unchecked Sendable {
    private let loop: EventLoop
    private let accepted: @Sendable (Int32, Endpoint) -> Void
    private var descriptor: Int32
    private var spare: Int32
    private var token: UInt64?
    private var timer: LoopTimer?
    /// If no descriptor is free, the time from which clients in the backlog are rejected. A successful accept sets it
    /// to nil.
    private var waitDeadline: Deadline?
    private let backlogWaitMilliseconds: Int
    private let isShared: Bool

    /// The maximum number of connections accepted in one round, so that the loop's other connections run in between.
    private static let acceptedPerTurnMax = 64
    /// The maximum number of connections accepted in `stop`: the kernel's usual maximum length of a backlog
    /// (net.core.somaxconn).
    private static let acceptedAtStopMax = 4096
    /// The pause after an accept that failed because no descriptor or memory is left, or because the socket does not
    /// listen. Retrying at once would only use CPU time.
    static let pauseMilliseconds = 100

    /// Creates a listener that owns the listening descriptor.
    ///
    /// `backlogWaitMilliseconds`: how long clients wait in the backlog while no descriptor is free. After this time,
    /// the listener rejects one client every `pauseMilliseconds`, so that the client sees the failure before its own
    /// timeout.
    ///
    /// `isShared`: whether the socket stays open in another process when this process closes it.
    init(
        _ descriptor: Int32, on loop: EventLoop, backlogWaitMilliseconds: Int = 10_000, isShared: Bool = false,
        accepted: @escaping @Sendable (Int32, Endpoint) -> Void
    ) {
        self.backlogWaitMilliseconds = backlogWaitMilliseconds
        self.isShared = isShared
        self.descriptor = descriptor
        self.loop = loop
        self.accepted = accepted
        spare = Int32(clamping: loop.syscalls.openSpare())
    }

    deinit {
        if descriptor >= 0 { _ = loop.syscalls.close(descriptor) }
        if spare >= 0 { _ = loop.syscalls.close(spare) }
    }

    /// Starts accepting. Must be called on the loop.
    func start() throws(TransportError) {
        if descriptor < 0 { throw .closed }
        token = try loop.add(descriptor, .listener) { event in
            switch event {
            case .ready: self.becameReady()
            case .loopShutsDown: self.close()
            }
        }
    }

    /// Stops accepting and closes the socket. Must be called on the loop.
    ///
    /// Closing the socket would reset the connections in the backlog. `stop` therefore accepts these connections first.
    /// For a shared socket, `stop` leaves the backlog to the other process.
    func stop() {
        if descriptor < 0 { return }
        if token != nil, !isShared { for _ in 0..<Listener.acceptedAtStopMax where acceptOne() != .took { break } }
        close()
    }

    private func close() {
        // If another process keeps the socket open, closing the descriptor does not remove it from the poller. `remove`
        // must then do so.
        if let token { loop.remove(token, descriptor, stillOpen: isShared) }
        token = nil
        if let timer { loop.remove(timer) }
        timer = nil
        if descriptor >= 0 { _ = loop.syscalls.close(descriptor) }
        if spare >= 0 { _ = loop.syscalls.close(spare) }
        descriptor = -1
        spare = -1
    }

    private func becameReady() {
        for _ in 0..<Listener.acceptedPerTurnMax {
            switch acceptOne() {
            case .took: continue
            case .nothing: return
            case .mustPause: return pause()
            }
        }
    }

    private enum Attempt {
        case took, nothing, mustPause
    }

    private func acceptOne() -> Attempt {
        let (endpoint, answer) = acceptNow()
        if answer >= 0 {
            waitDeadline = nil
            accepted(Int32(clamping: answer), endpoint)
            return .took
        }
        switch Int32(clamping: -answer) {
        case EAGAIN: return .nothing
        case EMFILE, ENFILE:
            let ends = waitDeadline ?? .inMilliseconds(backlogWaitMilliseconds)
            waitDeadline = ends
            if ends.hasPassed { rejectOneWithSpare() }
            return .mustPause
        case ENOBUFS, ENOMEM: return .mustPause
        // Another process that shares the socket has shut it down, so the socket does not listen. The poller always
        // reports such a socket as ready, so a pause is needed. The socket may listen again later.
        case EINVAL: return .mustPause
        // Any other error concerns only the connection that could not be accepted (accept(2)). `took` makes the caller
        // try another connection.
        default: return .took
        }
    }

    private func acceptNow() -> (Endpoint, Int) {
        Endpoint.filled { address, length in
            Syscalls.retried { loop.syscalls.accept(descriptor, address, &length) }
        }
    }

    /// Frees the spare descriptor, accepts one client in its place, and closes the connection. The client then sees the
    /// failure at once. If it stayed in the backlog, it would wait until its own timeout.
    private func rejectOneWithSpare() {
        if spare < 0 { return }
        _ = loop.syscalls.close(spare)
        let (_, answer) = acceptNow()
        if answer >= 0 { _ = loop.syscalls.close(Int32(clamping: answer)) }
        spare = Int32(clamping: loop.syscalls.openSpare())
    }

    private func pause() {
        if let token { loop.remove(token, descriptor, stillOpen: true) }
        token = nil
        let timer = timer ?? LoopTimer { [weak self] in self?.resume() }
        self.timer = timer
        loop.start(timer, .inMilliseconds(Listener.pauseMilliseconds))
    }

    private func resume() {
        if descriptor < 0 { return }
        if spare < 0 { spare = Int32(clamping: loop.syscalls.openSpare()) }
        do {
            try start()
        } catch {
            pause()
        }
    }
}
