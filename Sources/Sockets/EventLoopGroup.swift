internal import Synchronization

/// The event loops of a process.
package final class EventLoopGroup: Sendable {
    /// The loops; at least one.
    package let loops: [EventLoop]
    private let turn = Atomic<Int>(0)

    /// Creates `count` loops, but at least one. Throws if the system cannot create the descriptors of a poller.
    package init(count: Int, syscalls: Syscalls = .system) throws(TransportError) {
        var pollers: [Poller] = []
        do throws(TransportError) {
            for _ in 0..<max(1, count) { pollers.append(try Poller(syscalls)) }
        } catch {
            for poller in pollers { poller.close() }
            throw error
        }
        loops = pollers.enumerated().map { EventLoop(index: $0.offset, poller: $0.element, syscalls: syscalls) }
    }

    /// Returns the next loop in rotation.
    package func next() -> EventLoop {
        let number = turn.wrappingAdd(1, ordering: .relaxed).oldValue
        return loops[Int(UInt(bitPattern: number) % UInt(loops.count))]
    }

    /// Shuts down all loops (`EventLoop.shutdown`). A second call does nothing.
    package func shutdown() async {
        for loop in loops { await loop.shutdown() }
    }
}
