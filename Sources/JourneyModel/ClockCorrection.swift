// A phone's clock against the server's (contract, section 3, "Three times are kept"). Pure: the three times and
// the driver's last correction go in, the corrected time comes out; who remembers the correction is the store.

/// What the three times of one event make of its `occurred_at`.
public struct ClockCorrection: Hashable, Sendable {
    /// `occurred_at` on the server's clock; the time by which events are ordered.
    public var corrected: Moment
    /// Receive time minus send time as measured, network delay included: negative for a clock that is ahead.
    /// 0 when the event has no send time.
    public var skewMilliseconds: Int64
    /// What was added to `occurred_at`: 0, the skew, or the driver's last correction.
    public var correctionMilliseconds: Int64
    /// The driver's last correction that was not zero, to be remembered for the next event; nil when there was
    /// never one. A correction of zero leaves it: another device of the driver may have a right clock.
    public var lastCorrectionMilliseconds: Int64?

    /// Clocks that differ by no more than this are left alone.
    public static let toleranceMilliseconds: Int64 = 5 * 60 * 1000
    /// Skews this close to each other are one phone's, told apart by network delay only.
    public static let reuseMilliseconds: Int64 = 60 * 1000

    /// - Parameters:
    ///   - sentAt: by the clock that `occurredAt` was read from; nil when unknown, then nothing is corrected.
    ///   - lastCorrectionMilliseconds: `lastCorrectionMilliseconds` of the driver's event that arrived before.
    ///
    /// The last correction is tried before the tolerance is: a clock that is off by about five minutes would
    /// otherwise be corrected for one delivery and not for the next, and its events change places.
    public init(occurredAt: Moment, sentAt: Moment?, receivedAt: Moment, lastCorrectionMilliseconds: Int64?) {
        let skew = sentAt.map { receivedAt.milliseconds(since: $0) } ?? 0
        let correction: Int64
        if sentAt != nil, let last = lastCorrectionMilliseconds, last != 0,
            Self.distance(skew, last) <= Self.reuseMilliseconds
        {
            correction = last
        } else {
            correction = skew.magnitude > Self.toleranceMilliseconds ? skew : 0
        }
        let shifted = occurredAt.advanced(byMilliseconds: correction)
        let isAhead = shifted.milliseconds(since: receivedAt) > Self.toleranceMilliseconds
        corrected = isAhead ? receivedAt : shifted
        skewMilliseconds = skew
        correctionMilliseconds = correction
        self.lastCorrectionMilliseconds = correction == 0 ? lastCorrectionMilliseconds : correction
    }

    /// Exact for any two, since a difference of two `Int64` fits a `UInt64`.
    private static func distance(_ one: Int64, _ other: Int64) -> UInt64 {
        UInt64(bitPattern: max(one, other) &- min(one, other))
    }
}
