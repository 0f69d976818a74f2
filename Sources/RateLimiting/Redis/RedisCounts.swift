// What a process has counted since its start, over all its connections to Redis: decisions, timeouts and error replies.

internal import Synchronization

final class RedisCounts: Sendable {
    let decisionsByRedis = Atomic<Int>(0)
    let decisionsInProcess = Atomic<Int>(0)
    let decisionsCorrected = Atomic<Int>(0)
    let timeouts = Atomic<Int>(0)
    let errorReplies = Atomic<Int>(0)
}

/// The state of the process's Redis connections.
package struct RedisStatus: Hashable, Sendable {
    /// Connections that passed their probe; at most one per loop and node.
    package var connections: Int
    /// The number of servers that decide: in a cluster the number of primaries with slots, otherwise 1.
    package var nodes: Int
    /// The number of these servers with at least one connection.
    package var nodesConnected: Int
    /// `.closed` if the circuit breakers of all nodes are closed, and `.open` if no node is known. In all other cases,
    /// the state of the first breaker that is not closed.
    package var breaker: CircuitBreaker.State
    package var decisionsByRedis: Int
    /// Decisions that the limiter in this process made, because Redis was not called or sent no valid reply.
    package var decisionsInProcess: Int
    /// The decisions by Redis that this process corrected.
    package var decisionsCorrected: Int
    /// Connections that were closed, or could not be opened, because Redis did not reply in time.
    package var timeouts: Int
    package var errorReplies: Int

    package var isConnected: Bool { nodesConnected > 0 }

    init(_ nodes: [RedisNode], _ counts: RedisCounts) {
        let healths = nodes.map(\.health)
        let connectionCounts = healths.map(\.connections)
        connections = connectionCounts.reduce(0, +)
        self.nodes = nodes.count
        nodesConnected = connectionCounts.count { $0 > 0 }
        breaker = nodes.isEmpty ? .open : healths.lazy.map(\.state).first { $0 != .closed } ?? .closed
        decisionsByRedis = counts.decisionsByRedis.load(ordering: .relaxed)
        decisionsInProcess = counts.decisionsInProcess.load(ordering: .relaxed)
        decisionsCorrected = counts.decisionsCorrected.load(ordering: .relaxed)
        timeouts = counts.timeouts.load(ordering: .relaxed)
        errorReplies = counts.errorReplies.load(ordering: .relaxed)
    }
}
