internal import Synchronization

/// A limit on the memory that the server holds for clients, over all connections. It covers bodies (in the received and
/// in the decompressed form), incomplete requests, and responses that the peer has not read. Each body, request and
/// response also has its own limit. The budget limits the total of all clients, and the share of each client.
package final class BufferBudget: Sendable {
    let bytesMax: Int
    /// The maximum number of bytes held for one client. It is a sixteenth of `bytesMax`, so that a few clients cannot
    /// use all of the memory. It is at least 2 MiB, so that one long body fits, but never more than `bytesMax`.
    let bytesPerClientMax: Int
    private let bytes = Atomic<Int>(0)
    /// The bytes held for each client; a client without held bytes has no entry. Bytes held for an unidentified client
    /// count only towards the total.
    private let clients = Mutex<[String: Int]>([:])

    package init(bytesMax: Int) {
        self.bytesMax = bytesMax
        bytesPerClientMax = min(bytesMax, max(bytesMax / 16, 2 << 20))
    }

    var bytesHeld: Int { bytes.load(ordering: .relaxed) }

    func bytesHeld(by client: String) -> Int { clients.withLock { $0[client] ?? 0 } }

    /// Reserves `count` bytes. They count towards the total and towards the share of `client`. Returns false and
    /// reserves nothing if the total would exceed `bytesMax`, or if the share would exceed `bytesPerClientMax`.
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

    /// Reserves bytes, like `take`, until the returned object is deallocated. Returns nil if the bytes do not fit into
    /// the budget.
    package func reserve(_ count: Int, for client: String) -> BufferReservation? {
        take(count, for: client) ? BufferReservation(count, for: client, of: self) : nil
    }
}

/// Reserved bytes of a budget. They return to the budget when the reservation is deallocated.
package final class BufferReservation: Sendable {
    private let count: Int
    private let client: String
    private let budget: BufferBudget

    fileprivate init(_ count: Int, for client: String, of budget: BufferBudget) {
        (self.count, self.client, self.budget) = (count, client, budget)
    }

    deinit { budget.give(count, for: client) }
}
