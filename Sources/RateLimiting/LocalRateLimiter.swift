// The rate limiter of one process: the algorithm of contract, section 4, in memory. Without Redis, this limiter makes
// all decisions. With Redis, its windows contain copies of this process's charges, so that this limiter can take over
// when Redis fails.

package import JourneyModel

/// An exact sliding window log for each driver and class, in bounded memory. It may be used from any thread and never
/// suspends.
///
/// Old entries are evicted to limit the memory. An evicted window counts as empty, so an eviction never makes a
/// driver's quota smaller. If a stored event's key was evicted, a repeat of the event is charged. The charge is
/// refunded when the store recognises the repeat.
package final class LocalRateLimiter: Admission {
    /// The bounds of the memory, for all shards together.
    package struct Capacity: Sendable {
        /// The maximum number of windows in one generation of the cache (TwoGenerationCache.swift). One database writer
        /// serves far fewer than 20 000 drivers at once. In the worst case, both generations together hold 40 000
        /// windows of 60 charges, with 16 bytes per charge.
        package var windowsMax = 20_000
        /// The maximum number of idempotency keys of stored events in one generation of the cache. This number is
        /// enough, because a phone's retry queue repeats an event within minutes.
        package var knownKeysMax = 65_536
        /// How long the idempotency keys of stored events are kept, if there is room. The time is long enough for a
        /// phone that is offline for half a day.
        package var knownKeyAgeMilliseconds: Int64 = 12 * 3_600_000

        package init() {}
    }

    package let limits: RateLimits
    private let clock: @Sendable () -> Int64
    private let shards: [SlidingWindowShard]

    /// - Parameter clock: monotonic milliseconds, from any origin.
    package init(
        limits: RateLimits, capacity: Capacity = Capacity(),
        clock: @escaping @Sendable () -> Int64 = LocalRateLimiter.monotonicMilliseconds
    ) {
        self.limits = limits
        self.clock = clock
        shards = (0..<Self.shardCount).map { _ in
            SlidingWindowShard(
                limits: limits, windowsMax: capacity.windowsMax / Self.shardCount,
                knownKeysMax: capacity.knownKeysMax / Self.shardCount,
                knownKeyAgeMilliseconds: capacity.knownKeyAgeMilliseconds)
        }
    }

    /// Milliseconds since the first call in this process. Changes of the wall clock do not affect it.
    package static let monotonicMilliseconds: @Sendable () -> Int64 = {
        let (seconds, attoseconds) = (ContinuousClock.now - origin).components
        return seconds &* 1000 &+ attoseconds / 1_000_000_000_000_000
    }

    private static let origin = ContinuousClock.now
    /// The number of shards. With several shards, the event loops compete less for locks.
    private static let shardCount = 8

    package nonisolated(nonsending) func admit(_ claim: AdmissionClaim) async -> AdmissionDecision { decide(claim) }

    package nonisolated(nonsending) func admit(_ claims: [AdmissionClaim]) async -> [AdmissionDecision] {
        claims.map(decide)
    }

    /// Decides like `admit`, for callers that are not asynchronous.
    package func decide(_ claim: AdmissionClaim) -> AdmissionDecision {
        if limits.isOff(claim.limitClass) { return limits.unlimited }
        let claim = HashedClaim(claim)
        return shard(of: claim).decide(claim, at: clock())
    }

    package func quota(of driver: DriverID, in limitClass: RateLimitClass) -> Quota {
        if limits.isOff(limitClass) { return limits.unlimited.quota }
        let driver = HashedText(driver.rawValue)
        return shard(of: driver).quota(of: driver, in: limitClass, at: clock())
    }

    package func recordStored(_ claim: AdmissionClaim, isRepeat: Bool = false) {
        if limits.isOff(claim.limitClass) { return }
        let claim = HashedClaim(claim)
        shard(of: claim).recordStored(claim, at: clock())
    }

    package func forceCharge(_ claim: AdmissionClaim) {
        if limits.isOff(claim.limitClass) { return }
        let claim = HashedClaim(claim.afterwards)
        shard(of: claim).charge(claim, at: clock())
    }

    package func refund(_ claim: AdmissionClaim) {
        if limits.isOff(claim.limitClass) { return }
        let claim = HashedClaim(claim)
        shard(of: claim).refund(claim, at: clock())
    }

    package func charge(_ claim: AdmissionClaim, times: Int) {
        if limits.isOff(claim.limitClass) { return }
        let claims = (0..<min(times, limits.chargesMax(of: claim.limitClass))).map { HashedClaim(claim.repeated($0)) }
        if let first = claims.first { shard(of: first).overdraw(claims, at: clock()) }
    }

    package func isOverdrawn(by driver: DriverID, in limitClass: RateLimitClass) -> Bool {
        if limits.isOff(limitClass) { return false }
        let claim = HashedClaim(AdmissionClaim(driver: driver, limitClass: limitClass, idempotencyKey: ""))
        return shard(of: claim).isOverdrawn(claim, at: clock())
    }

    /// Removes the driver's windows. The hashed idempotency keys of the driver's stored events remain until they
    /// expire. They identify no one, because only this process has the random seed of the hash.
    package func forget(_ driver: DriverID) async {
        let driver = HashedText(driver.rawValue)
        shard(of: driver).forget(driver)
    }

    /// Makes `quota` report a full window until `end`, because another limiter (Redis) counts the window as full.
    /// Decisions are not affected. Does nothing if the window has no charges in this process.
    package func recordFull(_ driver: DriverID, in limitClass: RateLimitClass, until end: Int64) {
        if limits.isOff(limitClass) { return }
        let driver = HashedText(driver.rawValue)
        shard(of: driver).recordFull(driver, in: limitClass, until: end, at: clock())
    }

    /// Returns the current time on this limiter's clock.
    package func now() -> Int64 { clock() }

    /// Mirrors a decision of another limiter (Redis) in this process's window, and returns the decision. If this window
    /// shows that Redis has lost charges, returns a corrected decision.
    ///
    /// Redis loses charges in a flush, or in a restart without its data. It also lacks charges that were made while
    /// this process could not reach it.
    ///
    /// - Parameter askedAt: the time on this limiter's clock before Redis was called. This limiter's charge gets this
    ///   time, so it expires no later than the charge in Redis.
    package func reconcile(
        _ claim: AdmissionClaim, with decision: AdmissionDecision, askedAt: Int64
    ) -> ReconciledCount {
        if limits.isOff(claim.limitClass) { return ReconciledCount(decision: decision, keepsCharge: false) }
        let claim = HashedClaim(claim)
        return shard(of: claim).reconcile(claim, with: decision, askedAt: askedAt, at: clock())
    }

    private func shard(of claim: HashedClaim) -> SlidingWindowShard { shard(of: claim.driver) }

    private func shard(of driver: HashedText) -> SlidingWindowShard {
        // The upper half of the hash chooses the shard. The tables in a shard choose their buckets by other bits.
        shards[Int(UInt(bitPattern: driver.hash.bits) >> 32 % UInt(shards.count))]
    }
}

/// A decision of another limiter, corrected by this process.
package struct ReconciledCount: Hashable, Sendable {
    package var decision: AdmissionDecision
    /// False if the other limiter must refund its charge for the claim. Has no meaning if the other limiter made no
    /// charge.
    package var keepsCharge: Bool

    package init(decision: AdmissionDecision, keepsCharge: Bool) {
        self.decision = decision
        self.keepsCharge = keepsCharge
    }
}
