internal import Synchronization

/// Memory for request bodies, shared by all connections: each route's limit bounds one body, this bounds their sum.
final class BodyBudget: Sendable {
    private let bytesMax: Int
    private let bytes = Atomic<Int>(0)

    init(bytesMax: Int) {
        self.bytesMax = bytesMax
    }

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
