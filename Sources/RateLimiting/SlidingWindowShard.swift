// One shard of a `LocalRateLimiter`. A shard decides the claims of some of the drivers (contract, section 4). One lock
// protects these drivers' windows and the idempotency keys of their stored events.

import Caching
import JourneyModel
import Synchronization

final class SlidingWindowShard: Sendable {
    private struct WindowID: Hashable, Sendable {
        var driver: HashedText
        var limitClass: RateLimitClass

        func hash(into hasher: inout Hasher) {
            hasher.combine(limitClass == .sessionEvents ? driver.hash.bits : ~driver.hash.bits)
        }
    }

    /// The charges of a window in this process, and what the other limiter (Redis) reported about the window.
    private struct Window: Sendable {
        var log = SlidingWindowLog()
        /// The other limiter reported the window as full until this time. A time in the past has no effect.
        var fullUntil = Int64.min
    }

    /// Identifies a stored event by hashes of its driver and idempotency key. If two events have the same hashes, one
    /// of them is not charged. No event is lost, because the store compares the keys themselves.
    private struct KnownKey: Hashable, Sendable {
        var driver: TextHash
        var idempotencyKey: TextHash

        init(_ claim: HashedClaim) {
            driver = claim.driver.hash
            idempotencyKey = claim.idempotencyKey
        }

        /// Combines the hashes by XOR, because both are uniformly distributed.
        func hash(into hasher: inout Hasher) { hasher.combine(driver.bits ^ idempotencyKey.bits) }
    }

    private struct State: Sendable {
        var windows: TwoGenerationCache<WindowID, Window>
        var knownKeys: TwoGenerationCache<KnownKey, Bool>
        /// The latest time that a caller has passed. Callers read the clock before they take the lock, so times may
        /// arrive out of order. A call with an earlier time uses `latest` instead.
        var latest = Int64.min
    }

    private let limits: RateLimits
    private let state: Mutex<State>

    init(limits: RateLimits, windowsMax: Int, knownKeysMax: Int, knownKeyAgeMilliseconds: Int64) {
        self.limits = limits
        state = Mutex(
            State(
                windows: TwoGenerationCache(generationCountMax: windowsMax, ageMilliseconds: limits.windowMilliseconds),
                knownKeys: TwoGenerationCache(
                    generationCountMax: knownKeysMax, ageMilliseconds: knownKeyAgeMilliseconds)))
    }

    func decide(_ claim: HashedClaim, at time: Int64) -> AdmissionDecision {
        withLog(of: claim, at: time) { window, isStored, now in
            let verdict: AdmissionDecision.Verdict
            if isStored || window.contains(claim.idempotencyKey) {
                verdict = .known
            } else if window.count >= limits.limit(of: claim.limitClass) {
                verdict = .refused
            } else {
                window.insert(claim.idempotencyKey, at: now)
                verdict = .admitted
            }
            return AdmissionDecision(verdict: verdict, quota: quota(claim, window, at: now))
        }
    }

    /// Returns the quota. Expired charges are not removed, and the call does not keep the window in the cache.
    func quota(of driver: HashedText, in limitClass: RateLimitClass, at time: Int64) -> Quota {
        state.withLock { state in
            let now = max(state.latest, time)
            guard let window = state.windows.peek(WindowID(driver: driver, limitClass: limitClass)) else {
                return limits.quota(of: limitClass, count: 0, oldestTime: nil, at: now)
            }
            let log = window.log
            let count = log.count(after: now - limits.windowMilliseconds)
            let expired = log.count - count
            var quota = quota(of: limitClass, count: count, oldestAt: { log.time(at: expired + $0) }, at: now)
            if window.fullUntil > now {
                let isFull = quota.remaining == 0
                let reset = window.fullUntil - now
                (quota.remaining, quota.resetMilliseconds) = (0, isFull ? max(quota.resetMilliseconds, reset) : reset)
            }
            return quota
        }
    }

    /// Records that the other limiter reports the window as full until `end`. Only `quota` uses this record. Does
    /// nothing if the window has no charges in this process.
    func recordFull(_ driver: HashedText, in limitClass: RateLimitClass, until end: Int64, at time: Int64) {
        let id = WindowID(driver: driver, limitClass: limitClass)
        state.withLock { state in
            state.latest = max(state.latest, time)
            guard state.windows.peek(id) != nil else { return }
            state.windows.withValue(id, initial: Window(), isKept: Self.isKept) { window in
                window.fullUntil = max(window.fullUntil, end)
            }
        }
    }

    /// Removes the driver's windows.
    func forget(_ driver: HashedText) {
        state.withLock { state in
            for limitClass in RateLimitClass.allCases {
                state.windows.remove(WindowID(driver: driver, limitClass: limitClass))
            }
        }
    }

    func recordStored(_ claim: HashedClaim, at time: Int64) {
        state.withLock { state in
            state.latest = max(state.latest, time)
            state.knownKeys.expire(at: state.latest)
            state.knownKeys.insert(true, for: KnownKey(claim))
        }
    }

    /// Charges the claim, even beyond the limit.
    func charge(_ claim: HashedClaim, at time: Int64) {
        withLog(of: claim, at: time) { window, _, now in
            _ = window.insert(claim.idempotencyKey, at: now)
        }
    }

    /// Charges several claims of one window. Charges beyond the limit get evenly spaced times in the future, so that
    /// they expire at the rate of the limit.
    func overdraw(_ claims: [HashedClaim], at time: Int64) {
        guard let first = claims.first else { return }
        let limit = limits.limit(of: first.limitClass)
        withLog(of: first, at: time) { window, _, now in
            for claim in claims.prefix(max(0, limit + RateLimits.overdraftMax - window.count)) {
                let beyond = Int64(max(window.count + 1 - limit, 0))
                window.insert(claim.idempotencyKey, at: now + beyond * limits.windowMilliseconds / Int64(limit))
            }
        }
    }

    func isOverdrawn(_ claim: HashedClaim, at time: Int64) -> Bool {
        withLog(of: claim, at: time) { window, _, _ in window.count > limits.limit(of: claim.limitClass) }
    }

    func refund(_ claim: HashedClaim, at time: Int64) {
        withWindow(of: claim, at: time) { window, _, _ in
            if window.log.remove(claim.idempotencyKey) { window.fullUntil = .min }
        }
    }

    func reconcile(
        _ claim: HashedClaim, with decision: AdmissionDecision, askedAt: Int64, at time: Int64
    ) -> ReconciledCount {
        withLog(of: claim, at: time) { window, isStored, now in
            switch decision.verdict {
            case .known:
                return ReconciledCount(decision: decision, keepsCharge: false)
            case .refused:
                let isKnown = isStored || window.contains(claim.idempotencyKey)
                return ReconciledCount(
                    decision: AdmissionDecision(verdict: isKnown ? .known : .refused, quota: decision.quota),
                    keepsCharge: false)
            case .admitted where isStored:
                let quota = tighter(decision.quota.refunding(1), claim, window, at: now)
                return ReconciledCount(decision: AdmissionDecision(verdict: .known, quota: quota), keepsCharge: false)
            case .admitted:
                return charge(claim, decision.quota, in: &window, askedAt: askedAt, at: now)
            }
        }
    }

    /// Adds a charge to this window for a claim that the other limiter has admitted. If this window already contains
    /// the key, adds nothing and returns `.known`.
    ///
    /// If `minimumCount` has reached the limit, the other limiter has lost charges, so the claim is refused. If only
    /// `window.count` has reached the limit, the oldest charge is about to expire, and is removed to make room.
    private func charge(
        _ claim: HashedClaim, _ theirs: Quota, in window: inout SlidingWindowLog, askedAt: Int64, at now: Int64
    ) -> ReconciledCount {
        let limit = limits.limit(of: claim.limitClass)
        if window.contains(claim.idempotencyKey) {
            let quota = tighter(theirs, claim, window, at: now)
            return ReconciledCount(decision: AdmissionDecision(verdict: .known, quota: quota), keepsCharge: true)
        }
        if minimumCount(window, at: now) >= limit {
            let quota = quota(claim, window, at: now)
            return ReconciledCount(decision: AdmissionDecision(verdict: .refused, quota: quota), keepsCharge: false)
        }
        if window.count >= limit { window.removeOldest() }
        window.insert(claim.idempotencyKey, at: min(askedAt, now))
        let quota = tighter(theirs, claim, window, at: now)
        return ReconciledCount(decision: AdmissionDecision(verdict: .admitted, quota: quota), keepsCharge: true)
    }

    /// Returns the lowest number of charges that the other limiter can have if it has lost none. Does not count charges
    /// that expire within a tolerance of 2 ms plus a hundredth of the window's length, because the other limiter's
    /// clock may be ahead.
    ///
    /// Two clocks differ by far less than this tolerance. They differ by 500 ppm while NTP slews them (adjtimex(2)),
    /// and by the rounding to milliseconds.
    private func minimumCount(_ window: SlidingWindowLog, at now: Int64) -> Int {
        let length = limits.windowMilliseconds
        return window.count(after: now - length + length / 100 + 2)
    }

    /// Returns the other limiter's quota, or this window's quota if the other limiter has evidently lost charges.
    private func tighter(_ quota: Quota, _ claim: HashedClaim, _ window: SlidingWindowLog, at now: Int64) -> Quota {
        let remaining = limits.limit(of: claim.limitClass) - minimumCount(window, at: now)
        return remaining < quota.remaining ? self.quota(claim, window, at: now) : quota
    }

    private func quota(_ claim: HashedClaim, _ window: SlidingWindowLog, at now: Int64) -> Quota {
        quota(of: claim.limitClass, count: window.count, oldestAt: window.time(at:), at: now)
    }

    private func quota(
        of limitClass: RateLimitClass, count: Int, oldestAt time: (_ index: Int) -> Int64?, at now: Int64
    ) -> Quota {
        // A new charge fits as soon as the charge at this index has expired. All older charges expire before it.
        let index = max(count - limits.limit(of: limitClass), 0)
        return limits.quota(of: limitClass, count: count, oldestTime: time(index), at: now)
    }

    private static func isKept(_ window: Window) -> Bool { window.log.count > 0 }

    /// Removes the expired charges of the claim's window, and then calls `body` with the other charges. The lock is
    /// held during the call.
    private func withLog<Answer: Sendable>(
        of claim: HashedClaim, at time: Int64, _ body: (inout SlidingWindowLog, _ isStored: Bool, Int64) -> Answer
    ) -> Answer {
        withWindow(of: claim, at: time) { window, isStored, now in body(&window.log, isStored, now) }
    }

    /// Like `withLog`, but calls `body` with the whole window.
    private func withWindow<Answer: Sendable>(
        of claim: HashedClaim, at time: Int64, _ body: (inout Window, _ isStored: Bool, Int64) -> Answer
    ) -> Answer {
        state.withLock { state in
            let now = max(state.latest, time)
            state.latest = now
            state.windows.expire(at: now) { $0.log.latestTime ?? now > now }
            state.knownKeys.expire(at: now)
            let isStored = state.knownKeys.peek(KnownKey(claim)) != nil
            return state.windows.withValue(
                WindowID(driver: claim.driver, limitClass: claim.limitClass), initial: Window(), isKept: Self.isKept
            ) { window in
                window.log.removeCharges(through: now - limits.windowMilliseconds)
                return body(&window, isStored, now)
            }
        }
    }
}

/// The hashes of a claim's texts. Each text is hashed only once.
struct HashedClaim: Sendable {
    let driver: HashedText
    let limitClass: RateLimitClass
    let idempotencyKey: TextHash

    init(_ claim: AdmissionClaim) {
        driver = HashedText(claim.driver.rawValue)
        limitClass = claim.limitClass
        idempotencyKey = TextHash(claim.idempotencyKey)
    }
}
