// Remembers what a driver's events have shown about the phone's clock (contract, section 3, "Clocks"). Computes the
// correction of the next event. The memory is small, because it is stored in the driver's row.

/// What the events received from a driver so far have shown about the phone's clock.
public struct ClockMemory: Hashable, Sendable {
    /// A skew (receive time minus send time) that was computed from a `timestamp`. The skew was not used as a
    /// correction, because no other event confirmed it.
    public struct LoneSkew: Hashable, Sendable {
        public var skewMilliseconds: Int64
        /// When the first event with this skew was received.
        public var receivedAt: Moment
        /// 1 for one event with this skew, 2 for two or more. Skews that differ by at most 2 s count as equal, because
        /// times in whole seconds are not more precise.
        public var count: UInt8

        public init(skewMilliseconds: Int64, receivedAt: Moment, count: UInt8) {
            self.skewMilliseconds = skewMilliseconds
            self.receivedAt = receivedAt
            self.count = count
        }
    }

    /// The most recent correction that was not zero. Nil if there was none.
    public var lastCorrectionMilliseconds: Int64?
    /// Whether at least one event showed that the clock is right, within the tolerance.
    public var sawRightClock: Bool
    /// The unconfirmed skews, oldest first, at most `loneSkewsMax`.
    public var loneSkews: [LoneSkew]

    public static let loneSkewsMax = 4

    public init(
        lastCorrectionMilliseconds: Int64? = nil, sawRightClock: Bool = false, loneSkews: [LoneSkew] = []
    ) {
        self.lastCorrectionMilliseconds = lastCorrectionMilliseconds
        self.sawRightClock = sawRightClock
        self.loneSkews = loneSkews
    }

    /// The maximum age of a lone skew. An older lone skew no longer confirms the skew of a new event.
    static let recentMilliseconds: Int64 = 60 * 60 * 1000
    /// Two skews that differ by at most this much count as equal. The difference may come from rounding to whole
    /// seconds and from a short network delay.
    static let sameSkewMilliseconds: Int64 = 2 * 1000

    /// Returns the correction for an event with this skew, and the rule that gave the correction. Updates the memory
    /// with what the event shows about the clock.
    ///
    /// - Parameters:
    ///   - isOfThisAttempt: true if the send time is `X-Sent-At`, which is set anew at each attempt. False if it is
    ///     `timestamp`, which may come from an earlier attempt.
    ///   - sentAfterMilliseconds: send time minus `occurred_at`, both by the phone's clock.
    mutating func correction(
        forSkew skew: Int64, isOfThisAttempt: Bool, sentAfterMilliseconds: Int64, receivedAt: Moment
    ) -> (milliseconds: Int64, rule: ClockRule) {
        // The last correction is checked before the tolerance. If a clock is wrong by about five minutes, only some
        // skews exceed the tolerance. If only these events were corrected, the order of the events would change.
        if let last = lastCorrectionMilliseconds, last != 0,
            Self.distance(skew, last) <= ClockCorrection.reuseMilliseconds
        {
            return (last, .knownCorrection)
        }
        if skew.magnitude <= ClockCorrection.toleranceMilliseconds {
            sawRightClock = true
            return (0, .rightClock)
        }
        if isOfThisAttempt { return (adopt(skew), .sentAt) }
        // A `timestamp` more than a minute later than `occurred_at` was set when the event was sent. Its skew therefore
        // shows the error of the clock. With any other `timestamp`, the skew may only show a long delay before sending.
        if !hasKnownClock, sentAfterMilliseconds > ClockCorrection.reuseMilliseconds {
            return (adopt(skew), .firstEvents)
        }
        if let agreed = agreed(skew, receivedAt: receivedAt) { return (adopt(agreed), .recentEventsAgree) }
        remember(skew, receivedAt: receivedAt)
        return (lastClock(before: skew), .loneTimestamp)
    }

    private var hasKnownClock: Bool { sawRightClock || lastCorrectionMilliseconds != nil }

    private mutating func adopt(_ correction: Int64) -> Int64 {
        lastCorrectionMilliseconds = correction
        loneSkews.removeAll { Self.distance($0.skewMilliseconds, correction) <= ClockCorrection.reuseMilliseconds }
        return correction
    }

    /// Returns a clock correction if a remembered skew agrees with this skew, and nil if none does. The correction is
    /// the smaller of the two skews, because it contains less network delay.
    ///
    /// If events are received more than a minute apart, skews that differ by at most a minute agree. If the clock were
    /// right, both skews would be long network delays. Two such delays are rarely so similar.
    ///
    /// If events are received within a minute of each other, three skews must differ by at most two seconds. This rule
    /// applies only while nothing is known about the driver's clock.
    ///
    /// Two such skews are not enough. Two events may have happened in one second and waited together for a connection.
    /// Their skews are then equal even if the clock is right.
    private func agreed(_ skew: Int64, receivedAt: Moment) -> Int64? {
        for lone in loneSkews where Self.isRecent(lone, at: receivedAt) {
            let difference = Self.distance(skew, lone.skewMilliseconds)
            let apart = Self.distance(receivedAt.millisecondsSinceEpoch, lone.receivedAt.millisecondsSinceEpoch)
            let isApart = difference <= ClockCorrection.reuseMilliseconds && apart > ClockCorrection.reuseMilliseconds
            let isThird = difference <= Self.sameSkewMilliseconds && lone.count > 1 && !hasKnownClock
            if isApart || isThird { return min(skew, lone.skewMilliseconds) }
        }
        return nil
    }

    private mutating func remember(_ skew: Int64, receivedAt: Moment) {
        loneSkews.removeAll { !Self.isRecent($0, at: receivedAt) }
        let same = loneSkews.firstIndex {
            Self.distance($0.skewMilliseconds, skew) <= Self.sameSkewMilliseconds
        }
        if let same {
            loneSkews[same].count = 2
            return
        }
        loneSkews.append(LoneSkew(skewMilliseconds: skew, receivedAt: receivedAt, count: 1))
        if loneSkews.count > Self.loneSkewsMax { loneSkews.removeFirst() }
    }

    private static func isRecent(_ lone: LoneSkew, at now: Moment) -> Bool {
        distance(now.millisecondsSinceEpoch, lone.receivedAt.millisecondsSinceEpoch) <= recentMilliseconds
    }

    /// Returns the largest known correction that is at most `skew`, or 0 if there is none. `skew` is the clock's error
    /// plus the network delay, so a correction above `skew` is impossible. The largest possible one is chosen, because
    /// it assumes the shortest delay.
    private func lastClock(before skew: Int64) -> Int64 {
        let known = [sawRightClock ? 0 : nil, lastCorrectionMilliseconds].compactMap(\.self)
        return known.filter { $0 <= skew }.max() ?? 0
    }

    /// Returns the absolute difference. It is exact for any two values, because the difference of two `Int64` fits a
    /// `UInt64`.
    private static func distance(_ one: Int64, _ other: Int64) -> UInt64 {
        UInt64(bitPattern: max(one, other) &- min(one, other))
    }
}
