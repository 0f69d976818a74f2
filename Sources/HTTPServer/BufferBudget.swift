internal import Synchronization

/// Memory that clients make the server hold, shared by all connections: bodies, requests that are not complete, and
/// answers that nobody takes. Each has a limit of its own; this bounds their sum.
final class BufferBudget: Sendable {
    let bytesMax: Int
    private let bytes = Atomic<Int>(0)

    init(bytesMax: Int) {
        self.bytesMax = bytesMax
    }

    var bytesHeld: Int { bytes.load(ordering: .relaxed) }

    /// False when there is no room; nothing was taken then.
    func take(_ count: Int) -> Bool {
        if bytes.add(count, ordering: .relaxed).newValue <= bytesMax { return true }
        give(count)
        return false
    }

    func give(_ count: Int) {
        bytes.subtract(count, ordering: .relaxed)
    }
}
