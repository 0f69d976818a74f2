// The arithmetic shared by both windows, the one in the process and the one in Redis.

extension RateLimits {
    /// 1 second to 366 days, whatever is configured: no sum with a time in milliseconds can overflow.
    package var windowMilliseconds: Int64 { Int64(min(max(windowSeconds, 1), 366 * 86_400)) * 1000 }

    /// A limit of 0 or below is off.
    package func isOff(_ limitClass: RateLimitClass) -> Bool { limit(of: limitClass) <= 0 }

    /// The decision of a limit that is off: always admitted, nothing stored.
    package var unlimited: AdmissionDecision {
        AdmissionDecision(
            verdict: .admitted,
            quota: Quota(limit: 0, windowSeconds: windowSeconds, remaining: 0, resetMilliseconds: 0))
    }

    /// The quota of a limit with `count` charges in its window, the oldest made at `oldestTime`.
    package func quota(
        of limitClass: RateLimitClass, count: Int, oldestTime: Int64?, at now: Int64
    ) -> Quota {
        let limit = limit(of: limitClass)
        let reset = oldestTime.map { max($0 + windowMilliseconds - now, 0) } ?? 0
        return Quota(
            limit: limit, windowSeconds: windowSeconds, remaining: max(limit - count, 0), resetMilliseconds: reset)
    }
}
