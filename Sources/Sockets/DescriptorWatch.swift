// Watches a descriptor that a C library owns. The loop only reports that the descriptor is ready. The library reads and
// writes.

/// Safe to share: all mutable state is touched only on the loop. All functions must be called on the loop.
package final class DescriptorWatch: @unchecked Sendable {
    package enum Event: Sendable {
        /// The descriptor became readable or writable, or the peer is gone. A change is reported only once. The owner
        /// must therefore read until a read would block, and write until a write would block.
        case ready
        /// The deadline that was set last has passed.
        case timedOut
        /// The loop ends. No other event follows.
        case loopShutsDown
    }

    private let loop: EventLoop
    private let descriptor: Int32
    private var token: UInt64?
    private var timer: LoopTimer?
    private var owner: ((Event) -> Void)?
    private var continues = false

    /// Calls the closure on the loop for each event until `end` is called. The loop retains the watch and the closure
    /// until then. A descriptor that is already ready is reported in the following round.
    package init(
        _ descriptor: Int32, on loop: EventLoop, _ owner: @escaping (Event) -> Void
    ) throws(TransportError) {
        self.loop = loop
        self.descriptor = descriptor
        self.owner = owner
        token = try loop.add(descriptor, .connection) { self.happened($0) }
    }

    private func happened(_ event: DescriptorEvent) {
        switch event {
        case .ready: owner?(.ready)
        case .loopShutsDown: owner?(.loopShutsDown)
        }
    }

    /// Requests a `.timedOut` at the deadline. Replaces the previous deadline.
    package func setDeadline(_ deadline: Deadline) {
        if token == nil || timer == nil && deadline == .never { return }
        let timer = timer ?? LoopTimer { self.owner?(.timedOut) }
        self.timer = timer
        if deadline == .never { loop.stop(timer) } else { loop.start(timer, deadline) }
    }

    /// Requests one `.ready` after the loop's other descriptors have been handled.
    package func continueInNextRound() {
        if continues { return }
        continues = true
        loop.nextRound { [self] in
            continues = false
            owner?(.ready)
        }
    }

    /// Ends the watch. A second call does nothing.
    ///
    /// The library must close the descriptor in the same round of the loop, before or after this call. Only closing
    /// removes the descriptor from the poller.
    package func end() {
        guard let token else { return }
        self.token = nil
        loop.remove(token, descriptor, stillOpen: false)
        if let timer { loop.remove(timer) }
        timer = nil
        owner = nil
    }
}
