// The implementation of the port `Admission` that uses Redis. All processes share the rate limit windows in Redis. A
// script in Redis makes each decision in one round trip (contract, section 4).
//
// This process also records its own charges in windows in its memory. If Redis does not decide, these windows decide.
//
// This process decides at once if there is no connection, the breaker is open, or too many calls are waiting. It also
// decides if the connection is lost during a call, or if the reply is late, unexpected or an error.
//
// If Redis has lost data in a restart, a flush or a failover, this process corrects the decisions of Redis. The limiter
// throws no errors.
//
// A single Redis, or the primary behind sentinels, is one node that decides for all drivers. In a cluster, the node
// with the slot of a driver's keys decides for the driver. If one node fails, this process decides only for the drivers
// of that node.

package import JourneyModel
package import Logging
package import Sockets
internal import Synchronization

package final class RedisRateLimiter: Admission {
    package let limits: RateLimits
    private let timeoutMilliseconds: Int
    private let fallback: LocalRateLimiter
    private let keyedHash: @Sendable (String) -> String
    private let counts = RedisCounts()
    /// The node that decides for all drivers while `usesCluster` is false.
    private let sole: RedisNode
    private let cluster: RedisCluster
    /// Whether a server turned out to be a node of a cluster. Once true, it stays true.
    private let usesCluster = Atomic<Bool>(false)
    private let calls: RedisCalls

    /// How long Redis keeps the idempotency key of a repeated event after the latest repeat. A phone's queue retries
    /// within minutes. If Redis cannot be reached when a driver is deleted, the key remains at most this long.
    private static let storedSeconds = 3600

    /// The maximum number of drivers in `forgotten`. These drivers were deleted, but Redis has not yet confirmed the
    /// deletion of their keys.
    ///
    /// If `forgotten` is full or this process restarts, keys that Redis did not delete remain until they expire.
    /// Idempotency keys expire after `storedSeconds`, and each window expires with its last charge.
    private static let forgottenMax = 10_000
    private let forgotten = Mutex<Set<DriverID>>([])

    /// Creates the limiter without connecting. Until `run()` is called, the limiter in this process decides.
    ///
    /// - Parameters:
    ///   - timeoutMilliseconds: how long a request may wait for Redis; at least 1.
    ///   - fallback: the limiter in this process. Its limits are used for Redis too. No other `RedisRateLimiter` may
    ///     use the same limiter.
    ///   - keyedHash: hashes the idempotency key of a service's claim, because the key contains a driver's id. Redis
    ///     stores the hash under the service's id, so the driver's deletion does not remove it. All processes that use
    ///     this Redis must have the same function.
    package init(
        endpoint: RedisEndpoint, timeoutMilliseconds: Int = 50, fallback: LocalRateLimiter, loops: EventLoopGroup,
        keyedHash: @escaping @Sendable (String) -> String, logger: Logger
    ) {
        limits = fallback.limits
        let timeoutMilliseconds = max(timeoutMilliseconds, 1)
        self.timeoutMilliseconds = timeoutMilliseconds
        self.fallback = fallback
        self.keyedHash = keyedHash
        let health = RedisHealth(logger: logger, counts: counts, now: LocalRateLimiter.monotonicMilliseconds)
        sole = RedisNode(
            RedisSource(endpoint), endpoint, loops: loops, timeoutMilliseconds: timeoutMilliseconds, health)
        cluster = RedisCluster(
            endpoint, loops: loops, timeoutMilliseconds: timeoutMilliseconds, logger: logger, counts,
            discovery: health)
        calls = RedisCalls(fallback.limits, cluster, timeoutMilliseconds: timeoutMilliseconds)
    }

    /// Keeps one connection per loop and node until the task is cancelled. Must be called once, and must end before the
    /// loops shut down.
    package func run() async {
        await withTaskGroup { group in
            group.addTask {
                guard await self.sole.run() else { return }
                self.usesCluster.store(true, ordering: .releasing)
                await self.cluster.run()
            }
            group.addTask { await self.forgetAfterReconnect() }
        }
    }

    private func node(of driver: DriverID) -> RedisNode? {
        usesCluster.load(ordering: .acquiring) ? cluster.node(ofSlot: RedisKeys.slot(of: driver)) : sole
    }

    package nonisolated(nonsending) func admit(_ claim: AdmissionClaim) async -> AdmissionDecision {
        await admit([claim]).first ?? fallback.decide(claim)
    }

    package nonisolated(nonsending) func admit(_ claims: [AdmissionClaim]) async -> [AdmissionDecision] {
        let limited = claims.compactMap { limits.isOff($0.limitClass) ? nil : inRedis($0) }
        let askedAt = fallback.now()
        var answers = await ask(limited)[...]
        return claims.map { claim in
            if limits.isOff(claim.limitClass) { return limits.unlimited }
            guard let answer = answers.popFirst() ?? nil else {
                counts.decisionsInProcess.add(1, ordering: .relaxed)
                return fallback.decide(claim)
            }
            return settled(claim, answer.decision, askedAt: askedAt)
        }
    }

    /// Returns the quota of the window in this process. Redis is not called, so a request that is refused because of
    /// this quota does not wait for Redis.
    package func quota(of driver: DriverID, in limitClass: RateLimitClass) -> Quota {
        fallback.quota(of: driver, in: limitClass)
    }

    /// Records that an event is stored, so that its repeats are not charged. This process always records the
    /// idempotency key, but sends it to Redis only for a repeat.
    ///
    /// The key of a new event is in Redis already, as part of the event's charge, until the charge leaves the window.
    /// Sending the key of every new event would double the number of commands.
    ///
    /// For a repeat, the key is sent, because a phone that does not receive the responses probably repeats the event
    /// again.
    package func recordStored(_ claim: AdmissionClaim, isRepeat: Bool) {
        if limits.isOff(claim.limitClass) { return }
        fallback.recordStored(claim)
        guard isRepeat else { return }
        post(AdmissionScript.recordStored(inRedis(claim), forSeconds: Self.storedSeconds), of: claim.driver)
    }

    package func forceCharge(_ claim: AdmissionClaim) {
        if limits.isOff(claim.limitClass) { return }
        fallback.forceCharge(claim)
        post(AdmissionScript.forceCharge(inRedis(claim), limits), of: claim.driver)
    }

    /// Charges the window in this process and the window in Redis.
    ///
    /// The window in Redis also contains charges of other processes, and of this process before a restart. It may
    /// therefore be full before the window in this process. `quota` then reports a full window until the window in
    /// Redis resets.
    package func charge(_ claim: AdmissionClaim, times: Int) {
        if limits.isOff(claim.limitClass) { return }
        let times = min(times, limits.chargesMax(of: claim.limitClass))
        fallback.charge(claim, times: times)
        // Redis counts `quota.resetMilliseconds` from a time after `askedAt`. The time passed to `recordFull` is
        // therefore never later than the reset of the window in Redis.
        let askedAt = fallback.now()
        post(AdmissionScript.charge(inRedis(claim), times: times, limits), of: claim.driver) {
            [limits, fallback, driver = claim.driver, limitClass = claim.limitClass] replies in
            let quota = AdmissionScript.quotaAfterCharge(replies.first, limitClass, limits)
            guard let quota, quota.isExhausted else { return }
            fallback.recordFull(driver, in: limitClass, until: askedAt + quota.resetMilliseconds)
        }
    }

    /// Returns whether the window in this process has more charges than its limit. `charge` can cause this. Charges by
    /// other processes do not count.
    package func isOverdrawn(by driver: DriverID, in limitClass: RateLimitClass) -> Bool {
        fallback.isOverdrawn(by: driver, in: limitClass)
    }

    package func refund(_ claim: AdmissionClaim) {
        if limits.isOff(claim.limitClass) { return }
        fallback.refund(claim)
        removeCharge(of: claim)
    }

    private func removeCharge(of claim: AdmissionClaim) {
        let claim = inRedis(claim)
        post(RedisCommands("ZREM", RedisKeys.window(of: claim), claim.idempotencyKey), of: claim.driver)
    }

    /// Returns the claim with the idempotency key that Redis stores.
    private func inRedis(_ claim: AdmissionClaim) -> AdmissionClaim {
        guard claim.limitClass == .serviceEvents else { return claim }
        var claim = claim
        claim.idempotencyKey = keyedHash(claim.idempotencyKey)
        return claim
    }

    /// Removes the driver's windows in this process, and every key in Redis that contains the driver's id. Waits for
    /// Redis at most `timeoutMilliseconds`. If Redis does not reply, `run()` retries once a second.
    package func forget(_ driver: DriverID) async {
        await fallback.forget(driver)
        forgotten.withLock { if $0.count < Self.forgottenMax { _ = $0.insert(driver) } }
        await forgetNow(driver)
    }

    private func forgetAfterReconnect() async {
        while !Task.isCancelled {
            try? await Task.sleep(for: .seconds(1))
            // If the deletion of one driver's keys fails, the remaining drivers of the same node wait for the next
            // round.
            var failed: Set<ObjectIdentifier?> = []
            for driver in forgotten.withLock({ $0 }) {
                let node = node(of: driver).map { ObjectIdentifier($0) }
                if !failed.contains(node), await !forgetNow(driver) { failed.insert(node) }
            }
        }
    }

    @discardableResult
    private func forgetNow(_ driver: DriverID) async -> Bool {
        guard let serving = node(of: driver)?.serving() else { return false }
        var commands = RedisCommands()
        commands.append(["DEL"] + RedisKeys.all(of: driver))
        let replies = await serving.pipeline.call(commands, until: .inMilliseconds(timeoutMilliseconds))
        guard case .integer(_)? = replies?.first else {
            // The keys may be at another node now.
            if replies?.first?.isRedirect == true { cluster.requestRefresh() }
            return false
        }
        forgotten.withLock { _ = $0.remove(driver) }
        return true
    }

    /// The status for `/readyz` and `/metrics`. Counts begin at the start of the process.
    package var status: RedisStatus {
        RedisStatus(usesCluster.load(ordering: .acquiring) ? cluster.nodes : [sole], counts)
    }

    // MARK: - Asking

    /// Returns the answers of Redis to the claims, in the order of the claims. An element is nil if there is no valid
    /// answer. If the array is shorter than `claims`, the last answers are missing.
    private nonisolated(nonsending) func ask(_ claims: [AdmissionClaim]) async -> [AdmissionScript.Answer?] {
        guard let first = claims.first else { return [] }
        guard usesCluster.load(ordering: .acquiring) else { return await calls.ask(claims, sole) }
        if claims.allSatisfy({ $0.driver == first.driver }) {
            guard let node = node(of: first.driver) else { return [] }
            return await calls.ask(claims, node)
        }
        return await askSeveral(claims)
    }

    private nonisolated(nonsending) func askSeveral(_ claims: [AdmissionClaim]) async -> [AdmissionScript.Answer?] {
        var groups: [ObjectIdentifier: (node: RedisNode, indexes: [Int])] = [:]
        for (index, claim) in claims.enumerated() {
            guard let node = node(of: claim.driver) else { continue }
            groups[ObjectIdentifier(node), default: (node, [])].indexes.append(index)
        }
        return await withTaskGroup(of: [(Int, AdmissionScript.Answer?)].self) { tasks in
            for (node, indexes) in groups.values {
                tasks.addTask {
                    Array(zip(indexes, await self.calls.ask(indexes.map { claims[$0] }, node)))
                }
            }
            var answers = [AdmissionScript.Answer?](repeating: nil, count: claims.count)
            for await group in tasks {
                for (index, answer) in group { answers[index] = answer }
            }
            return answers
        }
    }

    private func settled(
        _ claim: AdmissionClaim, _ decision: AdmissionDecision, askedAt: Int64
    ) -> AdmissionDecision {
        counts.decisionsByRedis.add(1, ordering: .relaxed)
        let counted = fallback.reconcile(claim, with: decision, askedAt: askedAt)
        if counted.decision.verdict != decision.verdict { counts.decisionsCorrected.add(1, ordering: .relaxed) }
        if decision.verdict == .admitted && !counted.keepsCharge { removeCharge(of: claim) }
        return counted.decision
    }

    /// Sends commands without waiting. Drops them if there is no connection, or if too many commands are waiting.
    ///
    /// The commands may also be lost while the driver's slot moves to another node of a cluster. The window in Redis
    /// then lacks some charges, or keeps refunded charges until they expire. No event is lost or stored twice, because
    /// only the store decides which events are stored.
    ///
    /// - Parameter completion: called with the replies, if any arrive.
    private func post(
        _ commands: RedisCommands, of driver: DriverID, completion: RedisPipeline.Completion? = nil
    ) {
        node(of: driver)?.serving()?.pipeline.post(
            commands, until: .inMilliseconds(timeoutMilliseconds), completion: completion)
    }
}
