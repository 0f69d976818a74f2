// The memory of a driver's clocks between events, and the correction that follows from it (contract, section 3,
// "Clocks"). Pure. Small, because it is stored in the driver's row.

/// The clocks that a driver's events have shown so far, in the order of their arrival.
public struct ClockMemory: Hashable, Sendable {
    /// A skew that only a `timestamp` showed and no other event confirmed.
    public struct LoneSkew: Hashable, Sendable {
        public var skewMilliseconds: Int64
        /// When the first event with this skew was received.
        public var receivedAt: Moment
        /// Number of events with this skew, within the 2 s by which whole-second times differ; 2 also stands for more.
        public var count: UInt8

        public init(skewMilliseconds: Int64, receivedAt: Moment, count: UInt8) {
            self.skewMilliseconds = skewMilliseconds
            self.receivedAt = receivedAt
            self.count = count
        }
    }

    /// The last correction that was accepted and not zero.
    public var lastCorrectionMilliseconds: Int64?
    /// Whether some event had a clock that is right within the tolerance.
    public var sawRightClock: Bool
    /// Oldest first, at most `loneSkewsMax`.
    public var loneSkews: [LoneSkew]

    public static let loneSkewsMax = 4

    public init(
        lastCorrectionMilliseconds: Int64? = nil, sawRightClock: Bool = false, loneSkews: [LoneSkew] = []
    ) {
        self.lastCorrectionMilliseconds = lastCorrectionMilliseconds
        self.sawRightClock = sawRightClock
        self.loneSkews = loneSkews
    }

    /// A lone skew older than this is not used.
    static let recentMilliseconds: Int64 = 60 * 60 * 1000
    /// The largest difference of two skews measured with whole-second times of one clock, a little delay included.
    static let sameSkewMilliseconds: Int64 = 2 * 1000

    /// Returns the correction for an event with this skew and the rule that gave it, and updates the memory.
    ///
    /// - Parameters:
    ///   - isOfThisAttempt: true if the send time is `X-Sent-At`; false if it is `timestamp`, which a retry may
    ///     repeat.
    ///   - sentAfterMilliseconds: send time minus `occurred_at`, by the phone's clock.
    mutating func correction(
        forSkew skew: Int64, isOfThisAttempt: Bool, sentAfterMilliseconds: Int64, receivedAt: Moment
    ) -> (milliseconds: Int64, rule: ClockRule) {
        // Checked before the tolerance: otherwise a clock that is off by about five minutes is corrected for one
        // delivery and not for the next, and its events change places.
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
        // A `timestamp` equal to `occurred_at` does not show when the event was sent; a later `timestamp` was set at
        // sending.
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

    /// Returns the correction if a remembered skew agrees with this one: the smaller of the two, which contains less
    /// delay.
    ///
    /// Two skews agree if the phone's clock and the server's clock advanced equally between the events. Equal skews of
    /// two events received more than a minute apart show this, since two late attempts would have to be late by the
    /// same time. Skews within one burst show it only if they are equal within 2 s, from the third event on, and only
    /// while no clock is known: two events of the same second that waited together also have equal skews.
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

    /// Returns the largest known correction that is not above `skew`, or 0 if there is none. Delay only adds to a
    /// skew, so this choice assumes the shortest delay.
    private func lastClock(before skew: Int64) -> Int64 {
        let known = [sawRightClock ? 0 : nil, lastCorrectionMilliseconds].compactMap(\.self)
        return known.filter { $0 <= skew }.max() ?? 0
    }

    /// Returns the absolute difference, exact for any two values, since the difference of two `Int64` fits a `UInt64`.
    private static func distance(_ one: Int64, _ other: Int64) -> UInt64 {
        UInt64(bitPattern: max(one, other) &- min(one, other))
    }
}
