// One listening socket on one loop: accepts in bounded batches, and recovers when the process runs out of descriptors.

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// Passes each accepted socket to `accepted`, which takes ownership of its descriptor.
///
/// Safe to share: all mutable state is touched only on `loop`.
final class Listener: @unchecked Sendable {
    private let loop: EventLoop
    private let accepted: @Sendable (Int32, Endpoint) -> Void
    private var descriptor: Int32
    private var spare: Int32
    private var token: UInt64?
    private var timer: LoopTimer?
    /// Without free descriptors: when to stop waiting for one. nil while there are any.
    private var patienceEnds: Deadline?
    private let patienceMilliseconds: Int
    private let isShared: Bool

    /// Accepted in one turn; the rest follows in the next turn, after the connections' turn.
    private static let acceptedPerTurnMax = 64
    /// The kernel's usual maximum of a backlog (net.core.somaxconn).
    private static let acceptedAtStopMax = 4096
    /// With no descriptor or memory left, retrying immediately would only use CPU time.
    static let pauseMilliseconds = 100

    /// Takes ownership of the listening descriptor. `patienceMilliseconds`: how long, without free descriptors, clients
    /// stay in the backlog, since other connections may close; after that one is closed per pause, so that they do not
    /// all wait for their own timeouts, which are longer than 10 s. `isShared`: the socket stays open in another
    /// process when this one closes it.
    init(
        _ descriptor: Int32, on loop: EventLoop, patienceMilliseconds: Int = 10_000, isShared: Bool = false,
        accepted: @escaping @Sendable (Int32, Endpoint) -> Void
    ) {
        self.patienceMilliseconds = patienceMilliseconds
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

    /// On the loop.
    func start() throws(TransportError) {
        if descriptor < 0 { throw .closed }
        token = try loop.add(descriptor, .listener) { event in
            switch event {
            case .ready: self.becameReady()
            case .loopShutsDown: self.close()
            }
        }
    }

    /// On the loop. Connections that the kernel has already accepted are taken first, because closing would reset them;
    /// those of a shared socket are left to the next server.
    func stop() {
        if descriptor < 0 { return }
        if token != nil, !isShared { for _ in 0..<Listener.acceptedAtStopMax where acceptOne() != .took { break } }
        close()
    }

    private func close() {
        // The poller forgets a descriptor by itself only when no other process has the socket open.
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
            case .exhausted: return pause()
            }
        }
    }

    private enum Attempt {
        case took, nothing, exhausted
    }

    private func acceptOne() -> Attempt {
        let (endpoint, answer) = acceptNow()
        if answer >= 0 {
            patienceEnds = nil
            accepted(Int32(clamping: answer), endpoint)
            return .took
        }
        switch Int32(clamping: -answer) {
        case EAGAIN: return .nothing
        case EMFILE, ENFILE:
            let ends = patienceEnds ?? .inMilliseconds(patienceMilliseconds)
            patienceEnds = ends
            if ends.hasPassed { turnOneAwayWithSpare() }
            return .exhausted
        case ENOBUFS, ENOMEM: return .exhausted
        // Other errors belong to the connection being accepted (accept(2): treat them like EAGAIN and retry).
        default: return .took
        }
    }

    private func acceptNow() -> (Endpoint, Int) {
        Endpoint.filled { address, length in
            Syscalls.retried { loop.syscalls.accept(descriptor, address, &length) }
        }
    }

    /// A client that is accepted and closed learns at once that it failed; one left in the backlog waits for its
    /// timeout.
    private func turnOneAwayWithSpare() {
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
