internal import Synchronization

/// Memory that clients make the server hold, shared by all connections: bodies, requests that are not complete, and
/// answers that nobody takes. Each has a limit of its own; this bounds their sum, and the part of it that one client may
/// have.
final class BufferBudget: Sendable {
    let bytesMax: Int
    /// Of one client: a sixteenth, so that a few of them leave room for everybody else; at least one long body fits.
    let bytesPerClientMax: Int
    private let bytes = Atomic<Int>(0)
    /// Of those who hold something; clients without a name share nothing but the sum.
    private let clients = Mutex<[String: Int]>([:])

    init(bytesMax: Int) {
        self.bytesMax = bytesMax
        bytesPerClientMax = min(bytesMax, max(bytesMax / 16, 2 << 20))
    }

    var bytesHeld: Int { bytes.load(ordering: .relaxed) }

    func bytesHeld(by client: String) -> Int { clients.withLock { $0[client] ?? 0 } }

    /// False when there is no room; nothing was taken then. `client`: whose part of the sum it is.
    func take(_ count: Int, for client: String?) -> Bool {
        guard bytes.add(count, ordering: .relaxed).newValue <= bytesMax else {
            bytes.subtract(count, ordering: .relaxed)
            return false
        }
        guard let client else { return true }
        let fits = clients.withLock { clients in
            let held = (clients[client] ?? 0) + count
            guard held <= bytesPerClientMax else { return false }
            clients[client] = held
            return true
        }
        if !fits { bytes.subtract(count, ordering: .relaxed) }
        return fits
    }

    func give(_ count: Int, for client: String?) {
        bytes.subtract(count, ordering: .relaxed)
        guard let client else { return }
        clients.withLock { clients in
            let held = (clients[client] ?? 0) - count
            clients[client] = held > 0 ? held : nil
        }
    }
}
