// The nodes of a Redis Cluster: which node makes the rate limit decisions for which slot. `run()` asks the cluster
// which primary has which slots, and keeps a connection to each primary. `run()` asks again when slots may have moved.

internal import Logging
internal import Sockets
internal import Synchronization

final class RedisCluster: Sendable {
    private struct Member {
        var address: SocketAddress
        var node: RedisNode
        /// Whether the node has slots. A node without slots is known only because another node redirected a request to
        /// it. It is dropped if no request was redirected to it for `strangerAge`.
        var hasSlots: Bool
        var lastRedirect: ContinuousClock.Instant?
    }

    private struct State {
        var members: [Member] = []
        /// For each slot, the index of its node in `members`.
        var owners = [UInt16?](repeating: nil, count: RedisSlots.count)
    }

    private let endpoint: RedisEndpoint
    private let loops: EventLoopGroup
    private let timeoutMilliseconds: Int
    private let logger: Logger
    private let counts: RedisCounts
    /// The health of the fetches of the slot map. A failed fetch counts as a failure only while no node is known.
    private let discovery: RedisHealth
    private let state = Mutex(State())
    private let isRefreshRequested = Atomic<Bool>(true)

    /// The pause between two rounds of the loop in `run()`.
    private static let tick = Duration.milliseconds(50)
    /// The minimum time between two fetches.
    private static let refreshMin = Duration.milliseconds(100)
    /// The time between two fetches while no node is known or a node has no connection. A node without a connection may
    /// have failed, and a promoted replica may have its slots.
    private static let refreshWhileLost = Duration.milliseconds(500)
    private static let refreshMax = Duration.seconds(30)
    private static let strangerAge = Duration.seconds(60)
    /// The maximum number of nodes, with and without slots.
    private static let membersMax = RedisSlotMap.primariesMax * 2

    init(
        _ endpoint: RedisEndpoint, loops: EventLoopGroup, timeoutMilliseconds: Int, logger: Logger,
        _ counts: RedisCounts, discovery: RedisHealth
    ) {
        self.endpoint = endpoint
        self.loops = loops
        self.timeoutMilliseconds = timeoutMilliseconds
        self.logger = logger
        self.counts = counts
        self.discovery = discovery
    }

    // MARK: - Requests

    func node(ofSlot slot: Int) -> RedisNode? {
        state.withLock { state in state.owners[slot].map { state.members[Int($0)].node } }
    }

    /// Records that the slot is now at `address`, as a node has replied (MOVED). Returns the node at `address`, which
    /// may not be connected yet. Returns nil if this node is unknown and `membersMax` nodes are already known.
    func moved(slot: Int, to address: SocketAddress) -> RedisNode? {
        requestRefresh()
        return state.withLock { state in
            guard let index = index(of: address, &state) else { return nil }
            state.owners[slot] = UInt16(index)
            state.members[index].hasSlots = true
            return state.members[index].node
        }
    }

    /// Returns the node at `address`, to which another node has redirected one request (ASK). Returns nil if this node
    /// is unknown and `membersMax` nodes are already known.
    func node(at address: SocketAddress) -> RedisNode? {
        state.withLock { state in index(of: address, &state).map { state.members[$0].node } }
    }

    /// Makes `run()` fetch the slots soon.
    func requestRefresh() {
        isRefreshRequested.store(true, ordering: .relaxed)
    }

    /// The nodes that have slots.
    var nodes: [RedisNode] {
        state.withLock { state in state.members.filter(\.hasSlots).map(\.node) }
    }

    /// Returns the index of the node at `address`. If the node is unknown, creates it, or returns nil if `membersMax`
    /// nodes are already known.
    private func index(of address: SocketAddress, _ state: inout State) -> Int? {
        let now = ContinuousClock.now
        if let index = state.members.firstIndex(where: { $0.address == address }) {
            state.members[index].lastRedirect = now
            return index
        }
        guard state.members.count < Self.membersMax else { return nil }
        state.members.append(
            Member(address: address, node: makeNode(address), hasSlots: false, lastRedirect: now))
        return state.members.count - 1
    }

    private func makeNode(_ address: SocketAddress) -> RedisNode {
        var logger = logger
        logger[metadataKey: "node"] = "\(address)"
        let health = RedisHealth(
            logger: logger, counts: counts, now: LocalRateLimiter.monotonicMilliseconds,
            slotsMayHaveMoved: { [weak self] in self?.requestRefresh() })
        return RedisNode(
            .clusterNode(address, probeTag: { [weak self] in self?.probeTag(of: address) }), endpoint, loops: loops,
            timeoutMilliseconds: timeoutMilliseconds, health)
    }

    /// Returns a hash tag whose slot belongs to the node at that address; nil if the node has no slot.
    private func probeTag(of address: SocketAddress) -> String? {
        let (owners, index) = state.withLock { state in
            (state.owners, state.members.firstIndex { $0.address == address && $0.hasSlots })
        }
        guard let index else { return nil }
        return RedisKeys.probeTag { owners[$0] == UInt16(index) }
    }

    // MARK: - Running

    /// Keeps the nodes connected until the task is cancelled.
    func run() async {
        var running: [(node: RedisNode, task: Task<Void, Never>)] = []
        var fetchedAt: ContinuousClock.Instant?
        while !Task.isCancelled {
            if isRefreshDue(since: fetchedAt) {
                await refresh()
                fetchedAt = .now
            }
            let nodes = state.withLock { $0.members.map(\.node) }
            for (index, run) in running.enumerated().reversed() where !nodes.contains(where: { $0 === run.node }) {
                run.task.cancel()
                await run.task.value
                running.remove(at: index)
            }
            for node in nodes where !running.contains(where: { $0.node === node }) {
                running.append((node, Task { _ = await node.run() }))
            }
            try? await Task.sleep(for: Self.tick)
        }
        for run in running { run.task.cancel() }
        for run in running { await run.task.value }
    }

    private func isRefreshDue(since fetchedAt: ContinuousClock.Instant?) -> Bool {
        guard let fetchedAt else { return true }
        let elapsed = ContinuousClock.now - fetchedAt
        if elapsed < Self.refreshMin { return false }
        if isRefreshRequested.load(ordering: .relaxed) || elapsed >= Self.refreshMax { return true }
        guard elapsed >= Self.refreshWhileLost else { return false }
        let nodes = nodes
        return nodes.isEmpty || nodes.contains { $0.health.connections == 0 }
    }

    private func refresh() async {
        isRefreshRequested.store(false, ordering: .relaxed)
        let known = state.withLock { $0.members.map(\.address) }.shuffled()
        do throws(RedisFailure) {
            let map = try await RedisClusterSlots.fetch(
                from: known + endpoint.servers.filter { !known.contains($0) }, endpoint, on: loops.loops[0])
            discovery.recordProbeSuccess()
            discovery.recordSuccess()
            adopt(map)
        } catch {
            if known.isEmpty { discovery.recordFailure(error) }
        }
    }

    /// Replaces the known nodes by the primaries of `map` and the nodes without slots that had a recent redirect. Nodes
    /// that stay keep their connections.
    private func adopt(_ map: RedisSlotMap) {
        let now = ContinuousClock.now
        let hasChanged = state.withLock { state in
            let old = state.members
            let strangers = old.filter { member in
                guard !map.primaries.contains(member.address), let at = member.lastRedirect else { return false }
                return now - at < Self.strangerAge
            }
            state.members = map.primaries.map { address in
                var member =
                    old.first { $0.address == address }
                    ?? Member(address: address, node: makeNode(address), hasSlots: true, lastRedirect: nil)
                member.hasSlots = true
                return member
            }
            // The elements of `map.owners` are indexes in `map.primaries`. They are also indexes in `members`, because
            // `members` begins with these primaries in the same order.
            state.owners = map.owners
            for var stranger in strangers where state.members.count < Self.membersMax {
                stranger.hasSlots = false
                state.members.append(stranger)
            }
            return Set(old.filter(\.hasSlots).map(\.address)) != Set(map.primaries)
        }
        if hasChanged {
            let primaries = map.primaries.map(\.description).sorted().joined(separator: ", ")
            logger.notice("Redis Cluster primaries changed", metadata: ["primaries": "\(primaries)"])
        }
    }
}
