/// A driver's quota in one class of rate limits after a decision. It contains the values of the `RateLimit` fields.
package struct Quota: Hashable, Sendable {
    /// 0 when the limit is off.
    package var limit: Int
    package var windowSeconds: Int
    package var remaining: Int
    /// Milliseconds until `remaining` can next rise; 0 for an empty window. Usually it rises when the oldest charge
    /// leaves the window. If the window holds more charges than its limit, several charges must leave first.
    package var resetMilliseconds: Int64

    package init(limit: Int, windowSeconds: Int, remaining: Int, resetMilliseconds: Int64) {
        self.limit = limit
        self.windowSeconds = windowSeconds
        self.remaining = remaining
        self.resetMilliseconds = resetMilliseconds
    }

    /// Whether the limit is on and no further charge fits into the window.
    package var isExhausted: Bool { limit > 0 && remaining == 0 }

    /// Returns the quota after `count` charges were refunded. If the limit is off, returns this quota unchanged.
    package func refunding(_ count: Int) -> Quota {
        var quota = self
        quota.remaining = min(remaining + count, limit)
        if quota.remaining == limit { quota.resetMilliseconds = 0 }
        return quota
    }
}
