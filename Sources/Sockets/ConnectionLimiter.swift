internal import Synchronization

/// Limits on open connections.
package struct ConnectionLimits: Hashable, Sendable {
    /// The maximum number of connections served at the same time, at least 1.
    package var connectionsMax: Int
    /// The maximum number of connections served from one address at the same time; 0 turns the limit off. Unix sockets
    /// are not counted. Behind a proxy, use 0, because all connections have the proxy's address.
    ///
    /// An IPv6 /64 network counts as one address, because one host usually gets a whole /64.
    package var connectionsPerAddressMax: Int

    package init(connectionsMax: Int = 10_000, connectionsPerAddressMax: Int = 0) {
        self.connectionsMax = max(1, connectionsMax)
        self.connectionsPerAddressMax = max(0, connectionsPerAddressMax)
    }
}

/// Counts of connections.
package struct ConnectionCounts: Hashable, Sendable {
    /// The open connections, including those that are being rejected.
    package var open = 0
    /// The connections served since the start.
    package var served = 0
    package var rejected = 0
}

/// Limits the connections of all listeners that share the limiter, on all loops.
package final class ConnectionLimiter: Sendable {
    enum Admission: Equatable {
        case served
        case rejected(RejectedConnection)
        /// The connection is closed without a response, because too many others are being rejected. It does not count
        /// as open.
        case closedUnanswered
    }

    private struct Counts {
        var served = 0
        var rejected = 0
        var byAddress: [[UInt8]: Int] = [:]
        var ever = ConnectionCounts()
    }
    private let limits: ConnectionLimits
    private let counts = Mutex(Counts())
    /// The maximum number of connections that are rejected with a response at the same time. Each of them needs a
    /// descriptor. Further connections are closed without a response.
    private static let rejectedMax = 64

    package init(_ limits: ConnectionLimits) {
        self.limits = limits
    }

    package var connections: ConnectionCounts {
        counts.withLock { counts in
            var connections = counts.ever
            connections.open = counts.served + counts.rejected
            return connections
        }
    }

    func enter(_ endpoint: Endpoint) -> Admission {
        let address = countedAddress(endpoint)
        return counts.withLock { counts in
            guard let reason = objection(address, counts) else {
                counts.served += 1
                counts.ever.served += 1
                if let address { counts.byAddress[address, default: 0] += 1 }
                return .served
            }
            counts.ever.rejected += 1
            if counts.rejected >= ConnectionLimiter.rejectedMax { return .closedUnanswered }
            counts.rejected += 1
            return .rejected(reason)
        }
    }

    /// Ends the counting of a connection. Must be called once for each connection, with the result of `enter`. For
    /// `.closedUnanswered`, the call has no effect and may be omitted.
    func leave(_ endpoint: Endpoint, _ admission: Admission) {
        let address = countedAddress(endpoint)
        counts.withLock { counts in
            switch admission {
            case .closedUnanswered: break
            case .rejected: counts.rejected -= 1
            case .served:
                counts.served -= 1
                guard let address, let count = counts.byAddress[address] else { return }
                counts.byAddress[address] = count > 1 ? count - 1 : nil
            }
        }
    }

    private func objection(_ address: [UInt8]?, _ counts: Counts) -> RejectedConnection? {
        if counts.served >= limits.connectionsMax { return .connectionsMax }
        guard let address else { return nil }
        let count = counts.byAddress[address, default: 0]
        return count >= limits.connectionsPerAddressMax ? .connectionsPerAddressMax : nil
    }

    private func countedAddress(_ endpoint: Endpoint) -> [UInt8]? {
        if limits.connectionsPerAddressMax == 0 { return nil }
        return IPAddress(endpoint).map { Array($0.bytes.prefix(8)) }
    }
}
