// One listening socket on one loop: accepts in bounded batches, and survives running out of descriptors.

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// What becomes of an accepted socket is the business of `accepted`, which takes the descriptor over.
///
/// Safe to share: everything that changes is touched only on `loop`.
final class Listener: @unchecked Sendable {
    private let loop: EventLoop
    private let accepted: @Sendable (Int32, Endpoint) -> Void
    private var descriptor: Int32
    private var spare: Int32
    private var token: UInt64?
    private var timer: LoopTimer?
    /// When to stop hoping that descriptors come back; nil while there are any.
    private var patienceEnds: Deadline?
    private let patienceMilliseconds: Int
    private let isShared: Bool

    /// Accepted in one turn; the rest comes with the next one, after the connections had theirs.
    private static let acceptedPerTurnMax = 64
    /// The kernel's usual maximum of a backlog (net.core.somaxconn).
    private static let acceptedAtStopMax = 4096
    /// With no descriptor or memory left, asking again at once would only burn the processor.
    static let pauseMilliseconds = 100

    /// Takes the descriptor, which listens, over. `patienceMilliseconds`: without descriptors, who waits to be accepted
    /// is left waiting for so long, since others close; then one is turned away with every pause, rather than that
    /// all wait for time-outs of their own. 10 s is shorter than those. `isShared`: the socket stays open in another
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

    /// On the loop. What the kernel has accepted already is taken first: closing would reset it. Of a shared socket it
    /// is left to the next server.
    func stop() {
        if descriptor < 0 { return }
        if token != nil, !isShared { for _ in 0..<Listener.acceptedAtStopMax where acceptOne() != .took { break } }
        close()
    }

    private func close() {
        // A poller forgets a descriptor by itself only when nobody else has the socket open.
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
        // The rest belongs to the connection that was to be accepted (accept(2): treat them like EAGAIN and retry).
        default: return .took
        }
    }

    private func acceptNow() -> (Endpoint, Int) {
        Endpoint.filled { address, length in
            Syscalls.retried { loop.syscalls.accept(descriptor, address, &length) }
        }
    }

    /// A client that is accepted and closed knows where it stands; one left in the backlog waits for its timeout.
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
