internal import Sockets
internal import Synchronization

/// Limits the memory that the server holds for all clients together, and for each client. This memory consists of
/// bodies (as received and decompressed), incomplete requests, and responses that the peer has not read.
package final class BufferBudget: Sendable {
    let bytesMax: Int
    /// The maximum number of bytes held for one client. It is a sixteenth of `bytesMax`, so that a few clients cannot
    /// use all of the memory. It is at least 2 MiB, so that one long body fits, and at most `bytesMax`.
    let bytesPerClientMax: Int
    /// The maximum number of bytes held for unread responses: half of `bytesMax`. The other half stays available for
    /// requests, even if many clients do not read their responses.
    let outputBytesMax: Int
    private let bytes = Atomic<Int>(0)
    /// The bytes held for each client. A client is the owner of a credential, or an address. Bytes held for an
    /// unidentified client count only towards the total.
    private let clients = Mutex<[String: Int]>([:])
    private let outputs = Mutex(UnsentOutputs())
    private let dropped = Atomic<Int>(0)

    package init(bytesMax: Int) {
        self.bytesMax = bytesMax
        bytesPerClientMax = min(bytesMax, max(bytesMax / 16, 2 << 20))
        outputBytesMax = bytesMax / 2
    }

    /// Returns the client for a request without a credential: the IPv4 address, or the /64 network of the IPv6 address,
    /// because one host usually gets a whole /64. Returns nil for a Unix socket, which has no address.
    static func client(atAddress address: String) -> String? {
        IPAddress(address).map { "address:\($0.bytes.prefix(8))" }
    }

    var bytesHeld: Int { bytes.load(ordering: .relaxed) }

    /// The number of outputs that were dropped since the start. An output is dropped if it does not fit, or if its
    /// connection is closed to make room for other outputs.
    var outputsDropped: Int { dropped.load(ordering: .relaxed) }

    func bytesHeld(by client: String) -> Int { clients.withLock { $0[client] ?? 0 } }

    /// Reserves `count` bytes in the total and in the share of `client`; if `client` is nil, only in the total. Returns
    /// false and reserves nothing if the total would exceed `bytesMax`, or if the share would exceed
    /// `bytesPerClientMax`.
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

    /// Moves reserved bytes from the share of `client` to the share of `other`; the total stays the same. A nil client
    /// has no share. Returns false and moves nothing if the share of `other` would exceed `bytesPerClientMax`.
    func move(_ count: Int, from client: String?, to other: String?) -> Bool {
        if count == 0 { return true }
        return clients.withLock { clients in
            if let other {
                let held = (clients[other] ?? 0) + count
                guard held <= bytesPerClientMax else { return false }
                clients[other] = held
            }
            if let client {
                let held = (clients[client] ?? 0) - count
                clients[client] = held > 0 ? held : nil
            }
            return true
        }
    }

    /// Reserves `count` bytes for output that a peer has not read. If they do not fit, closes other connections with
    /// unread output to make room. The connection whose peer has read nothing for the longest time is closed first.
    ///
    /// If no other output is unread, an output may be larger than `outputBytesMax`. Without this exception, a server
    /// with a small budget could never send a large response.
    ///
    /// Returns the number of the reservation, which `giveOutput` needs. If dropping all other unread output would not
    /// make enough room, returns nil and reserves nothing.
    ///
    /// - Parameters:
    ///   - number: the number of this output's previous reservation; nil if there is none. The new reservation replaces
    ///     the previous one. If another call has removed the previous one to make room, the connection of this output
    ///     is being closed, and the result is nil.
    ///   - close: closes the connection of this output. It may be called on any thread.
    func takeOutput(
        _ count: Int, insteadOf number: UInt64?, close: @escaping @Sendable () -> Void
    ) -> UInt64? {
        let (taken, closed) = outputs.withLock { outputs -> (UInt64?, [UnsentOutputs.Output]) in
            if let number {
                guard let output = outputs.remove(number) else { return (nil, []) }
                bytes.subtract(output.bytes, ordering: .relaxed)
            }
            guard bytesHeld - outputs.bytes + count <= bytesMax else {
                dropped.add(1, ordering: .relaxed)
                return (nil, [])
            }
            var closed: [UnsentOutputs.Output] = []
            while !(outputs.isEmpty || outputs.bytes + count <= outputBytesMax) || !take(count, for: nil) {
                guard let output = outputs.removeFirst() else {
                    dropped.add(1, ordering: .relaxed)
                    return (nil, closed)
                }
                bytes.subtract(output.bytes, ordering: .relaxed)
                closed.append(output)
            }
            return (outputs.append(UnsentOutputs.Output(bytes: count, close: close)), closed)
        }
        dropped.add(closed.count, ordering: .relaxed)
        // Closing a connection may return its bytes to the budget at once, and returning bytes takes the lock. The lock
        // must therefore not be held here.
        for output in closed { output.close() }
        return taken
    }

    /// Returns the bytes of a reservation to the budget. Does nothing if `takeOutput` has already returned them to make
    /// room.
    func giveOutput(_ number: UInt64) {
        outputs.withLock { outputs in
            guard let output = outputs.remove(number) else { return }
            bytes.subtract(output.bytes, ordering: .relaxed)
        }
    }

    /// Reserves bytes until the returned object is deallocated. Returns nil if the bytes do not fit into the budget.
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
